/**
 * Runs the official conformance suite:
 *   - its server scenarios for each revision we promise, against Pegboard in front of the fixture servers, whose tasks it
 *     relays as well
 *   - those of 2026-07-28 once more, in front of the same servers that speak only 2025-11-25
 *   - its client scenarios for each revision, through Pegboard to the suite's own servers (client.mjs)
 *
 *   node test/conformance/run.mjs [--mode server|client] [--url http://localhost:4000/mcp [--token T]]
 *                                 [--requirements REVISION] [--scenario NAME]
 *
 * Without --mode both; without --url it starts Pegboard itself, over HTTP. --scenario runs one client scenario and shows
 * all the suite says.
 *
 * Exits 0 when every server check and every client scenario passes but those that expected-failures.json names with the
 * reason; one it names that passes is a failure too, so that the list stays true. The suite's own report goes to a
 * temporary folder, which is kept, and named, only when something failed.
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
const NEWEST = '2026-07-28'

const SUITE = fileURLToPath(import.meta.resolve('@modelcontextprotocol/conformance/dist/index.js'))
const NODE20_HOOK = new URL('./node20-hook.mjs', import.meta.url).href
const BEARER_HOOK = new URL('./bearer-hook.mjs', import.meta.url).href
const CLIENT = fileURLToPath(new URL('./client.mjs', import.meta.url))
const EXPECTED_FAILURES = new URL('./expected-failures.json', import.meta.url)
const fixture = (name) => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url))
const DEFAULT_TIMEOUT_MS = 180_000
/** Number of client scenarios that run concurrently. */
const AT_ONCE = 4

/**
 * Runs the scenarios one revision requires and prints one summary line.
 *
 * @param {{url: string, requirements: string, token?: string, timeoutMs?: number, title?: string, known?: object}} options
 *   `url` must name localhost (a scenario checks Host); `token` is sent as a bearer token with every request; `known`
 *   gives checks that are expected to fail, and the reason.
 * @returns {Promise<{revision: string, passed: number, failed: number, expected: string[], stale: string[],
 *   failures: object[], warnings: object[], output: string, exitCode: number, ok: boolean}>}
 *   `passed` and `failed` count checks over all scenarios, scored or not; `failures` and `warnings` are
 *   `{scenario, check, scored, message}`, `failures` without those that are known; `expected` names the known ones that
 *   failed, `stale` those that did not. `ok`: the suite ran to its end and nothing failed that is not known. Warnings are
 *   unmet SHOULDs and never fail a run.
 */
export async function runSuite({
  url,
  requirements,
  token,
  timeoutMs = DEFAULT_TIMEOUT_MS,
  title = requirements,
  known = {},
}) {
  const folder = await mkdtemp(join(tmpdir(), 'pegboard-conformance-'))
  const args = ['server', '--url', url, '--requirements', requirements, '-o', folder]
  const { output, exitCode } = await runCommand(args, { url, token, timeoutMs, folder })
  const ran = summaryOf(output)
  const unscored = unscoredOf(output)
  const marks = await marksOf(folder, unscored)
  const failed = marks.filter(({ status }) => status === 'FAILURE')
  const expected = failed.filter(({ check }) => Object.hasOwn(known, check))
  const stale = Object.keys(known).filter((check) => !expected.some((one) => one.check === check))
  const result = {
    revision: requirements,
    passed: total(ran, 'passed'),
    failed: total(ran, 'failed'),
    expected: expected.map(({ check }) => check),
    stale,
    failures: failed.filter(({ check }) => !Object.hasOwn(known, check)),
    warnings: marks.filter(({ status }) => status === 'WARNING'),
    output,
    exitCode,
    // An aborted scenario counts as failed and has no checks.
    ok:
      ran.some(({ name }) => !unscored.has(name)) &&
      total(ran, 'failed') === expected.length &&
      stale.length === 0 &&
      (exitCode === 0 || expected.length > 0),
  }
  await report(result, title, ran, unscored, folder)
  return result
}

/**
 * Runs the client scenarios of one revision, scored or not, and prints one summary line. The suite itself would start
 * all of them at once, which is too many processes.
 * @param {{requirements: string}} options
 * @returns {Promise<{revision: string, passed: string[], expected: string[], failed: string[], stale: string[], ok:
 * boolean}>} names of scenarios: `expected` are known failures, `stale` are known failures that passed
 */
export async function runClientSuite({ requirements }) {
  const folder = await mkdtemp(join(tmpdir(), 'pegboard-conformance-'))
  const known = (await expectedFailures()).client
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
      const fate = Object.hasOwn(known, scenario)
        ? exitCode === 0
          ? 'stale'
          : 'expected'
        : exitCode === 0
          ? 'passed'
          : 'failed'
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

/** The names under `Client scenarios`, and the unscored ones marked `[client]`. */
function clientScenariosOf(listed) {
  const [scored = '', unscored = ''] = listed.split(/^Run and reported.*$/m)
  const required = (scored.split(/^Client scenarios.*$/m)[1] ?? '').matchAll(/^ {2}- (\S+)$/gm)
  const extra = unscored.matchAll(/^ +- (\S+) \[client\]$/gm)
  return [...required, ...extra].map(([, name]) => name)
}

/** Runs one client scenario with the whole output of the suite. Returns its exit code. */
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

/** Failed and doubtful checks, from the reports of the suite in `server-<scenario>-<time>/checks.json`. */
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

/** An aborted scenario leaves a folder without a report; the summary still has its failure. */
async function checksIn(folder) {
  try {
    return JSON.parse(await readFile(join(folder, 'checks.json'), 'utf8'))
  } catch (error) {
    if (error.code === 'ENOENT') return []
    throw error
  }
}

async function report(result, title, ran, unscored, folder) {
  const { ok, passed, failed, expected, stale, failures, warnings, output } = result
  const scored = ran.filter(({ name }) => !unscored.has(name))
  const good = scored.filter((scenario) => scenario.failed === 0).length
  print(
    `conformance ${title}: ${ok ? 'ok' : 'FAILED'}, scored scenarios ${good}/${scored.length}, ` +
      `checks ${passed} passed, ${failed} failed (${expected.length} known not to pass), ${warnings.length} warnings`,
  )
  for (const { scenario, check, message, scored: counts } of [...failures, ...warnings])
    if (!counts) print(`  not scored: ${scenario}, ${check}: ${message}`)
  if (ok) return rm(folder, { recursive: true, force: true })
  for (const { name } of ran.filter((scenario) => scenario.failed > 0)) {
    const reasons = failures.filter(({ scenario }) => scenario === name)
    const told = reasons.length > 0 || expected.length > 0
    print(`  ${name}${told ? '' : ': broke off, see the report'}`)
    for (const { check, message } of reasons) print(`    ${check}: ${message}`)
  }
  for (const check of stale) print(`  ${check} passes: take it out of expected-failures.json`)
  if (scored.length === 0) print(output)
  await writeFile(join(folder, 'output.txt'), output)
  print(`  full report: ${folder}`)
}

const expectedFailures = async () => JSON.parse(await readFile(EXPECTED_FAILURES, 'utf8'))

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

async function serverResults({ url, token, requirements }, revisions) {
  if (url !== undefined) return await suites({ url, token }, revisions)
  const results = await servingPegboard([], (served) => suites(served, revisions))
  if (requirements !== undefined && !requirements.includes(NEWEST)) return results
  const known = (await expectedFailures()).only2025
  const title = `${NEWEST}, in front of servers of 2025-11-25`
  return [
    ...results,
    ...(await servingPegboard(['--only-2025'], (served) => suites({ ...served, title, known }, [NEWEST]))),
  ]
}

async function suites(options, revisions) {
  const results = []
  for (const requirements of revisions) results.push(await runSuite({ ...options, requirements }))
  return results
}

/**
 * Calls `use` with the address and token of a Pegboard in direct mode in front of the fixture servers. The suite
 * expects their names without a prefix.
 */
async function servingPegboard(args, use) {
  const folder = await mkdtemp(join(tmpdir(), 'pegboard-conformance-'))
  const config = join(folder, 'mcp.config.json')
  const server = (file) => ({
    command: process.execPath,
    args: [fixture(file), ...args],
    prefix: '',
    // One of the tools comes and goes; on a slow machine that is after the first connection to it is over.
    trust: 'always',
    relay: ['elicitation', 'sampling', 'roots'],
  })
  const mcpServers = { fixture: server('conformance-server.mjs'), tasks: server('conformance-tasks.mjs') }
  await writeFile(config, JSON.stringify({ exposure: { mode: 'direct' }, dirs: { state: 'state' }, mcpServers }))
  const cli = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
  const child = spawn(process.execPath, [cli, 'serve', '--http', '--port', '0', '--json', '--config', config], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  try {
    const [line] = await once(child.stdout, 'data')
    const { url, tokenFile } = JSON.parse(line)
    const token = (await readFile(tokenFile, 'utf8')).trim()
    await untilListed(url, token)
    return await use({ url, token })
  } finally {
    child.kill()
    await ended
    await rm(folder, { recursive: true, force: true })
  }
}

/** Waits for the tools of both servers, because upstream servers connect later than Pegboard answers. */
async function untilListed(url, token) {
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
  })
  const client = new Client({ name: 'conformance', version: '1.0.0' })
  await client.connect(transport)
  for (let tries = 0; tries < 100; tries++) {
    const { tools } = await client.listTools()
    if (['test_simple_text', 'greet'].every((wanted) => tools.some(({ name }) => name === wanted))) break
    await sleep(100)
  }
  await client.close()
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.exitCode = await main()
}
