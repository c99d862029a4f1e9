#!/usr/bin/env node
import { realpathSync } from 'node:fs'
import { knownSecrets, secretsOf } from '../core/known-secrets.ts'
import { once } from '../core/once.ts'
import type { LineOutput } from '../server/stdio.ts'
import { keepChildrenOffStdio } from './children-stdio.ts'
import { calledAs } from './invocation.ts'
import type { Io } from './io.ts'
import { run } from './run.ts'

const leave = process.exit.bind(process)
// A module that ends the process would end everybody else's tools: its own call fails instead.
process.exit = (code) => {
  throw new Error(`process.exit(${code ?? ''}) was called; only Pegboard ends its process`)
}

const stop = new AbortController()
const INTERRUPTED = 130
const MAX_UNREAD_BYTES = 1024 * 1024
const FLUSH_MS = 1_000

/** The first signal asks for an orderly end, the second does not ask. */
function onSignal(): void {
  if (stop.signal.aborted) leave(INTERRUPTED)
  stop.abort()
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal)
// One module's stray promise must not take every other tool down.
process.on('unhandledRejection', tell)
process.on('uncaughtException', tell)
// Whoever read our output has gone; of a module's own pipes, which end up above, that says nothing.
process.stdout.on('error', () => leave(0))
// Nobody may read what we log; that is no reason to stop.
process.stderr.on('error', () => undefined)

function tell(error: unknown): void {
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  say(`${JSON.stringify({ time: new Date().toISOString(), level: 'error', message })}\n`)
}

// What breaks may tell what it was given, and modules print what they like.
const told = new Set<string>()
const gather = () => once(() => knownSecrets([...told, ...secretsOf(process.env)]))
let secrets = gather()
/** Tokens of servers change all the time: the oldest are forgotten. */
const MAX_TOLD = 1_000
function know(values: readonly string[]): void {
  for (const value of values) told.add(value)
  for (const value of told) if (told.size > MAX_TOLD) told.delete(value)
  secrets = gather()
}

const writeErr = process.stderr.write.bind(process.stderr) as (text: string) => boolean
// Modules write there as well, and so does Node.
process.stderr.write = ((chunk: string | Uint8Array, ...more: unknown[]) => {
  say(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString())
  const done = more.findLast((one) => typeof one === 'function') as (() => void) | undefined
  if (done) queueMicrotask(done)
  return true
}) as typeof process.stderr.write
const writeOut = process.stdout.write.bind(process.stdout) as (data: string | Buffer, done?: () => void) => boolean
let dropped = 0
let untold = 0

/** To stderr, as long as somebody reads it: what is logged must not fill the memory. */
function say(text: string): void {
  const { stderr } = process
  if (stderr.writableLength > MAX_UNREAD_BYTES) {
    dropped++
    untold++
    return
  }
  if (untold > 0) {
    const entry = {
      time: new Date().toISOString(),
      level: 'warn',
      message: 'lines were not written, because nobody read them',
    }
    writeErr(`${JSON.stringify({ ...entry, lines: untold })}\n`)
  }
  untold = 0
  writeErr(secrets()?.hide(text) ?? text)
}

// Modules print where they like; on stdout that would be read as protocol, or spoil what a script reads.
process.stdout.write = ((chunk: string | Uint8Array) => {
  say(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString())
  return true
}) as typeof process.stdout.write

/** A diagnostic report has the environment in it, and with that all secrets; Node 20 makes none without. */
function reportWithoutEnvironment(): void {
  if (!`${process.env['NODE_OPTIONS']} ${process.execArgv}`.includes('--report')) return
  const { report } = process
  if ('excludeEnv' in report) report.excludeEnv = true
  else {
    // Else the signal would end the process.
    if (report.reportOnSignal) process.on(report.signal, () => undefined)
    report.reportOnSignal = report.reportOnFatalError = report.reportOnUncaughtException = false
    say('pegboard: warning: this version of Node writes the environment into its reports, so none are written\n')
  }
}
reportWithoutEnvironment()

/** Modules print where they like; on stdio that would be read as protocol. */
function claimOutput(): LineOutput {
  const { stdout } = process
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
  stdout: (text) => void writeOut(text),
  stderr: say,
  know,
  unwritten: () => dropped,
  beforeDropIns: keepChildrenOffStdio,
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
  setTimeout(() => leave(exitCode), FLUSH_MS)
  writeOut('', () => leave(exitCode))
}

void main()
