// Runs commands in a sandbox with the E2B JavaScript SDK; output is shown as it comes.
//
//   npm install e2b
//   export E2B_API_URL=http://127.0.0.1:3000 E2B_SANDBOX_URL=http://127.0.0.1:3000
//   export E2B_API_KEY=e2b_...          # `cargo xtask serve` prints it
//   node commands-stream.mjs
//
// Expected output:
//   stdout: 1
//   stdout: 2
//   stdout: 3
//   stderr: done counting
//   exit code 0
//   sorted: apple pear
//   exit code 7: the light is off
//   killed: true
//   running commands: 0

import { CommandExitError, Sandbox } from 'e2b'

const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
try {
  // In the foreground: callbacks see each line while the command runs.
  const result = await sandbox.commands.run(
    'for i in 1 2 3; do echo $i; sleep 0.2; done; echo done counting >&2',
    {
      onStdout: (line) => process.stdout.write(`stdout: ${line}`),
      onStderr: (line) => process.stdout.write(`stderr: ${line}`),
    },
  )
  console.log('exit code', result.exitCode)

  // In the background, with standard input.
  const sort = await sandbox.commands.run('sort | xargs', { background: true, stdin: true })
  await sort.sendStdin('pear\n')
  await sort.sendStdin('apple\n')
  await sort.closeStdin()
  process.stdout.write(`sorted: ${(await sort.wait()).stdout}`)

  // Any exit code but 0 is an error that carries the output.
  try {
    await sandbox.commands.run('echo the light is off >&2; exit 7')
  } catch (failure) {
    if (!(failure instanceof CommandExitError)) throw failure
    process.stdout.write(`exit code ${failure.exitCode}: ${failure.stderr}`)
  }

  // A command lives until it ends or is killed, whether or not somebody listens.
  const sleeper = await sandbox.commands.run('sleep 600', { background: true })
  await sleeper.disconnect()
  console.log('killed:', await sandbox.commands.kill(sleeper.pid))
  console.log('running commands:', (await sandbox.commands.list()).length)
} finally {
  await sandbox.kill()
}
