import { spawn } from 'node:child_process'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { Agent, request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { makeFleet } from './catalogue.mjs'
import { smallEnvironment } from './client.mjs'
import { cpuOf, interleave, median, memoryOf, now, quantile, table } from './measure.mjs'
import {
  inFolder,
  ROOT,
  serversOf,
  startPegboard,
  startPegboardHttp,
  untilIndexed,
  untilReady,
  warmUp,
  writeConfig,
} from './pegboard.mjs'

const ROUNDS = 8
const LISTS = 10
const PROFILES = 50
const MODERN = '2026-07-28'
const MAIN = process.env.PEGBOARD_MAIN ?? join(ROOT, 'dist/cli/main.js')
const FLOOR = join(ROOT, 'bench/floor.mjs')
const TOKEN = 'bench-token-that-is-long-enough'
const HELLO = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } }
const ENVELOPE = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1' },
}

/** Sends lines and counts what comes back: reading 5 MB of JSON would cost more than what is measured. */
function rawStdio(args, env) {
  const child = spawn(process.execPath, args, { env: smallEnvironment(env), stdio: ['pipe', 'pipe', 'ignore'] })
  const gone = new Promise((resolve) => child.once('exit', resolve))
  let take
  let chunks = []
  child.stdout.on('data', (chunk) => {
    chunks.push(chunk)
    if (chunk.at(-1) !== 10) return
    const all = chunks
    chunks = []
    take?.(all)
  })
  let id = 0
  const write = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  return {
    pid: child.pid,
    notify: (method) => write({ method }),
    request(method, params = {}) {
      const answer = new Promise((resolve) => {
        take = resolve
      })
      write({ id: ++id, method, params })
      return answer
    },
    async close() {
      child.stdin.end()
      await gone
    },
  }
}

function rawHttp(url, headers = {}) {
  const agent = new Agent({ keepAlive: true })
  let id = 0
  const more = { ...headers }
  return {
    more,
    request(method, params = {}) {
      const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }))
      return new Promise((resolve, reject) => {
        const sent = httpRequest(
          url,
          {
            method: 'POST',
            agent,
            headers: {
              'content-type': 'application/json',
              'content-length': body.length,
              accept: 'application/json, text/event-stream',
              authorization: `Bearer ${TOKEN}`,
              ...more,
            },
          },
          (response) => {
            const chunks = []
            response.on('data', (chunk) => chunks.push(chunk))
            response.on('end', () => {
              if (response.statusCode >= 400) return reject(new Error(Buffer.concat(chunks).toString().slice(0, 300)))
              more['mcp-session-id'] ??= response.headers['mcp-session-id']
              if (more['mcp-session-id'] === undefined) delete more['mcp-session-id']
              resolve(chunks)
            })
          },
        )
        sent.on('error', reject)
        sent.end(body)
      })
    },
    close: () => agent.destroy(),
  }
}

const sizeOf = (chunks) => chunks.reduce((sum, chunk) => sum + chunk.length, 0)

async function timed(work) {
  const before = now()
  const chunks = await work()
  return { ms: now() - before, bytes: sizeOf(chunks), chunks }
}

/** Repeated lists of Pegboard against the same bytes from a process that does nothing else. */
async function repeated(pegboard, floor, list) {
  const side = async ({ request, pid }, ask) => {
    const before = cpuOf(pid)
    const times = []
    for (let n = 0; n < LISTS; n++) times.push((await timed(() => ask(request))).ms)
    return { p50: median(times), cpu: (cpuOf(pid) - before) / LISTS }
  }
  const sides = [
    { ...floor, ask: (request) => request('tools/list') },
    { ...pegboard, ask: list },
  ]
  for (const one of sides) await side(one, one.ask)
  const [sending, listing] = await interleave(sides, ROUNDS, (one) => side(one, one.ask))
  const added = (of) => median(listing.map((one, round) => of(one) - of(sending[round])))
  return {
    'sending ms': median(sending.map(({ p50 }) => p50)),
    'again ms': median(listing.map(({ p50 }) => p50)),
    'added ms': added(({ p50 }) => p50),
    'added cpu ms': added(({ cpu }) => cpu),
  }
}

const resultIn = (chunks) => {
  const text = Buffer.concat(chunks).toString()
  return JSON.stringify(JSON.parse(text).result)
}

async function overStdio(where, tools) {
  const pegboard = rawStdio([MAIN, 'serve', '--stdio', '--config', where.config], {
    PEGBOARD_STATE_DIR: where.state,
    HOME: where.state,
  })
  try {
    await pegboard.request('initialize', HELLO)
    pegboard.notify('notifications/initialized')
    const list = (request) => request('tools/list')
    const first = await timed(() => list(pegboard.request))
    const file = join(where.folder, 'result.json')
    await writeFile(file, resultIn(first.chunks))
    const floor = rawStdio([FLOOR, file])
    try {
      const row = await repeated(pegboard, floor, list)
      return { tools, over: 'stdio, 2025', MB: first.bytes / 1e6, 'first ms': first.ms, ...row }
    } finally {
      await floor.close()
    }
  } finally {
    await pegboard.close()
  }
}

async function overHttp(where, tools) {
  const served = await startPegboardHttp(where)
  const child = spawn(process.execPath, [FLOOR, join(where.folder, 'result.json'), '--http'], {
    env: smallEnvironment(),
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const { port } = JSON.parse(String(await new Promise((resolve) => child.stdout.once('data', resolve))))
  const floor = { ...rawHttp(`http://127.0.0.1:${port}/mcp`), pid: child.pid }
  try {
    const rows = []
    for (const era of ['2025', '2026']) {
      const headers =
        era === '2025'
          ? { 'mcp-protocol-version': '2025-11-25' }
          : { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/list' }
      const pegboard = { ...rawHttp(served.url, headers), pid: served.pid }
      if (era === '2025') await pegboard.request('initialize', HELLO)
      const list = (request) => request('tools/list', era === '2026' ? { _meta: ENVELOPE } : {})
      const first = await timed(() => list(pegboard.request))
      const row = await repeated(pegboard, floor, list)
      rows.push({ tools, over: `HTTP, ${era}`, MB: first.bytes / 1e6, 'first ms': first.ms, ...row })
      pegboard.close()
    }
    return rows
  } finally {
    floor.close()
    child.kill()
    await served.close()
  }
}

/** Searches of one connection that speaks for a profile, against the same for another profile each time. */
async function switching(where, fleet, tools) {
  const client = startPegboard(where)
  try {
    await client.connect()
    await untilReady(client, fleet)
    const ask = (profile) =>
      client.request('tools/call', {
        name: 'search_tools',
        arguments: { query: 'pay an invoice' },
        _meta: { profile: `p${profile}` },
      })
    await client.call('search_tools', { query: 'anything' })
    await untilIndexed(client)
    const times = async (profiles) => {
      const all = []
      for (const profile of profiles) {
        const before = now()
        await ask(profile)
        all.push(now() - before)
      }
      return all
    }
    const every = Array.from({ length: PROFILES }, (_, n) => n)
    const first = await times(every)
    const same = []
    const other = []
    for (let round = 0; round < ROUNDS; round++) {
      same.push(...(await times(every.map(() => 0))))
      other.push(...(await times(every)))
    }
    return {
      tools,
      profiles: PROFILES,
      'first of each ms': median(first),
      'same p50 ms': median(same),
      'another each time p50 ms': median(other),
      'p99 ms': quantile(other, 0.99),
      MiB: memoryOf(client.pid),
    }
  } finally {
    await client.close()
  }
}

/** First and repeated lists, and fifty profiles in turn. */
export async function measureLists() {
  const rows = []
  const turns = []
  for (const [servers, each] of [
    [10, 100],
    [20, 500],
  ]) {
    await inFolder(async (folder) => {
      const fleet = makeFleet(servers, servers * each)
      const mcpServers = serversOf(fleet)
      const direct = { exposure: { mode: 'direct' }, server: { http: { token: TOKEN } } }
      const where = {
        folder,
        cwd: folder,
        config: await writeConfig(folder, mcpServers, direct),
        state: await mkdtemp(join(folder, 'state-')),
      }
      await warmUp(where, fleet)
      rows.push(await overStdio(where, servers * each), ...(await overHttp(where, servers * each)))
      const ids = fleet.map(({ id }) => id)
      const profiles = Object.fromEntries(
        Array.from({ length: PROFILES }, (_, n) => [`p${n}`, { use: ids.filter((_id, at) => (at + n) % 3 !== 0) }]),
      )
      await writeConfig(folder, mcpServers, { server: { trustMeta: 'all' }, exposure: { mode: 'discovery' }, profiles })
      turns.push(await switching(where, fleet, servers * each))
    })
  }
  const text =
    table(
      `Lists, all tools shown (${ROUNDS} rounds of ${LISTS}; "sending" is a process that has nothing but the bytes; goal: at most 1 ms added)`,
      rows,
    ) + table('search_tools of one connection, for another profile each time', turns)
  return { rows, turns, text }
}
