// Collects the tool definitions of the servers in servers.json and writes them to definitions/.
//
//   node training/atlas/collect.mjs --install ../atlas-servers [--catalogue tools.jsonl] [--only id,id] [--missing]
//
// npm packages are installed under the --install folder, one folder for each server, and run over stdio.
// An entry with "source": "catalogue" is read from the --catalogue file instead (one tool a line).
import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'

const here = dirname(fileURLToPath(import.meta.url))
const { values: options } = parseArgs({
  options: {
    install: { type: 'string' },
    catalogue: { type: 'string' },
    only: { type: 'string' },
    missing: { type: 'boolean' },
  },
})
if (!options.install) throw new Error('Pass --install DIR: the folder to install the packages in.')

const maxTools = 120
const listTimeoutMs = 60_000
const installTimeoutMs = 240_000
const run = promisify(execFile)
const workFolder = (id) => resolve(options.install, id, 'work')

/** Install the entry's npm package and return the path of the server's script. */
async function install(entry) {
  const folder = resolve(options.install, entry.id)
  const packageFolder = join(folder, 'node_modules', entry.package)
  const readManifest = async () => JSON.parse(await readFile(join(packageFolder, 'package.json'), 'utf8'))
  const installed = await readManifest().catch(() => undefined)
  if (installed?.version !== entry.version) {
    await mkdir(folder, { recursive: true })
    const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', '--no-package-lock']
    const spec = `${entry.package}@${entry.version}`
    await run('npm', ['install', ...flags, '--prefix', folder, spec], { timeout: installTimeoutMs })
  }
  const { bin } = await readManifest()
  const script = typeof bin === 'string' ? bin : bin?.[entry.run.command]
  if (!script) throw new Error(`${entry.package} has no command "${entry.run.command}"`)
  return join(packageFolder, script)
}

/** Start the server, read every page of its tools, and stop it with its child processes. */
async function listTools(entry, script) {
  const folder = workFolder(entry.id)
  await mkdir(folder, { recursive: true })
  const fill = (text) => String(text).replaceAll('{dir}', folder)
  const env = { PATH: process.env.PATH, HOME: folder, TMPDIR: folder, LANG: 'C.UTF-8' }
  for (const [name, value] of Object.entries(entry.run.env ?? {})) env[name] = fill(value)
  for (const [name, content] of Object.entries(entry.run.files ?? {})) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(join(folder, name), JSON.stringify(content))
  }
  const args = [script, ...(entry.run.args ?? []).map(fill)]
  // detached: the server leads its own process group, so that one signal also ends its children.
  const child = spawn(process.execPath, args, { cwd: folder, env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] })
  const waiting = new Map()
  let errors = ''
  let fail
  const failed = new Promise((_, reject) => {
    fail = (reason) => reject(new Error(`${reason}. ${errors.trim().slice(-300)}`))
  })
  child.stderr.on('data', (chunk) => {
    errors = (errors + chunk).slice(-2000)
  })
  child.stdin.on('error', () => {})
  child.on('error', (error) => fail(error.message))
  child.on('exit', (code) => setTimeout(() => fail(`exited with code ${code}`), 100))
  const timer = setTimeout(() => fail(`no answer within ${listTimeoutMs} ms`), listTimeoutMs)
  const send = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  createInterface({ input: child.stdout }).on('line', (line) => {
    let message
    try {
      message = JSON.parse(line)
    } catch {
      return // Some servers print log lines to stdout.
    }
    if (message.method === 'roots/list') send({ id: message.id, result: { roots: [] } })
    else if (message.method && message.id !== undefined) send({ id: message.id, result: {} })
    else waiting.get(message.id)?.(message)
  })
  let lastId = 0
  const request = async (method, params) => {
    const id = ++lastId
    const answer = new Promise((resolve) => waiting.set(id, resolve))
    send({ id, method, params })
    const message = await Promise.race([answer, failed])
    if (message.error) throw new Error(`${method}: ${message.error.message}`)
    return message.result
  }
  try {
    const clientInfo = { name: 'atlas', version: '1.0.0' }
    const { serverInfo } = await request('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo })
    send({ method: 'notifications/initialized' })
    const tools = []
    let cursor
    do {
      const page = await request('tools/list', cursor ? { cursor } : {})
      tools.push(...page.tools)
      cursor = page.nextCursor
    } while (cursor && tools.length < 1000)
    return { serverInfo, tools }
  } finally {
    clearTimeout(timer)
    failed.catch(() => {})
    if (child.exitCode === null) {
      try {
        process.kill(-child.pid, 'SIGKILL')
      } catch {}
    }
  }
}

/** Return the listed tools with only the fields that Pegboard reads. */
function keepFields({ name, title, description, inputSchema, annotations }) {
  const { $schema, ...schema } = inputSchema ?? { type: 'object' }
  return { name, title, description: description ?? '', inputSchema: schema, annotations }
}

/** Read the server's tools from the catalogue file. */
async function readCatalogue({ server }) {
  const lines = (await readFile(options.catalogue, 'utf8')).trim().split('\n')
  const tools = lines.map((line) => JSON.parse(line)).filter((tool) => tool.server === server)
  return { serverInfo: { name: server }, tools }
}

/** Write the definitions file of one server. */
async function collect(entry) {
  const { id, version, licence, kind, source } = entry
  const listed = source === 'catalogue' ? await readCatalogue(entry) : await listTools(entry, await install(entry))
  if (listed.tools.length === 0) throw new Error('the server lists no tools')
  const serverInfo = { name: listed.serverInfo.name, version: listed.serverInfo.version }
  const head = JSON.stringify({ id, serverInfo, package: entry.package, version, licence, kind, source })
  const tools = listed.tools.slice(0, maxTools).map((tool) => JSON.stringify(keepFields(tool)))
  // One tool a line, so that a new version gives a readable diff.
  const text = `${head.slice(0, -1)},"tools":[\n${tools.join(',\n')}\n]}\n`
  // Some descriptions name the working folder.
  await writeFile(join(here, 'definitions', `${id}.json`), text.replaceAll(workFolder(id), '/home/user'))
  console.log(`${id}: ${tools.length} tools${listed.tools.length > maxTools ? ` of ${listed.tools.length}` : ''}`)
}

const servers = JSON.parse(await readFile(join(here, 'servers.json'), 'utf8'))
const only = options.only?.split(',')
const isMissing = ({ id }) => !existsSync(join(here, 'definitions', `${id}.json`))
const queue = servers.filter((entry) => (!only || only.includes(entry.id)) && (!options.missing || isMissing(entry)))
await mkdir(join(here, 'definitions'), { recursive: true })
const worker = async () => {
  for (let entry = queue.shift(); entry; entry = queue.shift()) {
    await collect(entry).catch((error) => console.error(`${entry.id}: skipped: ${error.message.split('\n').join(' ')}`))
  }
}
await Promise.all([worker(), worker()])
process.exit()
