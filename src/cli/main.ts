#!/usr/bin/env node
import { realpathSync } from 'node:fs'
import type { LineOutput } from '../server/stdio.ts'
import type { Io } from './io.ts'
import { run } from './run.ts'

const stop = new AbortController()
const INTERRUPTED = 130

/** The first signal asks for an orderly end, the second does not ask. */
function onSignal(): void {
  if (stop.signal.aborted) process.exit(INTERRUPTED)
  stop.abort()
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal)
// One module's stray promise must not take every other tool down.
process.on('unhandledRejection', tell)
process.on('uncaughtException', (error: NodeJS.ErrnoException) => {
  // Whoever read our output has gone.
  if (error.code === 'EPIPE') process.exit(0)
  tell(error)
})

function tell(error: unknown): void {
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), level: 'error', message })}\n`)
}

/** Modules print where they like; on stdio that would be read as protocol. */
function claimOutput(): LineOutput {
  const { stdout, stderr } = process
  const write = stdout.write.bind(stdout)
  stdout.write = stderr.write.bind(stderr) as typeof stdout.write
  return { write: (text) => write(text), once: (event, listener) => stdout.once(event, listener) }
}

const io: Io = {
  stdout: (text) => void process.stdout.write(text),
  stderr: (text) => void process.stderr.write(text),
  env: process.env,
  cwd: process.cwd(),
  input: process.stdin,
  claimOutput,
  stop: stop.signal,
  self: { node: process.execPath, script: realpathSync(process.argv[1] ?? '') },
}

// Waiting for a timer that does not hold the process must not end it.
setInterval(() => undefined, 60_000)
const exitCode = await run(process.argv.slice(2), io)
// Output to a pipe may still be on its way.
process.stdout.write('', () => process.exit(exitCode))
