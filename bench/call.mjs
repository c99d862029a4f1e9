import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFleet } from './catalogue.mjs'
import { block, cpuOf, interleave, median, table } from './measure.mjs'
import {
  inFolder,
  serversOf,
  startFake,
  startFakeHttp,
  startPegboard,
  startPegboardHttp,
  startRelay,
  untilReady,
  writeConfig,
} from './pegboard.mjs'

const ROUNDS = 8
const BLOCK_MS = 500
const FLEET = makeFleet(1, 10)
const [{ id }] = FLEET
const SMALL = { text: 'hello' }
const MIB = { bytes: 2 ** 20 }
// The relay sends a long result whole, so Pegboard does, too.
const SETTINGS = { exposure: { mode: 'direct' }, execution: { maxResultTokens: 0 } }
const SCENES = [
  { scene: 'small, one at a time', input: SMALL, width: 1 },
  { scene: 'small, 32 at a time', input: SMALL, width: 32 },
  { scene: '1 MiB reply, one at a time', input: MIB, width: 1 },
]

async function assertEcho(side, input) {
  const { content } = await side.call(input)
  const bytes = content?.[0]?.text.length ?? 0
  if (bytes < (input.bytes ?? input.text.length))
    throw new Error(`${side.name}: ${JSON.stringify(content).slice(0, 300)}`)
}

/** Blocks of calls on each side in turn; the first side is what the others are compared with. */
async function compare(sides, scenes) {
  const rows = []
  for (const { scene, input, width } of scenes) {
    for (const side of sides) {
      await assertEcho(side, input)
      await block(() => side.call(input), { width, ms: BLOCK_MS })
    }
    const results = await interleave(sides, ROUNDS, async (side) => {
      const before = side.pid === undefined ? Number.NaN : cpuOf(side.pid)
      const done = await block(() => side.call(input), { width, ms: BLOCK_MS })
      const spent = side.pid === undefined ? Number.NaN : cpuOf(side.pid) - before
      return { ...done, cpuUs: (spent * 1_000) / done.calls }
    })
    for (const [index, side] of sides.entries()) {
      const pick = (of) => median(results[index].map((one, round) => of(one, results[0][round])))
      rows.push({
        scene,
        side: side.name,
        'p50 ms': pick((one) => one.p50),
        'p99 ms': pick((one) => one.p99),
        'added ms': pick((one, direct) => one.p50 - direct.p50),
        '× direct': pick((one, direct) => one.p50 / direct.p50),
        'calls/s': pick((one) => one.perSecond),
        'own cpu µs': pick((one) => one.cpuUs),
      })
    }
  }
  return rows
}

async function overStdio(folder) {
  const config = await writeConfig(folder, serversOf(FLEET), SETTINGS)
  const direct = startFake(FLEET[0])
  const relay = startRelay(config)
  const pegboard = startPegboard({ config, state: await mkdtemp(join(folder, 'state-')), cwd: folder })
  try {
    await Promise.all([direct.connect(), relay.connect(), pegboard.connect()])
    await relay.listTools()
    await untilReady(pegboard, FLEET)
    const listed = await pegboard.listTools()
    const echo = listed.find((tool) => tool.name.endsWith('__echo'))?.name
    if (echo === undefined) throw new Error(`no echo among ${listed.map((tool) => tool.name).join(', ')}`)
    const sides = [
      { name: 'direct', call: (input) => direct.call('echo', input) },
      { name: 'relay (floor)', pid: relay.pid, call: (input) => relay.call(`${id}__echo`, input) },
      { name: 'Pegboard', pid: pegboard.pid, call: (input) => pegboard.call(echo, input) },
      {
        name: 'Pegboard, execute_tool',
        pid: pegboard.pid,
        call: (input) => pegboard.call('execute_tool', { name: `mcp_${id}.echo`, params: input }),
      },
    ]
    return await compare(sides, SCENES)
  } finally {
    await Promise.all([direct.close(), relay.close(), pegboard.close()])
  }
}

async function overHttp(folder) {
  const settings = { ...SETTINGS, server: { http: { token: '$' + '{PEGBOARD_TOKEN}' } } }
  const config = await writeConfig(folder, serversOf(FLEET), settings)
  const direct = await startFakeHttp(FLEET[0])
  const pegboard = await startPegboardHttp({ config, state: await mkdtemp(join(folder, 'state-')) })
  try {
    await Promise.all([direct.connect(), pegboard.connect()])
    await untilReady(pegboard, FLEET)
    const sides = [
      { name: 'direct', call: (input) => direct.call('echo', input) },
      {
        name: `Pegboard${pegboard.session() ? '' : ', no session'}`,
        pid: pegboard.pid,
        call: (input) => pegboard.call(`mcp_${id}__echo`, input),
      },
    ]
    return await compare(sides, SCENES)
  } finally {
    await Promise.all([direct.close(), pegboard.close()])
  }
}

/** The same echo straight to a server and through what stands between. */
export async function measureCall() {
  const goals =
    'goals: small at most 6 × direct; 32 at a time at least 14,000 a second where the floor does 35,000, so 0.4 × floor'
  const rows = await inFolder(overStdio)
  const http = await inFolder(overHttp)
  const rate = (side) => rows.find((row) => row.side === side && row.scene === SCENES[1].scene)['calls/s']
  const share = rate('Pegboard') / rate('relay (floor)')
  const text =
    table(`Calls over stdio (${ROUNDS} rounds of ${BLOCK_MS} ms; ${goals})`, rows) +
    `32 at a time: ${share.toFixed(2)} × the floor\n` +
    table('Calls over HTTP, session of the 2025 protocol (server behind it on stdio)', http)
  return { rows, http, shareOfFloor: share, text }
}
