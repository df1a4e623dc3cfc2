// TanStack's chat client reads whole runs, over server-sent events and over its HTTP stream.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'

import { toolDefinition } from '@tanstack/ai'
import { ChatClient, fetchHttpStream, fetchServerSentEvents } from '@tanstack/ai-client'

import { calling, forbidWarnings, scripted, startServer } from './runs.mjs'

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

/** A chat client whose requests and chunks are kept; `props` gives each request's own choices. */
function chat(adapter, accept, props, more = {}) {
  const seen = { chunks: [], custom: [], requests: [], errors: [] }
  const fetchClient = (url, init) => {
    const body = JSON.parse(init.body)
    body.forwardedProps = props(seen.requests.length)
    seen.requests.push(body)
    return fetch(url, { ...init, body: JSON.stringify(body) })
  }
  const client = new ChatClient({
    connection: adapter(`${server.url}/agui`, { headers: { 'X-API-Key': server.key, Accept: accept }, fetchClient }),
    onChunk: (chunk) => seen.chunks.push(chunk),
    onCustomEvent: (name, value) => seen.custom.push({ name, value }),
    onError: (error) => seen.errors.push(error),
    ...more,
  })
  return { client, seen }
}

const partsOf = (client) => client.getMessages().filter(({ role }) => role === 'assistant').flatMap(({ parts }) => parts)
const textOf = (client) => partsOf(client).filter(({ type }) => type === 'text').map(({ content }) => content)

for (const [form, adapter, accept] of [
  ['server-sent events', fetchServerSentEvents, 'text/event-stream'],
  ['HTTP stream', fetchHttpStream, 'application/x-ndjson'],
]) {
  describe(form, () => {
    test('text and thoughts become parts of the answer', async () => {
      const { client, seen } = chat(adapter, accept, () => scripted({ reasoning: 'They greet.', text: 'Good day to you' }))
      await client.sendMessage('hello')
      assert.deepEqual(seen.errors, [])
      assert.deepEqual(textOf(client), ['Good day to you'])
      assert.deepEqual(partsOf(client).filter(({ type }) => type === 'thinking').map(({ content }) => content), ['They greet.'])
      assert.equal(client.getStatus(), 'ready')
    })

    test('tools of the sandbox are shown with their results and no further turn is sent', async () => {
      const round = { text: 'Let me see.', ...calling(['shell', { command: 'echo out' }], ['no_such_tool', {}]) }
      const { client, seen } = chat(adapter, accept, () => scripted(round, { text: 'All seen.' }))
      await client.sendMessage('look')
      assert.deepEqual(seen.errors, [])
      const calls = partsOf(client).filter(({ type }) => type === 'tool-call')
      assert.deepEqual(calls.map(({ name, input }) => [name, input]), [['shell', { command: 'echo out' }], ['no_such_tool', {}]])
      const results = partsOf(client).filter(({ type }) => type === 'tool-result')
      assert.deepEqual(calls.map(({ id }) => results.find(({ toolCallId }) => toolCallId === id).state), ['complete', 'error'])
      assert.deepEqual(textOf(client), ['Let me see.', 'All seen.'])
      assert.equal(seen.requests.length, 1)
    })

    test('what the sandbox does arrives as custom events', async () => {
      const write = calling(['write_file', { path: 'notes.txt', content: 'one\n' }])
      const { client, seen } = chat(adapter, accept, () => scripted(write, { text: 'Written.' }))
      await client.sendMessage('write')
      assert.deepEqual(seen.errors, [])
      const file = seen.custom.find(({ name, value }) => name === 'sandbox.file' && value.path.endsWith('notes.txt'))
      assert.equal(file?.value.type, 'create')
      assert.match(seen.custom.find(({ name }) => name === 'file.changed').value.diff, /\+one/)
    })

    test('a tool of the client is executed and its answer sent in a second run', async () => {
      const pick = toolDefinition({
        name: 'pick_color',
        description: 'Asks for a color.',
        inputSchema: { type: 'object', properties: { of: { type: 'string' } }, required: ['of'] },
      }).client(({ of }) => `${of}: blue`)
      const props = (turn) =>
        turn === 0
          ? scripted({ text: 'May I?', ...calling(['pick_color', { of: 'door' }]) }, { text: 'I have asked.' })
          : scripted({ text: 'Blue it is.' })
      const { client, seen } = chat(adapter, accept, props, { tools: [pick] })
      await client.sendMessage('paint it')
      assert.deepEqual(seen.errors, [])
      assert.equal(seen.requests.length, 2)
      assert.deepEqual(seen.requests[0].tools.map(({ name }) => name), ['pick_color'])
      assert.equal(seen.requests[1].messages.find(({ role }) => role === 'tool').content, 'door: blue')
      assert.equal(textOf(client).at(-1), 'Blue it is.')
    })

    test('what a policy has to ask for is asked and the run goes on', async () => {
      const props = scripted(calling(['shell', { command: 'ls' }]), { text: 'Not done.' })
      const { client, seen } = chat(adapter, accept, () => ({ ...props, policy: { default: 'ask' } }))
      await client.sendMessage('go')
      assert.deepEqual(seen.errors, [])
      assert.deepEqual(textOf(client), ['Not done.'])
      const question = seen.chunks.find(({ type, name }) => type === 'CUSTOM' && name === 'approval-requested')
      assert.equal(question.value.approval.id, 'builtin:command:ls')
    })

    test('a run that fails is an error with its reason', async () => {
      const { client, seen } = chat(adapter, accept, () => scripted(calling(['shell', { command: 'true' }])))
      await client.sendMessage('go')
      assert.equal(client.getStatus(), 'error')
      assert.notEqual(seen.errors[0].message, '')
      const error = seen.chunks.find(({ type }) => type === 'RUN_ERROR')
      assert.equal(error.code, 'model_error')
    })
  })
}
