/**
 * Runs the official conformance suite, once for each revision we promise: its server scenarios against a served
 * endpoint, and its client scenarios through Pegboard to the suite's own servers (client.mjs).
 *
 *   node test/conformance/run.mjs [--mode server|client] [--url http://localhost:4000/mcp [--token T]]
 *                                 [--requirements REVISION] [--scenario NAME]
 *
 * Without --mode both; without --url it starts Pegboard itself, over HTTP, in front of the fixture server. --scenario
 * runs one client scenario and shows all the suite says.
 *
 * Exits 0 when every scored server scenario passes, and every client scenario but those expected-failures.json names;
 * one it names that passes is a failure too, so that the list stays true. The suite's own report goes to a temporary
 * folder, which is kept, and named, only when something failed.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

export const REVISIONS = ['2025-11-25', '2026-07-28']

const SUITE = fileURLToPath(import.meta.resolve('@modelcontextprotocol/conformance/dist/index.js'))
const NODE20_HOOK = new URL('./node20-hook.mjs', import.meta.url).href
const BEARER_HOOK = new URL('./bearer-hook.mjs', import.meta.url).href
const CLIENT = fileURLToPath(new URL('./client.mjs', import.meta.url))
const EXPECTED_FAILURES = new URL('./expected-failures.json', import.meta.url)
const MODULES = fileURLToPath(new URL('./modules', import.meta.url))
const DEFAULT_TIMEOUT_MS = 180_000
/** Client scenarios running at once. */
const AT_ONCE = 4

/**
 * Runs the scenarios one revision requires and prints one summary line.
 *
 * @param {{url: string, requirements: string, token?: string, timeoutMs?: number}} options
 *   `url` must name localhost (a scenario checks Host); `token` is sent as a bearer token with every request.
 * @returns {Promise<{revision: string, passed: number, failed: number, failedUnscored: number,
 *   failedScored: string[], failures: object[],
 *   warnings: object[], output: string, exitCode: number, ok: boolean}>}
 *   `passed` and `failed` count checks over all scenarios, `failedUnscored` those that failed in scenarios which do
 *   not count (extensions, pending ones); `failedScored` names the scored scenarios that failed;
 *   `failures` and `warnings` are `{scenario, check, scored, message}`. `ok`: the suite ran to its end and nothing
 *   failed, what is not scored included. Warnings are unmet SHOULDs and never fail a run.
 */
export async function runSuite({ url, requirements, token, timeoutMs = DEFAULT_TIMEOUT_MS }) {
  const folder = await mkdtemp(join(tmpdir(), 'pegboard-conformance-'))
  const args = ['server', '--url', url, '--requirements', requirements, '-o', folder]
  const { output, exitCode } = await runCommand(args, { url, token, timeoutMs, folder })
  const ran = summaryOf(output)
  const unscored = unscoredOf(output)
  const marks = await marksOf(folder, unscored)
  const failedScored = ran.filter(({ failed, name }) => failed > 0 && !unscored.has(name)).map(({ name }) => name)
  const scored = ran.filter(({ name }) => !unscored.has(name)).length
  const result = {
    revision: requirements,
    passed: total(ran, 'passed'),
    failed: total(ran, 'failed'),
    failedUnscored: total(
      ran.filter(({ name }) => unscored.has(name)),
      'failed',
    ),
    failedScored,
    failures: marks.filter(({ status }) => status === 'FAILURE'),
    warnings: marks.filter(({ status }) => status === 'WARNING'),
    output,
    exitCode,
    ok: exitCode === 0 && scored > 0 && total(ran, 'failed') === 0,
  }
  await report(result, scored, folder)
  return result
}

/**
 * Runs the client scenarios of one revision, scored or not, and prints one summary line. The suite itself would start
 * them all at once, which is more processes than most machines have cores for.
 *
 * @param {{requirements: string}} options
 * @returns {Promise<{revision: string, passed: string[], expected: string[], failed: string[], stale: string[],
 *   ok: boolean}>} names of scenarios: `expected` failed and are known to, `stale` passed all the same
 */
export async function runClientSuite({ requirements }) {
  const folder = await mkdtemp(join(tmpdir(), 'pegboard-conformance-'))
  const known = new Set(JSON.parse(await readFile(EXPECTED_FAILURES, 'utf8')).client)
  const { output: listed } = await runCommand(['list', '--requirements', requirements], { timeoutMs: 30_000, folder })
  const waiting = clientScenariosOf(listed)
  const total = waiting.length
  const result = { revision: requirements, passed: [], expected: [], failed: [], stale: [] }
  const worker = async () => {
    for (let scenario = waiting.shift(); scenario !== undefined; scenario = waiting.shift()) {
      const args = ['client', '--command', `node ${CLIENT}`, '--scenario', scenario, '--timeout', '60000']
      const { output, exitCode } = await runCommand([...args, '--spec-version', requirements, '--force'], {
        timeoutMs: 90_000,
        folder,
      })
      const fate = known.has(scenario) ? (exitCode === 0 ? 'stale' : 'expected') : exitCode === 0 ? 'passed' : 'failed'
      result[fate].push(scenario)
      if (fate === 'failed') await writeFile(join(folder, `${scenario.replaceAll('/', '-')}.txt`), output)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  const ok = total > 0 && result.failed.length === 0 && result.stale.length === 0
  print(
    `conformance ${requirements}, client: ${ok ? 'ok' : 'FAILED'}, scenarios ${result.passed.length}/${total}, ` +
      `${result.expected.length} known not to pass`,
  )
  for (const name of result.failed) print(`  ${name} failed`)
  for (const name of result.stale) print(`  ${name} passes: take it out of expected-failures.json`)
  if (ok) await rm(folder, { recursive: true, force: true })
  else print(`  full report: ${folder}`)
  return { ...result, ok }
}

/** The names under `Client scenarios`, and those marked `[client]` among what is run without being scored. */
function clientScenariosOf(listed) {
  const [scored = '', unscored = ''] = listed.split(/^Run and reported.*$/m)
  const required = (scored.split(/^Client scenarios.*$/m)[1] ?? '').matchAll(/^ {2}- (\S+)$/gm)
  const extra = unscored.matchAll(/^ +- (\S+) \[client\]$/gm)
  return [...required, ...extra].map(([, name]) => name)
}

/** Runs one client scenario, with everything the suite has to say about it. Answers its exit code. */
async function runScenario(scenario, revision) {
  const version = revision === undefined ? [] : ['--spec-version', revision]
  const args = ['--import', NODE20_HOOK, SUITE, 'client', '--command', `node ${CLIENT}`, '--scenario', scenario]
  const child = spawn(process.execPath, [...args, '--verbose', ...version], { stdio: 'inherit' })
  const [code] = await once(child, 'exit')
  return code ?? 1
}

function runCommand(args, { url, token, timeoutMs, folder }) {
  const preloads = ['--import', NODE20_HOOK, ...(token ? ['--import', BEARER_HOOK] : [])]
  const env = { ...process.env, ...(token && { CONFORMANCE_URL: url, CONFORMANCE_TOKEN: token }) }
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...preloads, SUITE, ...args], {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs)
    let output = ''
    const append = (chunk) => {
      output += chunk
    }
    child.stdout.setEncoding('utf8').on('data', append)
    child.stderr.setEncoding('utf8').on('data', append)
    child.once('error', reject)
    child.once('close', (code) => {
      clearTimeout(timer)
      resolve({ output, exitCode: code ?? 1 })
    })
  })
}

const total = (ran, field) => ran.reduce((sum, scenario) => sum + scenario[field], 0)

/** The lines `✓ tools-list: 3 passed, 0 failed`, as `{name, passing, passed, failed}`. */
function summaryOf(output) {
  const lines = output.matchAll(/^([✓✗]) (\S+): (\d+) passed, (\d+) failed.*$/gm)
  return [...lines].map(([, mark, name, passed, failed]) => ({
    name,
    passing: mark === '✓',
    passed: Number(passed),
    failed: Number(failed),
  }))
}

/** The names in the list that follows `Not scored for <revision>`. */
function unscoredOf(output) {
  const list = output.split(/^Not scored for .*$/m)[1] ?? ''
  return new Set([...list.matchAll(/^ {2}[✓✗] (\S+) \(/gm)].map(([, name]) => name))
}

/** Failed and doubtful checks, from the reports the suite leaves as `server-<scenario>-<time>/checks.json`. */
async function marksOf(folder, unscored) {
  const marks = []
  for (const entry of (await readdir(folder)).sort()) {
    const scenario = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(entry)?.[1]
    if (scenario === undefined) continue
    for (const { id, status, errorMessage } of await checksIn(join(folder, entry))) {
      if (status !== 'FAILURE' && status !== 'WARNING') continue
      marks.push({ scenario, check: id, status, scored: !unscored.has(scenario), message: errorMessage ?? '' })
    }
  }
  return marks
}

/** A scenario that broke off leaves a folder without a report; its failure still stands in the summary. */
async function checksIn(folder) {
  try {
    return JSON.parse(await readFile(join(folder, 'checks.json'), 'utf8'))
  } catch (error) {
    if (error.code === 'ENOENT') return []
    throw error
  }
}

async function report(
  { revision, ok, passed, failed, failedUnscored, failedScored, failures, warnings, output },
  scored,
  folder,
) {
  const verdict = ok ? 'ok' : 'FAILED'
  print(
    `conformance ${revision}: ${verdict}, scored scenarios ${scored - failedScored.length}/${scored}, ` +
      `checks ${passed} passed, ${failed} failed (${failedUnscored} not scored), ${warnings.length} warnings`,
  )
  for (const { scenario, check, message, scored: counts } of [...failures, ...warnings])
    if (!counts) print(`  not scored: ${scenario}, ${check}: ${message}`)
  if (ok) return rm(folder, { recursive: true, force: true })
  for (const name of failedScored) {
    const reasons = failures.filter(({ scenario }) => scenario === name)
    print(`  ${name}${reasons.length === 0 ? ': broke off, see the report' : ''}`)
    for (const { check, message } of reasons) print(`    ${check}: ${message}`)
  }
  if (scored === 0) print(output)
  await writeFile(join(folder, 'output.txt'), output)
  print(`  full report: ${folder}`)
}

function print(line) {
  process.stdout.write(`${line}\n`)
}

async function main() {
  const { values } = parseArgs({
    options: {
      mode: { type: 'string' },
      url: { type: 'string' },
      token: { type: 'string' },
      requirements: { type: 'string', multiple: true },
      scenario: { type: 'string' },
    },
  })
  if (values.scenario !== undefined) return await runScenario(values.scenario, values.requirements?.[0])
  const revisions = values.requirements ?? REVISIONS
  const results = []
  if (values.mode !== 'client') results.push(...(await serverResults(values, revisions)))
  if (values.mode !== 'server' && values.url === undefined)
    for (const requirements of revisions) results.push(await runClientSuite({ requirements }))
  return results.every(({ ok }) => ok) ? 0 : 1
}

async function serverResults(values, revisions) {
  const served = values.url === undefined ? await servePegboard() : undefined
  try {
    const { url, token } = served ?? values
    const results = []
    for (const requirements of revisions) results.push(await runSuite({ url, requirements, token }))
    return results
  } finally {
    await served?.stop()
  }
}

/** Pegboard in direct mode in front of the fixture server, whose names the suite knows without a prefix. */
async function servePegboard() {
  const folder = await mkdtemp(join(tmpdir(), 'pegboard-conformance-'))
  const config = join(folder, 'mcp.config.json')
  const fixture = fileURLToPath(new URL('../fixtures/conformance-server.mjs', import.meta.url))
  // One of its tools comes and goes; on a slow machine that is after the first look at it is over.
  const relay = ['elicitation', 'sampling', 'roots']
  const mcpServers = { fixture: { command: process.execPath, args: [fixture], prefix: '', trust: 'always', relay } }
  await writeFile(
    config,
    JSON.stringify({ exposure: { mode: 'direct' }, dirs: { state: 'state' }, modulesDir: MODULES, mcpServers }),
  )
  const cli = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
  const child = spawn(process.execPath, [cli, 'serve', '--http', '--port', '0', '--json', '--config', config], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const stop = async () => {
    child.kill()
    await ended
    await rm(folder, { recursive: true, force: true })
  }
  const [line] = await once(child.stdout, 'data')
  const { url, token } = JSON.parse(line)
  await untilListed(url, token)
  return { url, token, stop }
}

/** Waits until the fixture's tools are there: upstreams connect after the server answers. */
async function untilListed(url, token) {
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
  })
  const client = new Client({ name: 'conformance', version: '1.0.0' })
  await client.connect(transport)
  for (let tries = 0; tries < 100; tries++) {
    const { tools } = await client.listTools()
    if (tools.some(({ name }) => name === 'test_simple_text')) break
    await sleep(100)
  }
  await client.close()
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.exitCode = await main()
}
