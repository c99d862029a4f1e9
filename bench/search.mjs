import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { makeFleet, makeQuestions } from './catalogue.mjs'
import { cpuOf, mean, median, now, quantile, sleep, table } from './measure.mjs'
import { inFolder, serversOf, startPegboard, untilReady, warmUp, writeConfig } from './pegboard.mjs'

const ROUNDS = 4
const QUESTIONS = 60
// Pegboard takes at most 500 tools of a server.
const SIZES = [
  { total: 1_000, servers: 10 },
  { total: 10_000, servers: 20 },
]

const timed = async (call) => {
  const before = now()
  const result = await call()
  return { ms: now() - before, result }
}

async function measureSize(folder, { total, servers }) {
  const fleet = makeFleet(servers, total)
  const config = await writeConfig(folder, serversOf(fleet), { exposure: { mode: 'discovery' } })
  const run = { config, state: await mkdtemp(join(folder, 'state-')), cwd: folder }
  await warmUp(run, fleet)
  const client = startPegboard(run)
  const ask = (question) => timed(() => client.call('search_tools', { query: question.query, max_results: 5 }))
  try {
    await client.connect()
    const questions = makeQuestions(fleet, QUESTIONS)
    const first = await ask(questions[0])
    await untilReady(client, fleet)
    // Connecting is over; what it left behind should be, too.
    await sleep(1_000)
    await Promise.all(questions.map(ask))
    const asked = []
    const pings = []
    const before = cpuOf(client.pid)
    for (let round = 0; round < ROUNDS; round++)
      for (const question of questions) {
        asked.push({ question, ...(await ask(question)) })
        pings.push((await timed(() => client.request('ping', {}))).ms)
      }
    const cpu = cpuOf(client.pid) - before
    const answers = asked.map(({ question, result }) => ({ question, text: result.content[0].text }))
    const tokens = answers.filter(({ text }) => JSON.parse(text).count === 5).map(({ text }) => countTokens(text))
    const found = answers.filter(({ question, text }) => text.includes(`"mcp_${question.server}.${question.tool}"`))
    const times = asked.map(({ ms }) => ms)
    return {
      tools: total,
      'first ms, known servers': first.ms,
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

/** `search_tools` through the protocol. Tokens are those of the text a model reads. */
export async function measureSearch() {
  const rows = []
  for (const size of SIZES) rows.push(await inFolder((folder) => measureSize(folder, size)))
  const goals = 'goals: p50 at most 1 ms at 1,000 tools; at most 300 tokens'
  return { rows, text: table(`Search through the protocol (${QUESTIONS} questions × ${ROUNDS}; ${goals})`, rows) }
}
