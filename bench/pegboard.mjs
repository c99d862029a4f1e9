import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openHttp, smallEnvironment, startStdio } from './client.mjs'
import { splitLines } from './lines.mjs'
import { now, sleep } from './measure.mjs'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
export const ROOT = here('..')
const FAKE = here('fake-upstream.mjs')
const RELAY = here('relay.mjs')
const MAIN = process.env.PEGBOARD_MAIN ?? here('../dist/cli/main.js')

/** Throws when there is nothing to measure. */
export function assertBuilt() {
  if (!existsSync(MAIN)) throw new Error(`${MAIN} is missing: run "npm run build" first.`)
}

/** A folder that is gone after `use`. */
export async function inFolder(use) {
  const folder = await mkdtemp(join(tmpdir(), 'pegboard-bench-'))
  try {
    return await use(folder)
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** How a fake upstream of a fleet is started. */
export const fakeCommand = ({ id, server, tools }, more = []) => ({
  command: process.execPath,
  args: [FAKE, '--name', id, '--server', String(server), '--tools', String(tools), ...more],
})

export const serversOf = (fleet, more) => Object.fromEntries(fleet.map((one) => [one.id, fakeCommand(one, more)]))

/** Writes a configuration into `folder` and answers with its path. */
export async function writeConfig(folder, mcpServers, settings = {}) {
  const file = join(folder, 'mcp.config.json')
  await writeFile(file, JSON.stringify({ mcpServers, ...settings }, null, 2))
  return file
}

export const startFake = (one) => startStdio(fakeCommand(one))
export const startRelay = (config) => startStdio({ args: [RELAY, '--config', config] })

/** NODE_FLAGS (such as --cpu-prof) go to Pegboard alone. */
const nodeFlags = () => (process.env.NODE_FLAGS ?? '').split(' ').filter(Boolean)

/** @param env more variables, such as those of package managers */
export const startPegboard = ({ config, state, cwd, env = {} }) =>
  startStdio({
    args: [...nodeFlags(), MAIN, 'serve', '--stdio', '--config', config],
    env: { PEGBOARD_STATE_DIR: state, HOME: state, ...env },
    cwd,
  })

const TOKEN = 'bench-token-that-is-long-enough'

/** Starts Pegboard on a free port. */
export async function startPegboardHttp({ config, state }) {
  const child = spawn(
    process.execPath,
    [...nodeFlags(), MAIN, 'serve', '--http', '--json', '--port', '0', '--config', config],
    {
      env: smallEnvironment({ PEGBOARD_STATE_DIR: state, HOME: state, PEGBOARD_TOKEN: TOKEN }),
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  )
  return listening(child, (line) => /http:\/\/[^\s"]+\/mcp/.exec(line)?.[0])
}

/** A fake upstream over HTTP. */
export async function startFakeHttp(one) {
  const { command, args } = fakeCommand(one, ['--http', '0'])
  const child = spawn(command, args, { env: smallEnvironment(), stdio: ['pipe', 'pipe', 'ignore'] })
  return listening(child, (line) => `http://127.0.0.1:${JSON.parse(line).port}/mcp`)
}

async function listening(child, urlIn) {
  const gone = new Promise((resolve) => child.once('exit', resolve))
  const url = await new Promise((resolve, reject) => {
    child.stdout.on(
      'data',
      splitLines((line) => urlIn(line) && resolve(urlIn(line))),
    )
    gone.then((code) => reject(new Error(`the server ended with ${code} before it listened`)))
  })
  const peer = openHttp({ url, token: TOKEN })
  return {
    ...peer,
    url,
    pid: child.pid,
    async close() {
      peer.close()
      child.kill('SIGTERM')
      const killer = setTimeout(() => child.kill('SIGKILL'), 8_000)
      await gone
      clearTimeout(killer)
    },
  }
}

const STRUCTURED = (result) => result.structuredContent ?? JSON.parse(result.content[0].text)

/** Waits until every server or module of the fleet has told its tools; whether it runs is its own affair. */
export async function untilReady(client, fleet, timeoutMs = 60_000) {
  const until = now() + timeoutMs
  for (;;) {
    const { categories } = STRUCTURED(await client.call('list_categories', {}))
    const ready = fleet.filter(({ id, tools, category = `mcp_${id}` }) =>
      categories.some((one) => one.id === category && one.tool_count >= tools),
    )
    if (ready.length === fleet.length) return
    if (now() > until) throw new Error(`not ready: ${JSON.stringify(categories).slice(0, 600)}`)
    await sleep(50)
  }
}

/** Waits until search answers with all it has: once the vectors are there, or at once without a model. */
export async function untilIndexed(client, timeoutMs = 120_000) {
  const until = now() + timeoutMs
  for (;;) {
    const { contents } = await client.request('resources/read', { uri: 'server://status' })
    const { ranking, semantic } = JSON.parse(contents[0].text).search
    if (ranking !== 'keyword' || semantic !== 'loading') return
    if (now() > until) throw new Error('not indexed')
    await sleep(100)
  }
}

/** Waits until the encoder has read every tool, which takes about two minutes for 10,000 tools. */
async function untilEncoded(client, timeoutMs = 600_000) {
  const until = now() + timeoutMs
  for (;;) {
    const { contents } = await client.request('resources/read', { uri: 'server://status' })
    if (JSON.parse(contents[0].text).search.encoder !== 'loading') return
    if (now() > until) throw new Error('not encoded')
    await sleep(500)
  }
}

/**
 * Starts once and lets every server answer, so that `state` knows them afterwards. With `indexed` the search index, too,
 * and with `encoded` the vectors of the encoder.
 */
export async function warmUp(run, fleet, { indexed = false, encoded = false } = {}) {
  const client = startPegboard(run)
  try {
    await client.connect()
    await untilReady(client, fleet)
    if (indexed) {
      await client.call('search_tools', { query: 'anything' })
      await untilIndexed(client)
    }
    if (encoded) await untilEncoded(client)
    // What is learnt is written behind the answer.
    await sleep(300)
  } finally {
    await client.close()
  }
}
