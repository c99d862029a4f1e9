import { readdirSync, readFileSync } from 'node:fs'
import { cpus, loadavg, platform } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

export const now = () => performance.now()
export { sleep }

const sorted = (values) => [...values].sort((a, b) => a - b)
export const quantile = (values, share) =>
  sorted(values)[Math.min(values.length - 1, Math.floor(values.length * share))]
export const median = (values) => {
  const all = sorted(values)
  const middle = all.length >> 1
  return all.length % 2 === 1 ? all[middle] : (all[middle - 1] + all[middle]) / 2
}
export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length

/** Three significant digits below 100, whole numbers above. */
export const short = (value) =>
  value === undefined || Number.isNaN(value)
    ? '–'
    : String(+value.toPrecision(value < 100 ? 3 : 15)).replace(/(\d{3,})\.\d+$/, '$1')

/** Milliseconds of processor time all threads of a process have had; NaN where the system does not tell. */
export function cpuOf(pid) {
  try {
    const threads = readdirSync(`/proc/${pid}/task`)
    const ns = threads.map((thread) =>
      Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
    )
    return ns.reduce((sum, value) => sum + value, 0) / 1e6
  } catch (error) {
    if (error.code === 'ENOENT') return Number.NaN
    throw error
  }
}

/** MiB of memory a process holds; NaN where the system does not tell. */
export function memoryOf(pid) {
  try {
    const [, kib] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
    return Number(kib) / 1024
  } catch (error) {
    if (error.code === 'ENOENT') return Number.NaN
    throw error
  }
}

/** Milliseconds of processor time of the children that ended, in steps of ten; NaN where the system does not tell. */
export function cpuOfEnded() {
  if (platform() !== 'linux') return Number.NaN
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ')
  return (Number(fields[13]) + Number(fields[14])) * 10
}

export const load = () => loadavg()[0]

export const machine = () => ({
  node: process.version,
  platform: `${platform()} ${process.arch}`,
  cpu: cpus()[0]?.model.trim() ?? 'unknown',
  cores: cpus().length,
  load: +load().toFixed(2),
  date: new Date().toISOString(),
})

/**
 * Every side in turn, round after round, so that a busy minute strikes all of them alike.
 * @returns for each side its results, one a round
 */
export async function interleave(sides, rounds, measure) {
  const results = sides.map(() => [])
  for (let round = 0; round < rounds; round++)
    for (const [index, side] of sides.entries()) results[index].push(await measure(side, round))
  return results
}

/** Repeats `call`, `width` at a time, for `ms`. Latencies in ms, calls a second. */
export async function block(call, { width, ms }) {
  const latencies = []
  const began = now()
  const worker = async () => {
    do {
      const before = now()
      await call()
      latencies.push(now() - before)
    } while (now() - began < ms)
  }
  await Promise.all(Array.from({ length: width }, worker))
  return {
    p50: median(latencies),
    p99: quantile(latencies, 0.99),
    calls: latencies.length,
    perSecond: (latencies.length / (now() - began)) * 1_000,
  }
}

/** Rows of equal keys as a table of text; numbers to the right. */
export function table(title, rows) {
  const keys = Object.keys(rows[0] ?? {})
  const cells = rows.map((row) =>
    keys.map((key) => (typeof row[key] === 'number' ? short(row[key]) : String(row[key] ?? '–'))),
  )
  const widths = keys.map((key, column) => Math.max(key.length, ...cells.map((row) => row[column].length)))
  const right = keys.map((key) => rows.some((row) => typeof row[key] === 'number'))
  const line = (row) =>
    row
      .map((cell, column) => (right[column] ? cell.padStart(widths[column]) : cell.padEnd(widths[column])))
      .join('  ')
      .trimEnd()
  return `\n${title}\n${line(keys)}\n${widths.map((width) => '-'.repeat(width)).join('  ')}\n${cells.map(line).join('\n')}\n`
}
