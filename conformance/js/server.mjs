// A real server for the tests: started once a file, stopped at the end, and nothing may be left of it.

import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const PROGRAM = fileURLToPath(new URL('../../target/release/mayfly', import.meta.url))

/** Starts `mayfly serve` on a free port and points the SDK at it. */
export async function startServer() {
  if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is missing: run \`cargo xtask build\` first`)
  // A short path: Unix sockets below it have at most 107 bytes for theirs.
  const data = mkdtempSync('/tmp/mayfly-')
  const key = 'e2b_' + randomBytes(20).toString('hex')
  const tier = process.env.MAYFLY_TEST_TIER ?? 'process'
  const options = ['serve', '--listen', '127.0.0.1:0', '--data', data, '--tier', tier]
  const child = spawn(PROGRAM, options, {
    env: { PATH: process.env.PATH, MAYFLY_API_KEY: key, MAYFLY_LOG: 'warn' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const url = await address(child)
  for (const name of Object.keys(process.env)) {
    if (name.startsWith('E2B_')) delete process.env[name]
  }
  Object.assign(process.env, { E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: key })

  /** Asks the server to end; throws when something was left behind. */
  async function stop() {
    child.kill('SIGINT')
    const code = await Promise.race([ended, sleep(30_000, 'a timeout', { ref: false })])
    if (code === 'a timeout') child.kill('SIGKILL')
    let left = processesOf(data)
    for (let tries = 0; left.length > 0 && tries < 100; tries += 1) {
      await sleep(50)
      left = processesOf(data)
    }
    const sandboxes = `${data}/sandboxes`
    // The server keeps blank disks in a directory that no sandbox is named like.
    const directories = existsSync(sandboxes) ? readdirSync(sandboxes).filter((name) => !name.startsWith(".")) : []
    rmSync(data, { recursive: true })
    if (code !== 0) throw new Error(`the server ended with ${code}`)
    if (left.length > 0) throw new Error(`processes left behind: ${left}`)
    if (directories.length > 0) throw new Error(`sandboxes left behind: ${directories}`)
  }

  return { url, key, data, stop }
}

function address(child) {
  return new Promise((resolve, reject) => {
    const lines = createInterface({ input: child.stdout })
    lines.on('line', (line) => {
      const found = /listening on (http:\/\/127\.0\.0\.1:\d+)/.exec(line)
      if (found) resolve(found[1])
    })
    lines.once('close', () => reject(new Error('the server ended before it listened')))
  })
}

/** Processes that name the directory in their arguments, environment or working directory. */
function processesOf(directory) {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false
    try {
      const files = ['cmdline', 'environ'].map((name) => readFileSync(`/proc/${pid}/${name}`, 'latin1'))
      return [...files, readlinkSync(`/proc/${pid}/cwd`)].some((text) => text.includes(directory))
    } catch {
      return false // It ended while we looked, or is not ours to see.
    }
  })
}

/** Polls until the condition holds; false when it does not within the time. */
export async function waitUntil(condition, seconds = 10) {
  const deadline = Date.now() + seconds * 1000
  while (Date.now() < deadline) {
    if (await condition()) return true
    await sleep(20)
  }
  return Boolean(await condition())
}
