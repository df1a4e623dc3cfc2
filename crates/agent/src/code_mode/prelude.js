'use strict';
// Runs one program that came from the agent. Descriptor 3 is where the agent
// speaks, descriptor 4 where we do: one JSON object a line. Everything else that
// the program prints goes to the standard outputs.

const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const util = require('node:util');
const { createRequire } = require('node:module');
const { Writable } = require('node:stream');

const { exit } = process;
const { parse, stringify } = JSON;
const { writeSync } = fs;

// Longest text of a message; the agent keeps less of it.
const MOST = 1 << 16;

// JSON of which every text is well-formed: half a character is replaced.
const ESCAPES = /\\(?:(ud[89a-f][0-9a-f]{2})|.)/g;
function written(value) {
  return stringify(value)?.replace(ESCAPES, (escape, half) => (half ? '\\ufffd' : escape));
}

function send(line) {
  let rest = Buffer.from(`${line}\n`);
  while (rest.length > 0) rest = rest.subarray(writeSync(4, rest));
}

let over = false;
function end(line) {
  if (over) return;
  over = true;
  send(line);
  exit(0);
}

function failed(error, phase) {
  const isError = util.types.isNativeError(error);
  const name = String((isError && error.name) || 'Error').slice(0, MOST);
  const message = (isError ? String(error.message) : util.inspect(error)).slice(0, MOST);
  // The first frame that is the program's own; two lines are the engine's.
  const at = isError && /<anonymous>:(\d+):\d+\)?$/m.exec(String(error.stack));
  const line = at ? Number(at[1]) - 2 : undefined;
  end(written({ type: 'failed', phase, name, message, line }));
}

// Each method of a console writes at once, so the level is that of the method.
let level = 'log';
const sink = new Writable({
  decodeStrings: false,
  write(chunk, _encoding, done) {
    const message = String(chunk).replace(/\n$/, '').slice(0, MOST);
    send(written({ type: 'console', level, message }));
    done();
  },
});
const plain = new console.Console({ stdout: sink, stderr: sink });
const levels = { info: 'info', warn: 'warn', error: 'error', trace: 'error', assert: 'error' };
for (const method of Object.keys(plain)) {
  if (typeof plain[method] !== 'function') continue;
  const write = plain[method].bind(plain);
  plain[method] = (...words) => {
    level = levels[method] ?? 'log';
    return write(...words);
  };
}
globalThis.console = plain;

const input = new net.Socket({ fd: 3, readable: true, writable: false });
const pending = new Map();
let calls = 0;

function external(name) {
  return function call(args) {
    // Made here, where the line that calls is on the stack.
    const failure = new Error('');
    Error.captureStackTrace(failure, call);
    return new Promise((resolve, reject) => {
      calls += 1;
      const line = written({ type: 'call', id: calls, function: name, args: args ?? {} });
      // As long as there is something to wait for, nobody leaves.
      input.ref();
      pending.set(calls, { resolve, reject, failure });
      send(line);
    });
  };
}

function answered({ id, result, error }) {
  const waiting = pending.get(id);
  if (waiting === undefined) return;
  pending.delete(id);
  if (pending.size === 0) input.unref();
  if (error === undefined) return waiting.resolve(result);
  const { failure } = waiting;
  // The stack begins with the message that was there when it was made: none.
  failure.stack = String(failure.stack).replace(/^Error/, () => `Error: ${error}`);
  failure.message = error;
  waiting.reject(failure);
}

function start({ code, functions, limit }) {
  process.on('uncaughtException', (error) => failed(error));
  process.on('unhandledRejection', (error) => failed(error));
  const AsyncFunction = (async () => {}).constructor;
  let main;
  try {
    main = new AsyncFunction('require', ...functions, code);
  } catch (error) {
    return failed(error, 'create-context');
  }
  input.unref();
  const require = createRequire(path.join(process.cwd(), 'program.js'));
  main(require, ...functions.map(external)).then(
    (value) => {
      let result;
      try {
        result = written(value) ?? null;
      } catch (error) {
        return failed(new TypeError(`the result is not JSON: ${error.message}`));
      }
      if (result !== null && Buffer.byteLength(result) > limit) {
        return failed(new RangeError(`the result is larger than ${limit} bytes`));
      }
      end(result === null ? '{"type":"done"}' : `{"type":"done","result":${result}}`);
    },
    (error) => failed(error),
  );
}

let rest = [];
let started = false;
input.on('data', (piece) => {
  let from = 0;
  for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, from)) {
    rest.push(piece.subarray(from, at));
    from = at + 1;
    const message = parse(Buffer.concat(rest).toString());
    rest = [];
    if (started) {
      answered(message);
    } else {
      started = true;
      start(message);
    }
  }
  rest.push(piece.subarray(from));
});
send('{"type":"ready"}');
