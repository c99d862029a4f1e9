import { table } from '../../bench/measure.mjs'

const MIB = 2 ** 20

/**
 * Growth of a process from the maximum of the first half to the end, and the linear trend of its heap after garbage
 * collection, without code that loads on demand. Total memory: early, in the middle, at the end.
 */
export function growth(samples) {
  const kept = samples.slice(Math.floor(samples.length / 4))
  const [first, last] = [kept[0], kept.at(-1)]
  const early = samples.slice(0, Math.max(1, samples.length >> 1))
  const rss = (sample) => Math.round(sample.rss / MIB)
  const more = (of) => of(last) - Math.max(...early.map(of))
  return {
    samples: samples.length,
    heapMiB: [first, last].map(({ heapUsed }) => +(heapUsed / MIB).toFixed(1)),
    ...line(kept.map(({ at, heapUsed }) => [(at - first.at) / 3_600_000, heapUsed / MIB])),
    rssMiB: { early: rss(first), middle: rss(kept[kept.length >> 1]), end: rss(last) },
    descriptors: more(({ descriptors }) => descriptors),
    children: more(({ children }) => children),
    timers: more(({ timers }) => timers),
    listeners: more(({ listeners }) => listeners),
    stuck: Math.max(...samples.map(({ stuck }) => stuck)),
    warnings: last.warnings,
  }
}

/** Least squares: MiB per hour, and twice its standard error. */
function line(points) {
  const mean = (of) => points.reduce((sum, point) => sum + of(point), 0) / points.length
  const [mx, my] = [mean(([x]) => x), mean(([, y]) => y)]
  const sxx = points.reduce((sum, [x]) => sum + (x - mx) ** 2, 0)
  const slope = points.reduce((sum, [x, y]) => sum + (x - mx) * (y - my), 0) / sxx
  const rest = points.reduce((sum, [x, y]) => sum + (y - my - slope * (x - mx)) ** 2, 0)
  const error = points.length > 2 ? Math.sqrt(rest / (points.length - 2) / sxx) : Number.NaN
  return { heapMiBAnHour: +slope.toFixed(1), plusMinus: +(2 * error).toFixed(1) }
}

const HEAP_MIB_AN_HOUR = 20
const RATIO = 1.5
/** In a short run the slope is not significant. */
const LONG_MINUTES = 20

/** The conditions that must hold, and the violated ones. */
export function verdicts(figures) {
  const rows = []
  const broken = []
  const hold = (what, value, holds, hard = true) => {
    rows.push({ what, value, '': holds ? 'holds' : hard ? 'BROKEN' : 'missed, short run' })
    if (!holds && hard) broken.push(what)
  }
  const none = (what, value) => hold(what, value, value === 0)
  for (const what of ['lost', 'crossed', 'doubled', 'failedBeside']) none(`calls ${what}`, figures.calls[what])
  for (const [side, left] of Object.entries(figures.left)) {
    for (const what of ['descriptors', 'children', 'timers', 'listeners'])
      hold(`${side}: ${what} more`, left[what], left[what] <= 0)
    none(`${side}: failing servers that did not end`, left.stuck)
    none(`${side}: warnings`, left.warnings.length)
    const sure = left.heapMiBAnHour - left.plusMinus
    hold(
      `${side}: heap MiB an hour`,
      `${left.heapMiBAnHour} +- ${left.plusMinus}`,
      sure < HEAP_MIB_AN_HOUR,
      figures.minutes >= LONG_MINUTES,
    )
  }
  for (const [at, { code, left }] of figures.ends.entries()) {
    none(`server ${at + 1}: exit status`, code)
    none(`server ${at + 1}: processes left`, left)
  }
  for (const [store, killed] of Object.entries(figures.killed)) {
    rows.push({
      what: `${store}: SIGKILL, things acknowledged`,
      value: `${killed.rounds}, ${killed.acknowledged}`,
      '': '',
    })
    for (const what of ['lost', 'doubled', 'damaged', 'leftBehind']) none(`${store}: ${what}`, killed[what])
  }
  hold(
    `p95 beside the bad ones, times that without`,
    +figures.latencyMs.ratio.toFixed(2),
    figures.latencyMs.ratio <= RATIO,
    figures.minutes >= LONG_MINUTES,
  )
  return { broken, text: table('What must hold', rows) }
}
