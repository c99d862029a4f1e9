// Hours of trouble in minutes, against the server as it is built: servers that fail in every way we know beside healthy ones,
// clients that come and go, changes of the configuration, and SIGKILL at random moments.
//   npm run test:soak -- [--minutes 30] [--json FILE] [--save]
// A fifth of the time goes to SIGKILL, half of it with the state in SQLite and half in Redis (PEGBOARD_TEST_REDIS, 127.0.0.1:6379).
// --save writes docs/internals/figures/soak.json. Ends with 1 when something was lost, doubled, crossed or left behind.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { copyFile, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { cpus, loadavg, setPriority, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { median, table } from '../../bench/measure.mjs'
import { killAgainAndAgain } from './kill.mjs'
import { createLedger } from './ledger.mjs'
import { startHttp, startOnStdio, startTiming, TOKEN } from './pegboard.mjs'
import { comeAndGo, failing, leave, rage, rageOnStdio } from './rage.mjs'
import { growth, verdicts } from './verdict.mjs'

function refuse(why) {
  process.stderr.write(`${why}\n`)
  process.exit(2)
}

function readArgs() {
  try {
    return parseArgs({
      options: {
        minutes: { type: 'string', default: '30' },
        json: { type: 'string' },
        save: { type: 'boolean', default: false },
      },
    }).values
  } catch (error) {
    return refuse(`${error.message}\nThere is: [--minutes 30] [--json FILE] [--save]`)
  }
}

const values = readArgs()
const minutes = Number(values.minutes)
if (!(minutes >= 1)) refuse('--minutes takes a number from 1 on')
const redis = process.env.PEGBOARD_TEST_REDIS ?? 'redis://127.0.0.1:6379'
// Used after nine tenths of the time.
const { hostname, port } = new URL(redis)
const knock = connect(Number(port || 6379), hostname)
await once(knock, 'connect').catch((error) =>
  refuse(`no Redis answers at ${hostname}:${port || 6379} (${error.code}); PEGBOARD_TEST_REDIS names another`),
)
knock.destroy()
const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const EVIL = here('../fixtures/upstreams/evil.mjs')
const evil = (...args) => ({ command: process.execPath, args: [EVIL, ...args] })
// Failing servers may use a whole processor, so they run with low priority: the test measures their cost in the
// server. If each session has its own share, priorities do not count outside of it.
const LAST = '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 19 "$@"'
const evilBehind = (...args) => ({ command: 'sh', args: ['-c', LAST, 'sh', process.execPath, EVIL, ...args] })
const log = (text) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`)

const temporary = await mkdtemp(join(tmpdir(), 'pegboard-soak-'))

async function placeOf(name, settings) {
  const folder = join(temporary, name)
  await mkdir(join(folder, 'modules'), { recursive: true })
  await copyFile(here('work.mjs'), join(folder, 'modules', 'work.mjs'))
  await writeFile(join(folder, 'runs.txt'), '')
  const place = {
    folder,
    config: join(folder, 'mcp.config.json'),
    state: join(folder, 'state'),
    runs: join(folder, 'runs.txt'),
  }
  const base = {
    exposure: { mode: 'direct' },
    execution: { watchers: true, scheduler: true },
    search: { embedder: 'none' },
    server: { http: { token: TOKEN, sessionIdleMs: SESSION_IDLE_MS } },
    ...settings,
  }
  const configure = async (mcpServers) => {
    await writeFile(`${place.config}.new`, JSON.stringify({ ...base, mcpServers }))
    await rename(`${place.config}.new`, place.config)
  }
  await configure(settings.mcpServers ?? {})
  return { ...place, configure }
}

/** An HTTP server of the test, outside of Pegboard. */
async function startEvilHttp(nice) {
  const child = spawn(process.execPath, [EVIL, '--http'], { stdio: ['ignore', 'ignore', 'pipe'] })
  if (nice) setPriority(child.pid, 19)
  process.once('exit', () => child.kill())
  const [line] = await once(child.stderr, 'data')
  return { child, url: `http://127.0.0.1:${/port (\d+)/.exec(String(line))[1]}/mcp` }
}

/** The first sample contains code that loads on demand, the last one shows growth. */
const FEWEST_ROUNDS = 3
/** Idle time of sessions; dropped clients are gone after it. */
const SESSION_IDLE_MS = 10_000

async function soak(forMs) {
  const ledger = createLedger()
  const [wellHttp, badHttp] = await Promise.all([startEvilHttp(false), startEvilHttp(true)])
  const everything = here('../../node_modules/@modelcontextprotocol/server-everything/dist/index.js')
  const well = {
    quiet: { ...evil('--quiet'), start: 'background' },
    quiethttp: { url: wellHttp.url, start: 'background' },
    everything: { command: process.execPath, args: [everything, 'stdio'], start: 'background' },
  }
  const all = { ...well, ...failing(evilBehind), badhttp: { url: badHttp.url, timeoutMs: 1_500 } }
  const place = await placeOf('http', { mcpServers: well })
  const server = await startHttp(place)
  const wellOnStdio = { quiet: evil('--quiet') }
  const allOnStdio = { ...wellOnStdio, bad: { ...evilBehind(), timeoutMs: 1_500 } }
  const own = await placeOf('stdio', { mcpServers: wellOnStdio })
  const stdio = await startOnStdio(own)
  const tools = ['quiet__echo', 'quiethttp__echo', 'everything__echo', 'work__echo']
  const timing = await startTiming(server)
  const first = server.open()
  await first.connect()
  await settled(
    () => ledger.echo(first, 'everything__echo'),
    () => ledger.echo(stdio.client, 'work__echo'),
  )
  await leave(server, first)
  behind(process.pid)
  behind(stdio.pid)
  const latency = async (side) => {
    await server.lag()
    const [before, began] = [server.spent(), performance.now()]
    const { window, late, figures, notes } = await timing.measure(tools, windowMs)
    const [after, took] = [server.spent(), performance.now() - began]
    ledger.add(figures, notes)
    windows[side].push(window)
    const share = (what) => (100 * (after[what] - before[what])) / took
    return { ...(await server.lag()), ran: share('ran'), waited: share('waited'), clients: late }
  }
  // Windows long enough for a hundred calls of each server.
  const windowMs = Math.min(15_000, forMs / 12)
  const windows = { quiet: [], raging: [] }
  const samples = { http: [], stdio: [] }
  const lags = []
  const injected = {}
  const clients = {}
  let reloads = 0
  const until = performance.now() + forMs
  for (;;) {
    const over = new AbortController()
    const churn = [1, 2].map(() => comeAndGo({ server, ledger, signal: over.signal, tool: 'quiet__echo' }))
    const onStdio = talkOnStdio(stdio.client, ledger, over.signal)
    const calm = await latency('quiet')
    await place.configure(all)
    await own.configure(allOnStdio)
    const end = new AbortController()
    const raging = rage({ server, ledger, badHttp: badHttp.url, signal: end.signal })
    const ragingOnStdio = rageOnStdio(stdio.client, ledger, end.signal)
    await sleep(2_000)
    const raged = await latency('raging')
    // A truncated file changes nothing.
    await writeFile(place.config, '{"mcpServers": {"qui')
    await sleep(500)
    end.abort()
    await raging.over()
    await ragingOnStdio
    addUp(injected, raging.injected)
    await place.configure(well)
    await own.configure(wellOnStdio)
    reloads += 5
    over.abort()
    for (const left of await Promise.all(churn)) addUp(clients, left)
    await onStdio
    lags.push({ calm, raged })
    const isLast = performance.now() >= until && lags.length >= FEWEST_ROUNDS
    await sleep(SESSION_IDLE_MS + 2_000)
    samples.http.push(await sampleOf(server, samples.http, isLast))
    samples.stdio.push(await sampleOf(stdio, samples.stdio, isLast))
    const { heapUsed, descriptors, children, timers, listeners } = samples.http.at(-1)
    log(
      `heap ${(heapUsed / 2 ** 20).toFixed(1)} MiB, ${descriptors} descriptors, ${children} children, ${timers} timers, ${listeners} listeners, lag ${calm.max.toFixed(0)} and ${raged.max.toFixed(0)} ms; ${ledger.figures.calls} calls, ${ledger.figures.lost} lost`,
    )
    if (isLast) break
  }
  await timing.leave()
  ledger.left(stdio.client)
  behind(process.pid, 0)
  const ends = [await server.stop(), await stdio.stop()]
  for (const { child } of [wellHttp, badHttp]) child.kill()
  return { ledger, windows, lags, samples, injected: { ...injected, reloads }, clients, ends }
}

/** Unmeasured processes get the rest of the processor. Raising the priority again may not be allowed. */
function behind(pid, nice = 19) {
  try {
    setPriority(pid, nice)
  } catch {}
}

function addUp(sums, more) {
  for (const [what, times] of Object.entries(more)) sums[what] = (sums[what] ?? 0) + times
}

/** Repeats the last sample for a while, because a busy machine may be slow to end things. */
async function sampleOf(held, before, isLast) {
  for (let tries = 0; ; tries++) {
    const sample = await held.sample()
    const { descriptors, children, timers, listeners } = growth([...before, sample])
    if (!isLast || tries === 20 || Math.max(descriptors, children, timers, listeners) <= 0) return sample
    await sleep(3_000)
  }
}

/** Every call must succeed at the end, after servers and modules had time to start. */
async function settled(...calls) {
  for (const call of calls) while ((await call()) !== undefined) await sleep(100)
}

/** The constant requests of a stdio client. */
async function talkOnStdio(client, ledger, signal) {
  while (!signal.aborted) {
    await Promise.all([ledger.beside(client, 'quiet__echo'), ledger.beside(client, 'work__echo')])
    await sleep(200)
  }
}

async function forgetPrefix(url, prefix) {
  const { Redis } = await import('ioredis')
  const redis = new Redis(url)
  const keys = await redis.keys(`${prefix}:*`)
  if (keys.length > 0) await redis.del(...keys)
  redis.disconnect()
}

async function kills(forMs) {
  const prefix = `pegboard-soak-${randomBytes(6).toString('hex')}`
  const sqlite = await killAgainAndAgain(await placeOf('sqlite', {}), { forMs: forMs / 2, log })
  try {
    const place = await placeOf('redis', { state: { url: redis, prefix } })
    return { sqlite, redis: await killAgainAndAgain(place, { forMs: forMs / 2, log }) }
  } finally {
    await forgetPrefix(redis, prefix)
  }
}

/** The middle window of each server, and of all. */
function latencyOf(windows) {
  const tools = Object.keys(windows.quiet[0])
  const of = (side, tool, what) => median(windows[side].map((one) => one[tool][what]))
  const rows = tools.map((server) => ({
    server: server.split('__')[0],
    'p50 quiet': of('quiet', server, 'p50'),
    'p50 raging': of('raging', server, 'p50'),
    'p95 quiet': of('quiet', server, 'p95'),
    'p95 raging': of('raging', server, 'p95'),
    ratio: of('raging', server, 'p95') / of('quiet', server, 'p95'),
  }))
  return { rows, ratio: Math.max(...rows.map(({ ratio }) => ratio)) }
}

/**
 * The middle window without and with failing servers: event loop delay, share of time that its thread ran or waited for
 * a processor (in percent), and the delay of the measuring clients.
 */
const lagOf = (lags) =>
  ['calm', 'raged'].map((side) => {
    const middle = (what) => +median(lags.map((one) => one[side][what])).toFixed(1)
    return {
      window: side,
      'late p99': middle('p99'),
      'late max': middle('max'),
      'runs %': middle('ran'),
      'waits %': middle('waited'),
      'clients late p99': middle('clients'),
    }
  })

// Child processes end with the test.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
const began = performance.now()
try {
  const ms = minutes * 60_000
  const { ledger, windows, lags, samples, injected, clients, ends } = await soak(ms * 0.8)
  const killed = await kills(ms * 0.2)
  const latency = latencyOf(windows)
  const figures = {
    command: `npm run test:soak -- --minutes ${minutes}`,
    date: new Date().toISOString().slice(0, 10),
    machine: {
      cores: cpus().length,
      memoryGiB: Math.round(totalmem() / 2 ** 30),
      node: process.version,
      load: +loadavg()[2].toFixed(1),
    },
    minutes: +((performance.now() - began) / 60_000).toFixed(1),
    calls: ledger.figures,
    clients,
    faults: injected,
    left: Object.fromEntries(Object.entries(samples).map(([side, all]) => [side, growth(all)])),
    ends,
    latencyMs: latency,
    lagMs: lagOf(lags),
    killed,
  }
  const { broken, text } = verdicts(figures)
  process.stdout.write(
    `${table('Calls', [figures.calls])}${table(
      'Faults',
      Object.entries(injected).map(([fault, times]) => ({ fault, times })),
    )}${table('Beside them, in ms', latency.rows)}${table('The thread of the server', figures.lagMs)}${text}`,
  )
  for (const [note, times] of [...ledger.notes].slice(0, 30)) log(`${times} x ${note}`)
  const json = `${JSON.stringify({ ...figures, broken }, null, 2)}\n`
  if (values.json !== undefined) await writeFile(values.json, json)
  if (values.save) await writeFile(here('../../docs/internals/figures/soak.json'), json)
  process.exitCode = broken.length === 0 ? 0 : 1
} finally {
  await rm(temporary, { recursive: true, force: true, maxRetries: 5 })
}
