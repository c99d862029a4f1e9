// Reads the public tasks of LiveMCPBench and MCP-Atlas as jobs of this benchmark. Their data is not part of this repository.
import { judge } from './judge.mjs'

/** Where each benchmark expects its files. */
const DATA = { 'mcp-atlas': ['/data'], livemcpbench: ['/root', './annotated_data'] }
export const FORMATS = Object.keys(DATA)
/** Share of the claims that an answer must meet, as in MCP-Atlas. */
const ENOUGH = 0.75

/**
 * @param format `livemcpbench`: a JSON list. `mcp-atlas`: CSV, or JSON lines, with the columns of the data set
 * @param options.data folder with the files of the benchmark
 * @param options.model judges answers
 */
export function readPublicJobs(format, text, { data, model }) {
  const tasks = format === 'mcp-atlas' ? atlasTasks(text) : liveTasks(text)
  return tasks.map(({ id, request, tools, claims, isWhole }) => ({
    id,
    request: localPaths(format, request, data),
    steps: tools.map((tool) => ({ tool })),
    async check(_folder, _result, said) {
      const met = await judge(model, request, said, claims)
      // LiveMCPBench asks whether the task was done, MCP-Atlas how many of the claims hold.
      return isWhole ? met.every((one) => one === 1) : met.reduce((sum, one) => sum + one, 0) / met.length >= ENOUGH
    },
  }))
}

/** The servers of a benchmark: those whose variables are set, and the names of the others. */
export function readServers(format, text, { data, env }) {
  const { mcpServers } = JSON.parse(text)
  const servers = {}
  const left = []
  for (const [name, server] of Object.entries(mcpServers)) {
    const missing = new Set()
    const filled = fillVariables(server, env, missing)
    if (missing.size > 0) left.push(`${name} (${[...missing].join(', ')})`)
    else servers[serverName(name)] = localPaths(format, filled, data)
  }
  return { servers, left }
}

/** Pegboard's names of servers have no spaces. */
const serverName = (name) => name.replaceAll(/[^A-Za-z0-9_-]+/g, '-')

function fillVariables(value, env, missing) {
  if (typeof value === 'string')
    return value.replaceAll(/\$\{(\w+)\}/g, (_, name) => {
      if (!env[name]) missing.add(name)
      return env[name] ?? ''
    })
  if (Array.isArray(value)) return value.map((one) => fillVariables(one, env, missing))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, fillVariables(one, env, missing)]))
}

/** The same with the paths of the benchmark's container replaced by those of this machine. */
function localPaths(format, value, data) {
  if (data === undefined) return value
  if (typeof value === 'string')
    return DATA[format].reduce(
      (text, path) =>
        text.replaceAll(new RegExp(`(?<![\\w./])${path.replaceAll('.', '\\.')}(?![\\w-])`, 'g'), () => data),
      value,
    )
  if (Array.isArray(value)) return value.map((one) => localPaths(format, one, data))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, localPaths(format, one, data)]))
}

function liveTasks(text) {
  return JSON.parse(text).map((task) => {
    const { Steps: steps = '', Tools: tools = '' } = task['Annotator Metadata'] ?? {}
    const answer = String(task.answers ?? '').trim()
    return {
      id: task.task_id,
      request: task.file_name ? `${task.Question}\nThe file is ${task.file_name}.` : task.Question,
      tools: numbered(tools),
      claims: [...(answer === '' ? [] : [`The answer is: ${answer}`]), ...numbered(steps)],
      isWhole: true,
    }
  })
}

/** The entries of "1. first\n2. second". */
const numbered = (text) =>
  String(text)
    .split('\n')
    .map((line) => line.replace(/^\s*\d+[.)]\s*/, '').trim())
    .filter(Boolean)

function atlasTasks(text) {
  const rows = text.trimStart().startsWith('{')
    ? text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
    : parseCsv(text)
  return rows.map((row) => ({
    id: row.TASK,
    request: row.PROMPT,
    tools: calledTools(listOf(row.TRAJECTORY)),
    claims: listOf(row.GTFA_CLAIMS),
    isWhole: false,
  }))
}

const calledTools = (trajectory) => [
  ...new Set(trajectory.flatMap(({ tool_calls: calls }) => (calls ?? []).map((call) => call.function.name))),
]

/** A list, also as JSON, or as Python writes it. */
function listOf(value) {
  if (value === undefined || value === null || value === '') return []
  if (Array.isArray(value)) return value
  try {
    return JSON.parse(value)
  } catch {
    return pythonList(value)
  }
}

/** The strings of a Python list. */
function pythonList(text) {
  const strings = text.matchAll(/'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"/gs)
  return [...strings].map(([, single, double]) =>
    (single ?? double).replaceAll(/\\(.)/gs, (_, char) => ({ n: '\n', t: '\t', r: '\r' })[char] ?? char),
  )
}

/** CSV with a row of names. Values in quotes may contain line breaks. */
export function parseCsv(text) {
  const rows = [[]]
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    rows.at(-1).push(quoted === undefined ? plain : quoted.replaceAll('""', '"'))
    if (end === '') break
    if (end !== ',') rows.push([])
  }
  const [names, ...values] = rows.filter((row) => row.length > 1 || row[0] !== '')
  return values.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at]])))
}
