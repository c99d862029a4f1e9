#!/usr/bin/env node
import { realpathSync } from 'node:fs'
import type { LineOutput } from '../server/stdio.ts'
import { calledAs } from './invocation.ts'
import type { Io } from './io.ts'
import { run } from './run.ts'

const stop = new AbortController()
const INTERRUPTED = 130
const MAX_UNREAD_BYTES = 1024 * 1024
const FLUSH_MS = 1_000

/** The first signal asks for an orderly end, the second does not ask. */
function onSignal(): void {
  if (stop.signal.aborted) process.exit(INTERRUPTED)
  stop.abort()
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal)
// One module's stray promise must not take every other tool down.
process.on('unhandledRejection', tell)
process.on('uncaughtException', tell)
// Whoever read our output has gone; of a module's own pipes, which end up above, that says nothing.
process.stdout.on('error', () => process.exit(0))
// Nobody may read what we log; that is no reason to stop.
process.stderr.on('error', () => undefined)

function tell(error: unknown): void {
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  say(`${JSON.stringify({ time: new Date().toISOString(), level: 'error', message })}\n`)
}

const writeOut = process.stdout.write.bind(process.stdout) as (data: string | Buffer, done?: () => void) => boolean
let dropped = 0

/** To stderr, as long as somebody reads it: what is logged must not fill the memory. */
function say(text: string): void {
  const { stderr } = process
  if (stderr.writableLength > MAX_UNREAD_BYTES) {
    dropped++
    return
  }
  if (dropped > 0) stderr.write(`${dropped} lines were not written, because nobody read them\n`)
  dropped = 0
  stderr.write(text)
}

/** Modules print where they like; on stdio that would be read as protocol. */
function claimOutput(): LineOutput {
  const { stdout } = process
  stdout.write = ((chunk: string | Uint8Array) => {
    say(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString())
    return true
  }) as typeof stdout.write
  return {
    write: (data) => writeOut(data),
    cork: () => stdout.cork(),
    uncork: () => stdout.uncork(),
    once: (event, listener) => stdout.once(event, listener),
    get writableLength() {
      return stdout.writableLength
    },
  }
}

const io: Io = {
  stdout: (text) => void process.stdout.write(text),
  stderr: say,
  terminal: { out: process.stdout.isTTY === true, err: process.stderr.isTTY === true },
  env: process.env,
  cwd: process.cwd(),
  input: process.stdin,
  claimOutput,
  stop: stop.signal,
  self: {
    node: process.execPath,
    script: realpathSync(process.argv[1] ?? ''),
    called: calledAs(process.argv[1] ?? '', process.env, process.cwd()),
  },
}

/** The longest a timer takes, 25 days. */
const NEVER_MS = 0x7fff_ffff

async function main(): Promise<void> {
  // Waiting for a timer that does not hold the process must not end it.
  setInterval(() => undefined, NEVER_MS)
  const exitCode = await run(process.argv.slice(2), io)
  // Output to a pipe may still be on its way, and may never arrive.
  setTimeout(() => process.exit(exitCode), FLUSH_MS)
  writeOut('', () => process.exit(exitCode))
}

void main()
