// What the suites share: a server, scripts for its model without a model, and clients that keep all they read.

import { HttpAgent } from '@ag-ui/client'
import { decode } from '@ag-ui/proto'

export { startServer } from '../js/server.mjs'

export const SSE = 'text/event-stream'
export const NDJSON = 'application/vnd.ag-ui.event+ndjson'
export const PROTO = 'application/vnd.ag-ui.event+proto'

/** `forwardedProps` of a run whose model answers from a script, round by round. */
export function scripted(...rounds) {
  return { config: { model: { provider: 'scripted', script: rounds } } }
}

/** A round that calls tools. */
export function calling(...calls) {
  return { tool_calls: calls.map(([name, args]) => ({ name, args })) }
}

/** An `HttpAgent` for the server; the parser it uses is chosen by what comes back. */
export function agentOf(server, { accept = SSE, path = '/agui', ...more } = {}) {
  const ask = (url, init) => fetch(url, { ...init, headers: { ...init.headers, Accept: accept } })
  return new HttpAgent({ url: server.url + path, headers: { 'X-API-Key': server.key }, fetch: ask, ...more })
}

/** Runs the agent to its end and gives every event that reached the application. */
export async function run(agent, prompt, parameters) {
  if (prompt !== undefined) agent.addMessage({ id: crypto.randomUUID(), role: 'user', content: prompt })
  const events = []
  let pending = []
  const outcome = await agent.runAgent(parameters, {
    onEvent: ({ event }) => void events.push(event),
    onRunFinishedEvent: ({ pendingToolCallIds }) => void (pending = pendingToolCallIds ?? []),
  })
  return { events, pending, ...outcome }
}

export const typesOf = (events) => events.map((event) => event.type)
export const customOf = (events, name) => events.filter((event) => event.type === 'CUSTOM' && event.name === name)
export const runIdOf = (events) => events[0].metadata.mayfly.runId

/** What the server keeps of a run, in one of the three forms. */
export async function kept(server, runId, accept, headers = {}) {
  const answer = await fetch(`${server.url}/runs/${runId}/stream`, {
    headers: { 'X-API-Key': server.key, Accept: accept, ...headers },
  })
  // A run that is over has nothing more for whoever has read it all.
  if (answer.status === 204) return Buffer.alloc(0)
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`)
  if (answer.headers.get('content-type') !== accept) throw new Error(`it is ${answer.headers.get('content-type')}`)
  return Buffer.from(await answer.arrayBuffer())
}

/** Server-sent events with their ids. */
export function readSse(bytes) {
  const frames = bytes.toString().split('\n\n').filter((frame) => frame !== '' && !frame.startsWith(':'))
  return frames.map((frame) => {
    const [, id, data] = /^id: (\S+)\ndata: (.+)$/.exec(frame)
    return { id, event: JSON.parse(data) }
  })
}

export function readNdjson(bytes) {
  return bytes.toString().split('\n').filter(Boolean).map((line) => JSON.parse(line))
}

export function readProto(bytes) {
  const events = []
  for (let start = 0; start < bytes.length; ) {
    const end = start + 4 + bytes.readUInt32BE(start)
    events.push(decode(bytes.subarray(start + 4, end)))
    start = end
  }
  return events
}

/** Clients say by a warning that they strip what they do not know; here it is a failure. */
export function forbidWarnings() {
  const warnings = []
  const { warn } = console
  console.warn = (...words) => void warnings.push(words.join(' '))
  return () => {
    console.warn = warn
    return warnings
  }
}
