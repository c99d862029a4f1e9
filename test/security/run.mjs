/**
 * Runs the security cases and reports the results. npm run test:security -- [--json] [--write] [FILE …] --write stores
 * the figures in docs/internals/figures/security.json, the source of docs/internals/security.md; only for a complete
 * run. A process is a leak if it survives the run and its environment, folder or command line contains the run's
 * temporary folder, which has all folders of the tests.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { availableParallelism, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { FILE } from '../count.mjs'

const FIGURES = 'docs/internals/figures/security.json'
const LEAVING_MS = 5_000

const { values, positionals } = parseArgs({
  options: { json: { type: 'boolean' }, write: { type: 'boolean' } },
  allowPositionals: true,
})
const cases = JSON.parse(readFileSync('test/security/cases.json', 'utf8')).map(({ id }) => id)

const dir = mkdtempSync(join(tmpdir(), 'pegboard-run-'))
// Servers that run as another user have their folders in it, too.
chmodSync(dir, 0o711)
writeFileSync(join(dir, FILE), '')
const results = join(dir, 'results.json')
const child = spawn(
  process.execPath,
  [
    'node_modules/vitest/vitest.mjs',
    'run',
    // The counter is set up once per file.
    '--isolate',
    ...(positionals.length > 0 ? positionals : ['test/security']),
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${results}`,
  ],
  // The output of vitest is for people; ours may be for a program.
  { env: { ...process.env, TMPDIR: dir }, stdio: ['ignore', 2, 2] },
)
const started = performance.now()
await once(child, 'exit')
const seconds = Math.round((performance.now() - started) / 1_000)

function read(file) {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    // It has exited, or belongs to another user.
    return ''
  }
}

function folderOf(pid) {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ''
  }
}

const leftOver = () =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) =>
      [read(`/proc/${pid}/environ`), read(`/proc/${pid}/cmdline`), folderOf(pid)].join('\0').includes(dir),
    )
    .map((pid) => read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim())

let leaked
if (process.platform === 'linux') {
  for (const end = Date.now() + LEAVING_MS; leftOver().length > 0 && Date.now() < end; ) await sleep(100)
  leaked = leftOver()
}

const counts = new Map()
const notes = []
for (const line of readFileSync(join(dir, FILE), 'utf8').split('\n')) {
  const [what, note] = line.split('\t')
  counts.set(what, (counts.get(what) ?? 0) + 1)
  if (what === 'lost' || what === 'doubled') notes.push(`${what}: ${note ?? ''}`)
}

/** For each case, whether all tests with its id passed. */
const outcomes = new Map()
let failed = 0
for (const { assertionResults } of JSON.parse(readFileSync(results, 'utf8')).testResults)
  for (const { title, status } of assertionResults) {
    if (status === 'failed') failed++
    const [id] = /^[A-Z]+-\d+(?=: )/.exec(title) ?? []
    if (!cases.includes(id) || status === 'skipped' || status === 'pending') continue
    outcomes.set(id, (outcomes.get(id) ?? true) && status === 'passed')
  }
rmSync(dir, { recursive: true, force: true, maxRetries: 3 })

const passed = [...outcomes.values()].filter(Boolean).length
const figures = {
  date: new Date().toISOString().slice(0, 10),
  command: 'npm run test:security -- --write',
  machine: {
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.version,
    platform: process.platform,
  },
  seconds,
  cases: cases.length,
  casesRun: outcomes.size,
  casesPassed: passed,
  callsMade: counts.get('call') ?? 0,
  callsAnswered: counts.get('answer') ?? 0,
  callsGivenUpByTheirTest: counts.get('given up') ?? 0,
  lostResults: counts.get('lost') ?? 0,
  doubledResults: counts.get('doubled') ?? 0,
  faultsInjected: counts.get('fault') ?? 0,
  leakedProcesses: leaked?.length ?? null,
}
const whole = positionals.length === 0
const missing = whole ? cases.filter((id) => !outcomes.has(id)) : []
const ok =
  child.exitCode === 0 && failed === 0 && missing.length === 0 && notes.length === 0 && (leaked?.length ?? 0) === 0
if (values.write && whole) {
  mkdirSync('docs/internals/figures', { recursive: true })
  writeFileSync(FIGURES, `${JSON.stringify(figures, null, 2)}\n`)
}
if (values.json) process.stdout.write(`${JSON.stringify({ ok, ...figures, missing, notes, leaked }, null, 2)}\n`)
else {
  const { date: _date, command: _command, machine: _machine, ...shown } = figures
  for (const [name, value] of Object.entries(shown))
    process.stdout.write(
      `${name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).padEnd(30)}${value ?? 'not known here'}\n`,
    )
  for (const note of notes) process.stdout.write(`${note}\n`)
  for (const line of leaked ?? []) process.stdout.write(`still there: ${line}\n`)
  if (missing.length > 0) process.stdout.write(`without a test that ran: ${missing.join(', ')}\n`)
}
process.exitCode = ok ? 0 : 1
