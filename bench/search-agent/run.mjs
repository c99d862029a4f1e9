// npm run bench:search-agent -- --endpoint URL --model NAME [--shape openai|anthropic]   the key comes from MODEL_KEY
//   or --terminal: a person, or any program, calls the tools by lines on stdin
//   [--requests 40] [--from 0] [--lang en|other|all] [--no-match 0] [--servers git,slack] [--json FILE]
// A model works through requests in everyday words with nothing but the listed tools.
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { machine, now, sleep, table } from '../measure.mjs'
import { assertBuilt, inFolder, ROOT, startPegboard, untilIndexed, writeConfig } from '../pegboard.mjs'
import { openModel } from '../tasks/models.mjs'
import { listServers } from './listed-servers.mjs'
import { rowOf, runRequest } from './measure.mjs'
import { openTerminal } from './terminal.mjs'

const { values } = parseArgs({
  options: {
    endpoint: { type: 'string' },
    model: { type: 'string' },
    shape: { type: 'string', default: 'openai' },
    terminal: { type: 'boolean', default: false },
    requests: { type: 'string', default: '40' },
    from: { type: 'string', default: '0' },
    lang: { type: 'string', default: 'en' },
    'no-match': { type: 'string', default: '0' },
    servers: { type: 'string' },
    json: { type: 'string' },
  },
})
if (!values.terminal && !values.endpoint) throw new Error('give --endpoint URL and --model NAME, or --terminal')
assertBuilt()

const LABELLED = join(ROOT, 'test/search/labelled/everyday')
const read = (name) => readFile(join(LABELLED, name), 'utf8')
const names = values.servers?.split(',') ?? JSON.parse(await read('servers.json'))
const all = (await read('queries.jsonl')).trim().split('\n').map(JSON.parse)

/** Requests of every kind: each a fixed step after the last. */
function some(from, most) {
  const step = Math.max(1, Math.floor(from.length / most))
  const start = Number(values.from) % step
  return from.filter((_, at) => at % step === start).slice(0, most)
}

const inLang = all.filter(({ lang }) => values.lang === 'all' || (lang === 'en') === (values.lang === 'en'))
const isListed = (id) => names.includes(id.split('/')[0])
const answered = inLang.filter(({ relevant }) => relevant.some(isListed))
const unanswered = inLang.filter(({ relevant }) => relevant.length === 0)
const noMatch = Number(values['no-match'])
const requests = [...some(answered, Number(values.requests)), ...(noMatch > 0 ? some(unanswered, noMatch) : [])]

/** Waits until every server has told its tools. */
async function untilAllTold(client, count) {
  const until = now() + 120_000
  for (;;) {
    const { categories } = JSON.parse((await client.call('list_categories', {})).content[0].text)
    if (categories.reduce((sum, { tool_count }) => sum + tool_count, 0) >= count) return
    if (now() > until) throw new Error(`not all tools are there: ${JSON.stringify(categories)}`)
    await sleep(200)
  }
}

/** Starts once, so that the instructions of the next start know all servers. */
async function learn(run) {
  const client = startPegboard(run)
  try {
    await client.connect()
    await untilAllTold(client, listed.tools)
    // What is learned is written after the answer.
    await sleep(1_000)
  } finally {
    await client.close()
  }
}

const model = values.terminal
  ? openTerminal({ input: process.stdin, write: (text) => process.stdout.write(text) })
  : openModel({ ...values, key: process.env.MODEL_KEY })

const calls = []
const reached = () => calls.splice(0)
const listed = await listServers(names, (id) => calls.push(id))
const results = await inFolder(async (folder) => {
  const state = join(folder, 'state')
  await mkdir(state)
  const off = ['filesystem', 'http', 'web', 'hello']
  const config = await writeConfig(folder, listed.servers, {
    modules: Object.fromEntries(off.map((name) => [name, { enabled: false }])),
  })
  await learn({ config, state, cwd: folder })
  const client = startPegboard({ config, state, cwd: folder })
  try {
    const { instructions = '' } = await client.connect()
    const tools = (await client.listTools()).map(({ name, description, inputSchema }) => ({
      name,
      description,
      inputSchema,
    }))
    await client.call('search_tools', { query: 'anything' })
    await untilIndexed(client)
    const menu = countTokens(instructions) + countTokens(JSON.stringify(tools))
    const done = []
    for (const request of requests) {
      const result = await runRequest(request, { client, menu, tools, instructions, model, reached })
      done.push({ ...request, ...result })
      if (!result.ok) process.stderr.write(`${request.id}: ${result.error ?? `called ${result.used.join(', ')}`}\n`)
    }
    return done
  } finally {
    await client.close()
    listed.close()
  }
})
const { node, platform, cores, cpu, date } = machine()
const title = `${results.length} requests over ${names.length} servers, ${listed.tools} tools`
process.stdout.write(
  `\nnode ${node}, ${platform}, ${cores} × ${cpu}, ${date.slice(0, 10)}\n${table(title, [rowOf(values.terminal ? 'by hand' : values.model, results)])}\n`,
)
if (values.json) await writeFile(values.json, `${JSON.stringify(results, null, 2)}\n`)
process.exit(0)
