// Lets an agent edit files in a sandbox, and reads what changed from its stream of AG-UI events.
//
//   export E2B_API_URL=http://127.0.0.1:3000
//   export E2B_API_KEY=e2b_...          # `cargo xtask serve` prints it
//   node file-changed.mjs
//
// The model here is a script, so that nothing else is needed. With a real one, `model` is
// e.g. { provider: 'anthropic', name: '...', api_key: '...' }, and the prompt counts.
//
// Expected output:
//   create: greeting.txt
//   create: list.txt
//   result: I wrote two files.
//   diff --git a/greeting.txt b/greeting.txt
//   new file mode 100644
//   index 0000000..ce01362
//   --- /dev/null
//   +++ b/greeting.txt
//   @@ -0,0 +1 @@
//   +hello
//   diff --git a/list.txt b/list.txt
//   new file mode 100644
//   index 0000000..814f4a4
//   --- /dev/null
//   +++ b/list.txt
//   @@ -0,0 +1,2 @@
//   +one
//   +two

const write = (path, content) => ({ name: 'write_file', args: { path, content } })
const model = {
  provider: 'scripted',
  script: [
    { tool_calls: [write('greeting.txt', 'hello\n')] },
    { tool_calls: [write('list.txt', 'one\ntwo\n')] },
    { text: 'I wrote two files.' },
  ],
}

const answer = await fetch(`${process.env.E2B_API_URL}/stream`, {
  method: 'POST',
  headers: {
    'content-type': 'application/json',
    accept: 'text/event-stream',
    'x-api-key': process.env.E2B_API_KEY,
  },
  body: JSON.stringify({ prompt: 'Write two files.', config: { model } }),
})
if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`)

let diff = ''
for await (const event of events(answer.body)) {
  if (event.type === 'RUN_ERROR') throw new Error(event.message)
  if (event.type === 'RUN_FINISHED') console.log('result:', event.result.message)
  if (event.type !== 'CUSTOM') continue
  // What a CUSTOM event says has no shape that anybody promises: look before you read.
  const value = event.value
  if (value === null || typeof value !== 'object') continue
  if (event.name === 'sandbox.file' && value.type === 'create') {
    console.log('create:', value.path)
  }
  // Once, after the agent has ended: the whole difference, new files included.
  if (event.name === 'file.changed' && 'diff' in value) diff = value.diff
}
process.stdout.write(diff)

/** The events of a stream of server-sent events. */
async function* events(body) {
  let rest = ''
  for await (const piece of body.pipeThrough(new TextDecoderStream())) {
    const blocks = (rest + piece).split('\n\n')
    rest = blocks.pop()
    for (const block of blocks) {
      const data = block.split('\n').filter((line) => line.startsWith('data:'))
      if (data.length > 0) yield JSON.parse(data.map((line) => line.slice(5)).join('\n'))
    }
  }
}
