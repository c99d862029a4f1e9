import { spawn } from 'node:child_process'
import { cp, mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFleet } from './catalogue.mjs'
import { smallEnvironment } from './client.mjs'
import { cpuOf, cpuOfEnded, interleave, mean, median, memoryOf, now, sleep, table } from './measure.mjs'
import { inFolder, serversOf, startPegboard, warmUp, writeConfig } from './pegboard.mjs'

const ROUNDS = 9
const FLEET = makeFleet(10, 100)
const LARGE = makeFleet(50, 10_000)
const LARGE_ROUNDS = 5
/** By then search has its index and V8's code is kept. */
const SETTLE_MS = 4_000
const IDLE_MS = 5_000

/** Node doing nothing, until it is gone. */
async function bareNode() {
  const cpuBefore = cpuOfEnded()
  const began = now()
  const child = spawn(process.execPath, ['-e', '0'], { env: smallEnvironment(), stdio: ['pipe', 'pipe', 'pipe'] })
  await new Promise((resolve) => child.once('exit', resolve))
  return { wall: now() - began, cpu: cpuOfEnded() - cpuBefore }
}

async function startOnce(run) {
  const bare = await bareNode()
  const began = now()
  const client = startPegboard(run)
  try {
    await client.connect()
    const answered = now() - began
    const { tools } = await client.request('tools/list', {})
    const listed = now() - began
    return { bare, answered, listed, cpu: cpuOf(client.pid), tools: tools.length }
  } finally {
    await client.close()
  }
}

/** The folder with what V8 compiled in a first start: the servers may be new, but Pegboard seldom is. */
async function compiledCode(folder) {
  const run = { config: await writeConfig(await mkdtemp(join(folder, 'first-')), {}), cwd: folder }
  const state = await mkdtemp(join(folder, 'state-'))
  const client = startPegboard({ ...run, state })
  try {
    await client.connect()
    await client.request('tools/list', {})
    await sleep(SETTLE_MS)
  } finally {
    await client.close()
  }
  return join(state, 'cache/code')
}

/** One start with fifty servers of two hundred tools that are known and not started. */
async function startLarge(run) {
  const bare = await bareNode()
  const began = now()
  const client = startPegboard(run)
  try {
    await client.connect()
    await client.request('tools/list', {})
    const listed = now() - began
    const cpu = cpuOf(client.pid)
    const memory = memoryOf(client.pid)
    await sleep(SETTLE_MS)
    const asked = now()
    await client.call('search_tools', { query: 'create an event in the calendar' })
    const searched = now() - asked
    const memorySearched = memoryOf(client.pid)
    const cpuIdle = cpuOf(client.pid)
    await sleep(IDLE_MS)
    return { bare, listed, cpu, memory, searched, memorySearched, idle: cpuOf(client.pid) - cpuIdle }
  } finally {
    await client.close()
  }
}

async function measureLarge(folder) {
  const run = {
    config: await writeConfig(await mkdtemp(join(folder, 'large-')), serversOf(LARGE)),
    state: await mkdtemp(join(folder, 'state-')),
    cwd: folder,
  }
  await warmUp(run, LARGE, { indexed: true, encoded: true })
  // The first start after that keeps what V8 compiled.
  const [, ...all] = (await interleave([run], LARGE_ROUNDS + 1, startLarge))[0]
  const of = (pick) => median(all.map(pick))
  return [
    {
      'fifty servers × 200 tools, known': 'first list',
      'tools/list ms': of((one) => one.listed),
      '× bare': of((one) => one.listed / one.bare.wall),
      'cpu ms': of((one) => one.cpu),
      '× bare cpu': of((one) => one.cpu) / mean(all.map((one) => one.bare.cpu)),
      'MiB after the list': of((one) => one.memory),
      'first search ms': of((one) => one.searched),
      'MiB after it': of((one) => one.memorySearched),
      'idle cpu ms a second': (of((one) => one.idle) / IDLE_MS) * 1_000,
    },
  ]
}

/** Spawn to the first `tools/list`, against Node doing nothing right before it. */
export const measureStart = () =>
  inFolder(async (folder) => {
    const code = await compiledCode(folder)
    const makeState = async () => {
      const state = await mkdtemp(join(folder, 'state-'))
      await cp(code, join(state, 'cache/code'), { recursive: true })
      return state
    }
    const write = async (name, servers) => writeConfig(await mkdtemp(join(folder, `${name}-`)), servers)
    const missing = Object.fromEntries(FLEET.map(({ id }) => [id, { command: `no-such-program-${id}`, args: [] }]))
    const healthy = await write('healthy', serversOf(FLEET))
    const none = await write('none', {})
    const known = await makeState()
    await warmUp({ config: healthy, state: known, cwd: folder }, FLEET)
    const kinds = [
      { kind: 'no servers, first start of an installation', config: none, fresh: true },
      { kind: 'no servers', config: none },
      { kind: 'ten healthy, never seen', config: healthy },
      { kind: 'ten healthy, known', config: healthy, state: known },
      { kind: 'ten commands that do not exist', config: await write('missing', missing) },
      { kind: 'ten that never answer', config: await write('silent', serversOf(FLEET, ['--fault', 'silent'])) },
    ]
    const once = async (kind) =>
      startOnce({
        config: kind.config,
        state: kind.state ?? (await (kind.fresh ? mkdtemp(join(folder, 'state-')) : makeState())),
        cwd: folder,
      })
    const results = await interleave(kinds, ROUNDS, once)
    const bare = results.flat().map((one) => one.bare)
    const bareCpu = mean(bare.map((one) => one.cpu))
    const of = (all, pick) => median(all.map(pick))
    const rows = [
      {
        'ten servers': 'node -e 0',
        'initialize ms': '',
        'tools/list ms': median(bare.map((one) => one.wall)),
        '× bare': 1,
        'cpu ms': bareCpu,
        '× bare cpu': 1,
        listed: '',
      },
      ...kinds.map(({ kind }, index) => ({
        'ten servers': kind,
        'initialize ms': of(results[index], (one) => one.answered),
        'tools/list ms': of(results[index], (one) => one.listed),
        '× bare': of(results[index], (one) => one.listed / one.bare.wall),
        'cpu ms': of(results[index], (one) => one.cpu),
        '× bare cpu': of(results[index], (one) => one.cpu) / bareCpu,
        listed: results[index].at(-1).tools,
      })),
    ]
    const large = await measureLarge(folder)
    return {
      rows,
      large,
      text: `${table(`Start: spawn to the first tools/list (${ROUNDS} rounds; goal: at most 6 × bare node)`, rows)}${table(
        `Start with 10,000 tools known and no server running (${LARGE_ROUNDS} rounds; goals: 5 × bare node on Node 20, 4 × on 22 and 24, first search 10 ms, 70 MiB, idle 0)`,
        large,
      )}`,
    }
  })
