// `HttpAgent` of @ag-ui/client reads whole runs, as JSON and as protobuf.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'

import {
  NDJSON, PROTO, SSE, agentOf, calling, customOf, forbidWarnings, kept, readNdjson, readProto, readSse, run, runIdOf,
  scripted, startServer, typesOf,
} from './runs.mjs'

let server
let warnings

before(async () => {
  warnings = forbidWarnings()
  server = await startServer()
})

after(async () => {
  await server?.stop()
  assert.deepEqual(warnings(), [])
})

const last = (list) => list[list.length - 1]
const COLOR = { name: 'pick_color', description: 'Asks for a color.', parameters: { type: 'object' } }

for (const [form, accept] of [['server-sent events', SSE], ['protobuf', PROTO]]) {
  describe(form, () => {
    const fresh = () => agentOf(server, { accept })

    test('text comes in pieces and makes one message', async () => {
      const agent = fresh()
      const { events, newMessages, result } = await run(agent, 'hello', {
        runId: 'first', forwardedProps: scripted({ text: 'Good day to you' }),
      })
      assert.equal(events[0].type, 'RUN_STARTED')
      assert.deepEqual([events[0].threadId, events[0].runId], [agent.threadId, 'first'])
      assert.ok(events.filter((event) => event.type === 'TEXT_MESSAGE_CONTENT').length > 1)
      assert.deepEqual(newMessages.map(({ role, content }) => [role, content]), [['assistant', 'Good day to you']])
      assert.deepEqual(result, { message: 'Good day to you' })
      assert.equal(last(events).type, 'RUN_FINISHED')
      assert.equal(last(events).metadata.tanstack.finishReason, 'stop')
      assert.ok(events.every(({ timestamp }) => Number.isSafeInteger(timestamp)))
    })

    test('a thought is a message of its own before the text', async () => {
      const { newMessages } = await run(fresh(), 'hello', {
        forwardedProps: scripted({ reasoning: 'They greet.', text: 'Hello' }),
      })
      assert.deepEqual(newMessages.map(({ role, content }) => [role, content]), [
        ['reasoning', 'They greet.'],
        ['assistant', 'Hello'],
      ])
      assert.equal(new Set(newMessages.map(({ id }) => id)).size, 2)
    })

    test('tool calls have arguments and results and belong to the message before them', async () => {
      const round = { text: 'Let me see.', ...calling(['shell', { command: 'echo out' }], ['no_such_tool', { a: [1] }]) }
      const { events, newMessages, pending } = await run(fresh(), 'look', {
        forwardedProps: scripted(round, { text: 'All seen.' }),
      })
      const [first, ...rest] = newMessages
      assert.equal(first.content, 'Let me see.')
      assert.deepEqual(first.toolCalls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]), [
        ['shell', { command: 'echo out' }],
        ['no_such_tool', { a: [1] }],
      ])
      assert.deepEqual(rest.map(({ role }) => role), ['tool', 'tool', 'assistant'])
      const answers = new Map(rest.filter(({ role }) => role === 'tool').map((answer) => [answer.toolCallId, answer]))
      const [good, bad] = first.toolCalls.map((call) => answers.get(call.id))
      assert.match(good.content, /out/)
      assert.equal(good.metadata.tanstack, undefined)
      assert.equal(bad.metadata.tanstack.state, 'output-error')
      assert.equal(last(rest).content, 'All seen.')
      assert.deepEqual(pending, [])
      assert.equal(typesOf(events).filter((type) => type === 'TOOL_CALL_RESULT').length, 2)
    })

    test('a changed file is told as it happens and the whole difference before the end', async () => {
      const write = calling(['write_file', { path: 'notes.txt', content: 'one\n' }])
      const { events } = await run(fresh(), 'write', { forwardedProps: scripted(write, { text: 'Written.' }) })
      const files = customOf(events, 'sandbox.file').map(({ value }) => value)
      const created = files.find(({ type, path }) => type === 'create' && path.endsWith('notes.txt'))
      assert.ok(created, JSON.stringify(files))
      assert.ok(Number.isSafeInteger(created.timestamp))
      const [changed, ...more] = customOf(events, 'file.changed')
      assert.equal(more.length, 0)
      assert.equal(changed.value.path, '.')
      assert.match(changed.value.diff, /\+one/)
    })

    test('a run that fails ends with its code and reason', async () => {
      const { events } = await run(fresh(), 'go', { forwardedProps: scripted(calling(['shell', { command: 'true' }])) })
      const { type, code, message } = last(events)
      assert.deepEqual([type, code], ['RUN_ERROR', 'model_error'])
      assert.notEqual(message, '')
    })

    test('a tool of the client waits for it, and the next run has its answer', async () => {
      const agent = fresh()
      const first = await run(agent, 'paint it', {
        tools: [COLOR],
        forwardedProps: scripted({ text: 'May I?', ...calling(['pick_color', { of: 'door' }]) }, { text: 'I have asked.' }),
      })
      const [call] = first.newMessages.flatMap(({ toolCalls }) => toolCalls ?? [])
      assert.deepEqual([call.function.name, JSON.parse(call.function.arguments)], ['pick_color', { of: 'door' }])
      assert.deepEqual(first.pending, [call.id])
      assert.deepEqual(last(first.events).outcome, { type: 'success', pendingToolCallIds: [call.id] })
      assert.ok(!typesOf(first.events).includes('TOOL_CALL_RESULT'))

      agent.addMessage({ id: 'answer', role: 'tool', toolCallId: call.id, content: 'blue' })
      const second = await run(agent, undefined, { tools: [COLOR], forwardedProps: scripted({ text: 'Blue it is.' }) })
      assert.equal(second.events[0].threadId, first.events[0].threadId)
      assert.deepEqual(second.result, { message: 'Blue it is.' })
      // A model accepts an answer only right behind the message that asks for it.
      assert.deepEqual(agent.messages.map(({ role }) => role), ['user', 'assistant', 'tool', 'assistant'])
      assert.equal(new Set(agent.messages.map(({ id }) => id)).size, 4)
    })
  })
}

test('what a policy has to ask for is denied and asked for', async () => {
  const { events, newMessages } = await run(agentOf(server), 'go', {
    forwardedProps: { ...scripted(calling(['shell', { command: 'ls' }]), { text: 'Not done.' }), policy: { default: 'ask' } },
  })
  const [question] = customOf(events, 'approval-requested')
  assert.equal(question.value.approvalId, 'builtin:command:ls')
  assert.deepEqual(question.value.approval, { id: question.value.approvalId, needsApproval: true })
  assert.equal(newMessages.find(({ role }) => role === 'tool').metadata.tanstack.state, 'output-error')
  assert.equal(last(events).type, 'RUN_FINISHED')
})

test('a stream goes on behind every one of its ids, and nothing comes twice or is lost', async () => {
  const write = calling(['write_file', { path: 'a', content: '' }], ['shell', { command: 'echo hi' }])
  const { events } = await run(agentOf(server), 'go', {
    forwardedProps: scripted({ reasoning: 'Hm.', text: 'Now.', ...write }, { text: 'Done and done' }),
  })
  const runId = runIdOf(events)
  const whole = readSse(await kept(server, runId, SSE))
  assert.deepEqual(whole.map(({ event }) => event), events)
  assert.equal(new Set(whole.map(({ id }) => id)).size, whole.length)
  for (const [index, { id }] of whole.entries()) {
    const rest = readSse(await kept(server, runId, SSE, { 'Last-Event-ID': id }))
    assert.deepEqual(rest, whole.slice(index + 1), `after ${id}`)
  }
})

test('the three forms say the same', async () => {
  const { events } = await run(agentOf(server), 'go', {
    forwardedProps: scripted(
      { reasoning: 'Hm.', text: 'Nöw. ☂', ...calling(['shell', { command: 'echo', deep: [{ a: null, b: [true, -1.5e10] }] }]) },
      { text: 'Done' },
    ),
  })
  const runId = runIdOf(events)
  assert.deepEqual(readNdjson(await kept(server, runId, NDJSON)), events)
  assert.deepEqual(readProto(await kept(server, runId, PROTO)), events)
})

test('POST /stream speaks AG-UI too', async () => {
  for (const accept of [SSE, PROTO]) {
    const agent = agentOf(server, { accept, path: '/stream' })
    agent.requestInit = () => ({
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-API-Key': server.key },
      body: JSON.stringify({ prompt: 'hello', ...scripted({ text: 'Hello yourself' }) }),
    })
    const { events, result } = await run(agent, 'hello')
    assert.deepEqual(result, { message: 'Hello yourself' })
    const runId = runIdOf(events)
    assert.deepEqual([events[0].threadId, events[0].runId], [runId, runId])
  }
})

test('a front end that stops a run ends it', async () => {
  const agent = agentOf(server)
  let runId
  agent.addMessage({ id: 'u', role: 'user', content: 'wait' })
  await agent.runAgent({ forwardedProps: scripted({ text: 'late', delay_ms: 60_000 }) }, {
    onRunStartedEvent: ({ event }) => {
      runId = event.metadata.mayfly.runId
      agent.abortRun()
    },
  }).catch(() => {})
  const stream = readSse(await kept(server, runId, SSE)).map(({ event }) => event)
  assert.deepEqual([last(stream).type, last(stream).code], ['RUN_ERROR', 'cancelled'])
})

test('a request that cannot be understood says where', async (t) => {
  // The client prints what it throws.
  t.mock.method(console, 'error', () => {})
  const headers = { 'X-API-Key': server.key, 'Content-Type': 'application/json' }
  const body = JSON.stringify({ threadId: 't', runId: 'r', messages: [{ id: 'u', role: 'user', content: 7 }] })
  const answer = await fetch(`${server.url}/agui`, { method: 'POST', headers, body })
  assert.equal(answer.status, 400)
  assert.match((await answer.json()).message, /messages\[0\]\.content/)
  await assert.rejects(run(agentOf(server), '', {}), /400/)
})
