import { spawn } from 'node:child_process'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFleet } from './catalogue.mjs'
import { smallEnvironment } from './client.mjs'
import { cpuOf, cpuOfEnded, interleave, mean, median, now, table } from './measure.mjs'
import { inFolder, serversOf, startPegboard, warmUp, writeConfig } from './pegboard.mjs'

const ROUNDS = 9
const FLEET = makeFleet(10, 100)

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

/** Spawn to the first `tools/list`, against Node doing nothing right before it. */
export const measureStart = () =>
  inFolder(async (folder) => {
    const makeState = () => mkdtemp(join(folder, 'state-'))
    const write = async (name, servers) => writeConfig(await mkdtemp(join(folder, `${name}-`)), servers)
    const missing = Object.fromEntries(FLEET.map(({ id }) => [id, { command: `no-such-program-${id}`, args: [] }]))
    const healthy = await write('healthy', serversOf(FLEET))
    const known = await makeState()
    await warmUp({ config: healthy, state: known, cwd: folder }, FLEET)
    const kinds = [
      { kind: 'no servers', config: await write('none', {}) },
      { kind: 'ten healthy, never seen', config: healthy },
      { kind: 'ten healthy, known', config: healthy, state: known },
      { kind: 'ten commands that do not exist', config: await write('missing', missing) },
      { kind: 'ten that never answer', config: await write('silent', serversOf(FLEET, ['--fault', 'silent'])) },
    ]
    const once = async (kind) =>
      startOnce({ config: kind.config, state: kind.state ?? (await makeState()), cwd: folder })
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
    return {
      rows,
      text: table(`Start: spawn to the first tools/list (${ROUNDS} rounds; goal: at most 6 × bare node)`, rows),
    }
  })
