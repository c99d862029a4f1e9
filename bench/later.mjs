// What the background costs: tasks that sleep, calls in parallel, and schedules that are merely there.
import { mkdir, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { cpuOf, now, sleep } from './measure.mjs'
import { inFolder, startPegboard, writeConfig } from './pegboard.mjs'

const MODULE = `export default { name: 'slow', description: 'Sleeps.', tools: { sleep: {
  description: 'Sleeps for so many milliseconds.', effect: 'read',
  input: { type: 'object', properties: { ms: { type: 'integer' } }, required: ['ms'] },
  run: ({ ms }) => new Promise((resolve) => setTimeout(() => resolve(ms), ms)) } } }`
const TASKS = 1_000
const SCHEDULES = 10_000

const callTool = async (client, name, args) => {
  const result = await client.request('tools/call', { name, arguments: args })
  if (result.isError) throw new Error(result.content[0].text)
  return result.structuredContent
}

async function withPegboard(folder, execution, use) {
  await mkdir(join(folder, 'modules'), { recursive: true })
  await writeFile(join(folder, 'modules', 'slow.js'), MODULE)
  const config = await writeConfig(folder, {}, { execution })
  const client = await startPegboard({ config, state: join(folder, 'state'), cwd: folder })
  try {
    return await use(client)
  } finally {
    await client.close()
  }
}

/** All of them, and the same calls without the background. */
async function tasks(client) {
  let left = TASKS
  const cpuBegan = cpuOf(client.pid)
  const began = now()
  await Promise.all(
    Array.from({ length: 32 }, async () => {
      while (left-- > 0) await callTool(client, 'background_run', { name: 'slow.sleep', params: { ms: 10 } })
    }),
  )
  const all = now() - began
  const cpu = cpuOf(client.pid) - cpuBegan
  let direct = TASKS
  const floorCpuBegan = cpuOf(client.pid)
  const floorBegan = now()
  await Promise.all(
    Array.from({ length: 32 }, async () => {
      while (direct-- > 0) await callTool(client, 'execute_tool', { name: 'slow.sleep', params: { ms: 10 } })
    }),
  )
  const floor = now() - floorBegan
  const floorCpu = cpuOf(client.pid) - floorCpuBegan
  return { allMs: all, callsMs: floor, overheadMs: (all - floor) / TASKS, cpuMs: (cpu - floorCpu) / TASKS }
}

async function parallel(client) {
  const actions = Array.from({ length: 50 }, (_, at) => ({ name: 'slow.sleep', params: { ms: 100 + at } }))
  const took = []
  for (let run = 0; run < 10; run++) {
    const began = now()
    await callTool(client, 'run_parallel', { actions })
    took.push(now() - began)
  }
  return Math.min(...took) / 149
}

const LATER = { watchers: true, scheduler: true }

/** Writes jobs as Pegboard does, into the file it made itself. */
function plant(file) {
  const Database = process.getBuiltinModule?.('node:sqlite')?.DatabaseSync ?? createRequire(import.meta.url)('libsql')
  const database = new Database(file)
  database.exec('BEGIN')
  const insert = database.prepare(
    "INSERT INTO documents (kind, id, owner, value, revision) VALUES ('job', ?, 'x', ?, 1)",
  )
  const caller = { principal: 'local', profile: 'default', roles: [], era: 'legacy' }
  const at = Date.now() + 86_400_000
  for (let job = 0; job < SCHEDULES; job++) {
    const value = {
      caller,
      tool: 'slow.sleep',
      params: { ms: 1 },
      cron: '0 0 * * *',
      timezone: 'UTC',
      maxRuns: 0,
      runs: 0,
      createdAt: at,
      nextAt: at + job,
    }
    insert.run(`job${job}`, JSON.stringify(value))
  }
  database.exec('COMMIT')
  database.close()
}

/** Processor time of a start with its first list and the second after, and of each second later. */
async function standing(folder) {
  return withPegboard(folder, LATER, async (client) => {
    await client.request('tools/list', {})
    await sleep(4_000)
    const began = cpuOf(client.pid)
    await sleep(10_000)
    return { startMs: began, idleMs: (cpuOf(client.pid) - began) / 10 }
  })
}

async function schedules() {
  return inFolder(async (folder) => {
    await withPegboard(folder, LATER, (client) =>
      callTool(client, 'schedule_once', { when: 'in 1d', name: 'slow.sleep', params: { ms: 1 } }),
    )
    const before = await standing(folder)
    plant(join(folder, 'state', 'state.db'))
    const after = await standing(folder)
    return { moreMs: after.startMs - before.startMs, idleMs: after.idleMs, idleWithoutMs: before.idleMs }
  })
}

export async function measureLater() {
  return inFolder(async (folder) => {
    const first = await withPegboard(folder, { tasks: { maxRunning: 1_000 } }, async (client) => ({
      ...(await tasks(client)),
      parallel: await parallel(client),
    }))
    const there = await schedules()
    const text = `\nBackground and parallel, over stdio
  ${TASKS} tasks of 10 ms, 32 at a time: ${first.allMs.toFixed(0)} ms; the same as calls ${first.callsMs.toFixed(0)} ms; a task adds ${first.overheadMs.toFixed(2)} ms, ${first.cpuMs.toFixed(2)} ms of it processor time
  50 calls in parallel: ${first.parallel.toFixed(2)} x the slowest of them
  ${SCHEDULES} schedules: ${there.moreMs.toFixed(0)} ms of processor time more for a start, ${there.idleMs.toFixed(2)} ms a second while idle (without them ${there.idleWithoutMs.toFixed(2)})
`
    return { text, ...first, schedules: there }
  })
}
