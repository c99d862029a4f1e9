#!/usr/bin/env node
import { realpathSync } from 'node:fs'
import { z } from 'zod'
import { knownSecrets, secretsOf } from '../core/known-secrets.ts'
import { once } from '../core/once.ts'
import type { LineOutput } from '../server/serve-stdio.ts'
import { keepChildrenOffStdio } from './children-stdio.ts'
import { describeInvocation } from './invocation.ts'
import { INTERRUPTED, type Io } from './io.ts'
import { run } from './run-command.ts'

// Zod would generate code for each object schema on first use: 6 ms of a start, to save 0.3 µs for each later use.
z.config({ jitless: true })

const exitProcess = process.exit.bind(process)
// A module that called process.exit would stop the tools of all other modules, so its call fails instead.
process.exit = (code) => {
  throw new Error(`process.exit(${code ?? ''}) was called; only Pegboard can end its process`)
}

const stop = new AbortController()
const MAX_UNREAD_BYTES = 1024 * 1024
const FLUSH_MS = 1_000

/** The first signal stops Pegboard in order; the second one stops it immediately. */
function onSignal(signal: NodeJS.Signals): void {
  if (stop.signal.aborted) exitProcess(INTERRUPTED)
  stop.abort(new DOMException(signal, 'AbortError'))
}
let onHangUp = (): void => onSignal('SIGHUP')
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, onSignal)
process.on('SIGHUP', () => onHangUp())
// An unhandled rejection in one module must not stop the tools of all others.
process.on('unhandledRejection', printError)
process.on('uncaughtException', printError)
// The reader of our output has exited. The pipes of a module, which the lines above handle, do not tell that.
process.stdout.on('error', () => exitProcess(0))
// A closed stderr is no reason to stop.
process.stderr.on('error', () => undefined)

function printError(error: unknown): void {
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  writeLine(`${JSON.stringify({ time: new Date().toISOString(), level: 'error', message })}\n`)
}

// Errors may quote the arguments of a call, and modules can print anything, so all output passes the secret filter.
const learnedSecrets = new Set<string>()
const collectSecrets = () => once(() => knownSecrets([...learnedSecrets, ...secretsOf(process.env)]))
let secrets = collectSecrets()
/** Server tokens change all the time, so the oldest secrets are dropped. */
const MAX_LEARNED = 1_000
function addSecrets(values: readonly string[]): void {
  for (const value of values) learnedSecrets.add(value)
  for (const value of learnedSecrets) if (learnedSecrets.size > MAX_LEARNED) learnedSecrets.delete(value)
  secrets = collectSecrets()
}

const writeStderr = process.stderr.write.bind(process.stderr) as (text: string) => boolean
// Modules and Node write to stderr as well.
process.stderr.write = ((chunk: string | Uint8Array, ...more: unknown[]) => {
  writeLine(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString())
  const done = more.findLast((arg) => typeof arg === 'function') as (() => void) | undefined
  if (done) queueMicrotask(done)
  return true
}) as typeof process.stderr.write
const writeStdout = process.stdout.write.bind(process.stdout) as (data: string | Buffer, done?: () => void) => boolean
let droppedLines = 0
let unreportedLines = 0

/** Writes to stderr only while it is read, so that unread log lines do not fill the memory. */
function writeLine(text: string): void {
  const { stderr } = process
  if (stderr.writableLength > MAX_UNREAD_BYTES) {
    droppedLines++
    unreportedLines++
    return
  }
  if (unreportedLines > 0) {
    const entry = {
      time: new Date().toISOString(),
      level: 'warn',
      message: 'lines were dropped, because nothing read them',
    }
    writeStderr(`${JSON.stringify({ ...entry, lines: unreportedLines })}\n`)
  }
  unreportedLines = 0
  writeStderr(secrets()?.hide(text) ?? text)
}

// Modules may print to stdout, where MCP clients and scripts would read it. Redirect that to stderr.
process.stdout.write = ((chunk: string | Uint8Array) => {
  writeLine(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString())
  return true
}) as typeof process.stdout.write

/** A diagnostic report contains the environment and so all secrets. Node 20 cannot write reports without it. */
function excludeEnvironmentFromReports(): void {
  if (!`${process.env['NODE_OPTIONS']} ${process.execArgv}`.includes('--report')) return
  const { report } = process
  if ('excludeEnv' in report) report.excludeEnv = true
  else {
    // Without a listener the signal would end the process.
    if (report.reportOnSignal) process.on(report.signal, () => undefined)
    report.reportOnSignal = report.reportOnFatalError = report.reportOnUncaughtException = false
    writeLine('pegboard: warning: this version of Node writes the environment into its reports, so none are written\n')
  }
}
excludeEnvironmentFromReports()

/** Modules may print to stdout, where a client on stdio would read it as protocol messages. */
function claimOutput(): LineOutput {
  const { stdout } = process
  return {
    write: (data) => writeStdout(data),
    cork: () => stdout.cork(),
    uncork: () => stdout.uncork(),
    once: (event, listener) => stdout.once(event, listener),
    get writableLength() {
      return stdout.writableLength
    },
  }
}

const io: Io = {
  stdout: (text) => void writeStdout(text),
  stderr: writeLine,
  onSecrets: addSecrets,
  droppedLogLines: () => droppedLines,
  beforeDropIns: keepChildrenOffStdio,
  terminal: {
    out: process.stdout.isTTY === true,
    err: process.stderr.isTTY === true,
    get columns() {
      return process.stdout.columns
    },
  },
  env: process.env,
  cwd: process.cwd(),
  input: process.stdin,
  claimOutput,
  stop: stop.signal,
  onHangUp(listener) {
    onHangUp = listener
  },
  self: {
    node: process.execPath,
    script: realpathSync(process.argv[1] ?? ''),
    called: describeInvocation(process.argv[1] ?? '', process.env, process.cwd()),
  },
}

/** Maximum delay of a timer, 25 days. */
const NEVER_MS = 0x7fff_ffff

async function main(): Promise<void> {
  // Keeps the process alive while it waits for a timer that is unreferenced.
  setInterval(() => undefined, NEVER_MS)
  const exitCode = await run(process.argv.slice(2), io)
  // Output to a pipe may still be in transit, or may never arrive.
  setTimeout(() => exitProcess(exitCode), FLUSH_MS)
  writeStdout('', () => exitProcess(exitCode))
}

void main()
