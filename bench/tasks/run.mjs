// npm run bench:tasks [-- --modes direct,discovery,compact,code] [--jobs note,plan] [--tools 300] [--json FILE]
//   [--endpoint URL --model NAME [--shape openai|anthropic]]   the key comes from MODEL_KEY
//   [--public mcp-atlas|livemcpbench --from TASKS --servers FILE [--data DIR] [--limit N] [--judge NAME] [--wait SECONDS]]
// Jobs over real servers, done by an agent that knows the steps, or by a model. npm ci --prefix bench/tasks --ignore-scripts first.
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { machine, now, sleep, table } from '../measure.mjs'
import { assertBuilt, inFolder, startPegboard, untilIndexed, writeConfig } from '../pegboard.mjs'
import { runModel, runScripted } from './agents.mjs'
import { jobs } from './jobs.mjs'
import { openModel } from './models.mjs'
import { FORMATS, readPublicJobs, readServers } from './public-tasks.mjs'
import { fill, listedServers, serversIn } from './servers.mjs'

const { values } = parseArgs({
  options: {
    modes: { type: 'string', default: 'direct,discovery,compact,code' },
    jobs: { type: 'string' },
    tools: { type: 'string', default: '300' },
    endpoint: { type: 'string' },
    model: { type: 'string' },
    shape: { type: 'string', default: 'openai' },
    json: { type: 'string' },
    public: { type: 'string' },
    from: { type: 'string' },
    servers: { type: 'string' },
    data: { type: 'string' },
    limit: { type: 'string' },
    judge: { type: 'string' },
    wait: { type: 'string', default: '60' },
  },
})
assertBuilt()
const { MODEL_KEY: key, ...variables } = process.env
const model = values.endpoint && openModel({ ...values, key })
const run = model ? runModel : runScripted
const isPublic = values.public !== undefined
if (isPublic && !(FORMATS.includes(values.public) && model && values.from && values.servers))
  throw new Error(`--public takes ${FORMATS.join(' or ')}, with --from, --servers, --endpoint and --model`)
const judging = isPublic && openModel({ ...values, model: values.judge ?? values.model, key })
const all = isPublic
  ? readPublicJobs(values.public, await readFile(values.from, 'utf8'), { data: values.data, model: judging })
  : jobs
const wanted = values.jobs?.split(',')
const chosen = all.filter(({ id }) => !wanted || wanted.includes(id)).slice(0, Number(values.limit ?? all.length))
const given = isPublic
  ? readServers(values.public, await readFile(values.servers, 'utf8'), { data: values.data, env: variables })
  : { servers: {}, left: [] }
if (given.left.length > 0) process.stderr.write(`left out, because variables are not set: ${given.left.join('; ')}\n`)

/** All tools of the servers of a configuration that is ready. */
async function countTools(client) {
  const { categories } = JSON.parse((await client.call('list_categories', {})).content[0].text)
  return categories.reduce((sum, { tool_count }) => sum + tool_count, 0)
}

const plain = (name) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

/** Waits until every server has told its tools. Of a public benchmark, some may not start any more. */
async function untilAllTold(client, names) {
  const until = now() + Number(values.wait) * 1_000
  for (;;) {
    const { categories } = JSON.parse((await client.call('list_categories', {})).content[0].text)
    const missing = names.filter(
      (name) => !categories.some(({ id, tool_count }) => plain(id) === plain(`mcp_${name}`) && tool_count > 0),
    )
    if (missing.length === 0) return
    if (now() > until) {
      if (!isPublic) throw new Error(`no tools yet: ${missing.join(', ')}`)
      process.stderr.write(`no tools: ${missing.join(', ')}\n`)
      return
    }
    await sleep(200)
  }
}

/** Runs all jobs with one way of listing tools, over servers and files of their own. */
const measure = (mode) =>
  inFolder(async (folder) => {
    const dir = isPublic ? undefined : join(folder, 'home')
    if (!isPublic) {
      await mkdir(dir)
      fill(dir)
    }
    const used = isPublic ? given.servers : serversIn(dir)
    const state = await mkdtemp(join(folder, 'state-'))
    const settings = {
      exposure: { mode, primitives: false },
      modules: Object.fromEntries(['filesystem', 'http', 'web', 'hello'].map((name) => [name, { enabled: false }])),
    }
    const servers = isPublic ? used : { ...used, ...listedServers(REAL_TOOLS, Number(values.tools)) }
    const config = await writeConfig(folder, servers, settings)
    const client = startPegboard({ config, state, cwd: values.data ?? folder, env: isPublic ? variables : {} })
    try {
      const { instructions = '' } = await client.connect()
      await untilAllTold(client, Object.keys(servers))
      await client.call('search_tools', { query: 'anything' })
      await untilIndexed(client)
      const tools = (await client.listTools()).map(({ name, description, inputSchema }) => ({
        name,
        description,
        inputSchema,
      }))
      const menu = countTokens(instructions) + countTokens(JSON.stringify(tools))
      const results = []
      for (const job of chosen) {
        const began = now()
        const result = await run(mode, job, { client, dir, menu, tools, model })
        results.push({ job: job.id, ...result, ms: now() - began })
        if (!result.ok) process.stderr.write(`${mode} ${job.id}: ${result.error ?? 'the check failed'}\n`)
      }
      return { mode, menu, tools: await countTools(client), results }
    } finally {
      await client.close()
    }
  })

/** Tools of the servers that the jobs use. */
const REAL_TOOLS = 112

const measured = []
for (const mode of values.modes.split(',')) measured.push(await measure(mode))
const needed = chosen.reduce((sum, { steps }) => sum + new Set(steps.map(({ tool }) => tool)).size, 0)
const sum = (results, key) => results.reduce((all, one) => all + one[key], 0)
const whole = ({ results }) => sum(results, 'in') + sum(results, 'out')
const direct = measured.find(({ mode }) => mode === 'direct')
const rows = measured.map((one) => ({
  mode: one.mode,
  success: `${one.results.filter(({ ok }) => ok).length} of ${one.results.length}`,
  'menu, tokens': one.menu,
  'in, a job': sum(one.results, 'in') / one.results.length,
  'out, a job': sum(one.results, 'out') / one.results.length,
  'tokens of direct, %': direct ? (100 * whole(one)) / whole(direct) : Number.NaN,
  'calls, a job': sum(one.results, 'calls') / one.results.length,
  'searches, a tool': sum(one.results, 'searches') / needed,
  's, a job': sum(one.results, 'ms') / one.results.length / 1_000,
}))
const { node, platform, cores, cpu, date } = machine()
process.stdout.write(
  `node ${node}, ${platform}, ${cores} × ${cpu}, ${date.slice(0, 10)}\n${table(`${chosen.length} jobs${isPublic ? ` of ${values.public}` : ''} over ${isPublic ? Object.keys(given.servers).length : 'twelve'} servers, ${measured[0].tools} tools, ${model ? values.model : 'an agent that knows the steps'}`, rows)}\n`,
)
if (values.json) await writeFile(values.json, `${JSON.stringify({ rows, measured }, null, 2)}\n`)
process.exitCode = model || measured.every(({ results }) => results.every(({ ok }) => ok)) ? 0 : 1
