import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { makeFleet, makeQuestions } from './catalogue.mjs'
import { cpuOf, mean, median, now, quantile, sleep, table } from './measure.mjs'
import { inFolder, serversOf, startPegboard, untilIndexed, untilReady, warmUp, writeConfig } from './pegboard.mjs'

const ROUNDS = 4
const QUESTIONS = 60
const STARTS = 3
/** After this a known catalogue is indexed; servers are connected later, and take the processor. */
const SETTLE_MS = 600
// Pegboard takes at most 500 tools of a server, and nobody starts two hundred servers: the most tools are of drop-in modules.
const SIZES = [
  { total: 1_000, servers: 10 },
  { total: 10_000, servers: 20 },
  { total: 100_000, servers: 200, modules: true },
]

const timed = async (call) => {
  const before = now()
  const result = await call()
  return { ms: now() - before, result }
}

async function writeModules(folder, fleet) {
  const source = JSON.stringify(new URL('./catalogue.mjs', import.meta.url).href)
  await mkdir(join(folder, 'modules'))
  for (const { id, server, tools } of fleet)
    await writeFile(
      join(folder, 'modules', `${id}.mjs`),
      `import { makeModule } from ${source}\nexport default makeModule(${server}, ${tools})\n`,
    )
}

async function measureSize(folder, { total, servers, modules = false }) {
  const fleet = makeFleet(servers, total).map((one) => ({ ...one, category: modules ? one.id : `mcp_${one.id}` }))
  if (modules) await writeModules(folder, fleet)
  const config = await writeConfig(folder, modules ? {} : serversOf(fleet), { exposure: { mode: 'discovery' } })
  const run = { config, state: await mkdtemp(join(folder, 'state-')), cwd: folder }
  const ask = (client, question) => timed(() => client.call('search_tools', { query: question.query, max_results: 5 }))
  const questions = makeQuestions(fleet, QUESTIONS)
  await warmUp(run, fleet, { indexed: true })
  const first = {
    atOnce: await firstSearch(run, questions[0], ask, 0),
    after: await firstSearch(run, questions[0], ask, SETTLE_MS),
  }
  const client = startPegboard(run)
  try {
    await client.connect()
    await client.request('tools/list', {})
    await untilReady(client, fleet)
    await untilIndexed(client)
    // Connecting is over; what it left behind should be, too.
    await sleep(1_000)
    await Promise.all(questions.map((question) => ask(client, question)))
    const asked = []
    const pings = []
    const before = cpuOf(client.pid)
    for (let round = 0; round < ROUNDS; round++)
      for (const question of questions) {
        asked.push({ question, ...(await ask(client, question)) })
        pings.push((await timed(() => client.request('ping', {}))).ms)
      }
    const cpu = cpuOf(client.pid) - before
    const answers = asked.map(({ question, result }) => ({ question, text: result.content[0].text }))
    const tokens = answers.filter(({ text }) => JSON.parse(text).count === 5).map(({ text }) => countTokens(text))
    const prefix = modules ? '' : 'mcp_'
    const found = answers.filter(({ question, text }) =>
      text.includes(`"${prefix}${question.server}.${question.tool}"`),
    )
    const times = asked.map(({ ms }) => ms)
    return {
      tools: total,
      'first ms, at once': first.atOnce,
      'first ms, after 0.6 s': first.after,
      'p50 ms': median(times),
      'p99 ms': quantile(times, 0.99),
      'ping p50 ms': median(pings),
      '× ping': median(times) / median(pings),
      'cpu ms': cpu / asked.length,
      'tokens of five hits': mean(tokens),
      most: Math.max(...tokens),
      'right one in five %': Math.round((100 * found.length) / asked.length),
    }
  } finally {
    await client.close()
  }
}

/** The first search of a process that has searched the same tools before, `afterMs` after it has listed its tools. */
async function firstSearch(run, question, ask, afterMs) {
  const times = []
  for (let start = 0; start < STARTS; start++) {
    const client = startPegboard(run)
    try {
      await client.connect()
      await client.request('tools/list', {})
      await sleep(afterMs)
      times.push((await ask(client, question)).ms)
    } finally {
      await client.close()
    }
  }
  return median(times)
}

/** `search_tools` through the protocol. Tokens are those of the text a model reads. */
export async function measureSearch() {
  const rows = []
  for (const size of SIZES) rows.push(await inFolder((folder) => measureSize(folder, size)))
  const goals = 'goals: p50 at most 0.5, 1 and 8 ms; first after 0.6 s at most 10 ms at 10,000; at most 300 tokens'
  return { rows, text: table(`Search through the protocol (${QUESTIONS} questions × ${ROUNDS}; ${goals})`, rows) }
}
