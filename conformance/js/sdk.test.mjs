// The JavaScript SDK against a real server.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import {
  AuthenticationError,
  CommandExitError,
  InvalidArgumentError,
  NotFoundError,
  Sandbox,
  SandboxError,
  SandboxNotFoundError,
  TimeoutError,
} from 'e2b'

import { startServer, waitUntil } from './server.mjs'

const NO_SUCH_PID = 999999

let server
let sandbox

before(async () => {
  server = await startServer()
  sandbox = await Sandbox.create({ timeoutMs: 600_000 })
})

after(async () => {
  await sandbox?.kill()
  await server?.stop()
})

const pids = async () => (await sandbox.commands.list()).map((process) => process.pid)

test('a sandbox is created, found, connected to and killed', async () => {
  const box = await Sandbox.create({ timeoutMs: 60_000, metadata: { purpose: 'a & b' } })
  assert.equal(await box.isRunning(), true)
  const info = await box.getInfo()
  assert.deepEqual(info.metadata, { purpose: 'a & b' })
  assert.equal(info.state, 'running')
  const listed = await Sandbox.list({ query: { metadata: { purpose: 'a & b' } } }).nextItems()
  assert.deepEqual(listed.map((entry) => entry.sandboxId), [box.sandboxId])
  const again = await Sandbox.connect(box.sandboxId)
  assert.equal((await again.commands.run('echo hi')).stdout, 'hi\n')
  await box.setTimeout(120_000)
  assert.ok((await box.getInfo()).endAt > info.endAt)
  assert.equal(await box.kill(), true)
  assert.equal(await box.isRunning(), false)
  assert.equal(await box.kill(), false)
})

test('a wrong key and an unknown sandbox are told apart', async () => {
  await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), AuthenticationError)
  await assert.rejects(Sandbox.connect('inosuchsandbox'), SandboxNotFoundError)
})

test('a command gives its output and exit code', async () => {
  const result = await sandbox.commands.run('echo out; echo err >&2')
  assert.equal(result.stdout, 'out\n')
  assert.equal(result.stderr, 'err\n')
  assert.equal(result.exitCode, 0)
})

test('another exit code is an error with the output', async () => {
  await assert.rejects(sandbox.commands.run('echo why >&2; exit 42'), (error) => {
    assert.ok(error instanceof CommandExitError)
    assert.equal(error.exitCode, 42)
    assert.equal(error.stderr, 'why\n')
    return true
  })
})

test('variables and a directory reach the command', async () => {
  const result = await sandbox.commands.run('echo $WORD; pwd', { envs: { WORD: 'ok' }, cwd: '/usr' })
  assert.equal(result.stdout, 'ok\n/usr\n')
  await assert.rejects(sandbox.commands.run('pwd', { cwd: '/no/such/place' }), InvalidArgumentError)
})

test('an unknown user is refused', async () => {
  await assert.rejects(sandbox.commands.run('id', { user: 'nobody-here' }), AuthenticationError)
})

test('callbacks see lines in order', async () => {
  const seen = []
  await sandbox.commands.run('for i in 1 2 3; do echo $i; sleep 0.1; done', {
    onStdout: (text) => seen.push(text),
  })
  assert.deepEqual(seen, ['1\n', '2\n', '3\n'])
})

test('a hundred thousand lines arrive in order', async () => {
  const result = await sandbox.commands.run('seq 1 100000')
  const expected = Array.from({ length: 100_000 }, (_, index) => `${index + 1}\n`).join('')
  assert.ok(result.stdout === expected)
})

test('a character split between reads arrives whole', async () => {
  const result = await sandbox.commands.run(String.raw`printf '\303'; sleep 0.2; printf '\244\n'`)
  assert.equal(result.stdout, 'ä\n')
})

test('a timeout is an error and the process is dead', async () => {
  const run = sandbox.commands.run('echo $$ > timed-out; sleep 1000', { timeoutMs: 1000 })
  await assert.rejects(run, TimeoutError)
  const probe = 'kill -0 $(cat timed-out) 2>/dev/null && echo alive || echo dead'
  const dead = async () => (await sandbox.commands.run(probe)).stdout === 'dead\n'
  assert.ok(await waitUntil(dead, 5))
})

test('a background command is waited for, disconnected from and reconnected to', async () => {
  const handle = await sandbox.commands.run('sleep 0.5; echo late', { background: true })
  assert.ok((await pids()).includes(handle.pid))
  await handle.disconnect()
  const again = await sandbox.commands.connect(handle.pid)
  assert.equal((await again.wait()).stdout, 'late\n')
  assert.ok(!(await pids()).includes(handle.pid))
})

test('standard input is fed and closed', async () => {
  const handle = await sandbox.commands.run('cat; echo end', { background: true, stdin: true })
  await sandbox.commands.sendStdin(handle.pid, 'one\n')
  await handle.sendStdin(new TextEncoder().encode('two\n'))
  await sandbox.commands.closeStdin(handle.pid)
  assert.equal((await handle.wait()).stdout, 'one\ntwo\nend\n')
})

test('input without a pipe is refused', async () => {
  const handle = await sandbox.commands.run('sleep 30', { background: true })
  await assert.rejects(sandbox.commands.sendStdin(handle.pid, 'x'), SandboxError)
  await handle.kill()
})

test('killing answers whether there was something to kill', async () => {
  const handle = await sandbox.commands.run('sleep 1000', { background: true })
  assert.equal(await handle.kill(), true)
  await assert.rejects(handle.wait(), (error) => {
    assert.ok(error instanceof CommandExitError)
    assert.equal(error.exitCode, -1)
    assert.equal(error.error, 'signal: killed')
    return true
  })
  assert.equal(await sandbox.commands.kill(NO_SUCH_PID), false)
})

test('an unknown pid is not found', async () => {
  await assert.rejects(sandbox.commands.connect(NO_SUCH_PID), NotFoundError)
  await assert.rejects(sandbox.commands.sendStdin(NO_SUCH_PID, 'x'), NotFoundError)
})

test('a list shows what runs', async () => {
  const handle = await sandbox.commands.run('sleep 1000', { background: true, cwd: '/usr' })
  const entry = (await sandbox.commands.list()).find((process) => process.pid === handle.pid)
  assert.equal(entry.cmd, '/bin/bash')
  assert.deepEqual(entry.args, ['-l', '-c', 'sleep 1000'])
  assert.equal(entry.cwd, '/usr')
  await handle.kill()
  assert.ok(!(await pids()).includes(handle.pid))
})

test('a terminal is typed into, resized, joined and killed', async () => {
  let shown = ''
  let joined = ''
  const decoder = new TextDecoder()
  const onData = (data) => (shown += decoder.decode(data, { stream: true }))
  const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData })
  const second = await sandbox.pty.connect(terminal.pid, {
    onData: (data) => (joined += new TextDecoder().decode(data)),
  })
  const type = (text) => sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode(text))
  await type('stty size\n')
  assert.ok(await waitUntil(() => shown.includes('24 80')), shown)
  await sandbox.pty.resize(terminal.pid, { cols: 132, rows: 40 })
  await type('stty size\n')
  assert.ok(await waitUntil(() => shown.includes('40 132')), shown)
  assert.ok(await waitUntil(() => joined.includes('40 132')), joined)
  assert.equal(await sandbox.pty.kill(terminal.pid), true)
  await assert.rejects(terminal.wait(), CommandExitError)
  await assert.rejects(second.wait(), CommandExitError)
})

test('fifty commands at once do not mix', async () => {
  const runs = Array.from({ length: 50 }, (_, number) => sandbox.commands.run(`sleep 0.1; echo ${number}`))
  const results = await Promise.all(runs)
  assert.deepEqual(results.map((result) => result.stdout), Array.from({ length: 50 }, (_, n) => `${n}\n`))
})

test('a sandbox killed mid-stream ends its streams', async () => {
  const box = await Sandbox.create()
  const handle = await box.commands.run('while :; do echo tick; sleep 0.05; done', {
    background: true,
    timeoutMs: 0,
  })
  assert.ok(await waitUntil(() => handle.stdout.includes('tick')))
  const waiting = assert.rejects(handle.wait(), (error) => {
    assert.ok(error instanceof TimeoutError, `${error}`)
    assert.match(error.message, /was killed or reached its end of life|was not found/)
    return true
  })
  await box.kill()
  await waiting
})

test('calls after a kill say that the sandbox is gone', async () => {
  const box = await Sandbox.create()
  await box.kill()
  await assert.rejects(box.commands.run('true'), (error) => {
    assert.ok(error instanceof TimeoutError || error instanceof SandboxNotFoundError, `${error}`)
    return true
  })
  await assert.rejects(box.commands.list(), TimeoutError)
})

test('a sandbox ends at its deadline', async () => {
  const box = await Sandbox.create({ timeoutMs: 1000 })
  assert.ok(await waitUntil(async () => !(await box.isRunning())))
})
