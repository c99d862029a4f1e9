/** A metric, named as in OpenTelemetry; other formats derive their names from it. */
export interface MetricFamily {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  /** UCUM unit: `s`, `By`, or empty for counts. */
  readonly unit: string
  readonly points: readonly MetricPoint[]
}

export interface MetricPoint {
  readonly labels: Readonly<Record<string, string>>
  /** Value of a counter or gauge, or the sum of a histogram. */
  readonly value: number
  /** Histograms only: number of values up to each bound and above the last one. */
  readonly buckets?: { readonly bounds: readonly number[]; readonly counts: readonly number[] }
}

export interface MetricRegistry {
  counter(name: string, help: string, labels: readonly string[], unit?: string): Counter
  /** Values are in seconds. */
  histogram(name: string, help: string, labels: readonly string[]): Histogram
  /** `read` is called when metrics are collected; if it fails, the family has no points. */
  observe(of: Omit<MetricFamily, 'points'>, read: () => readonly MetricPoint[] | Promise<readonly MetricPoint[]>): void
  collect(): Promise<readonly MetricFamily[]>
}

export interface Counter {
  add(values: readonly string[], more?: number): void
}
export interface Histogram {
  record(values: readonly string[], seconds: number): void
}

/** Maximum number of label combinations. Further ones are counted together, because names can come from clients. */
const MAX_SERIES = 500
const REST = 'other'
const BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

export function createMetricRegistry(maxSeries = MAX_SERIES): MetricRegistry {
  const families: (() => MetricFamily | Promise<MetricFamily>)[] = []

  /** Values by labels. @param make creates the value of a new label combination */
  function series<T>(labels: readonly string[], make: () => T, toPoint: (value: T) => Omit<MetricPoint, 'labels'>) {
    const valuesByLabels = new Map<string, { readonly values: readonly string[]; readonly value: T }>()
    const find = (values: readonly string[]): T => {
      const key = values.join('\n')
      let one = valuesByLabels.get(key)
      if (!one) {
        if (valuesByLabels.size >= maxSeries && values[0] !== REST) return find([REST, ...values.slice(1)])
        if (valuesByLabels.size >= 2 * maxSeries && values.some((one) => one !== REST))
          return find(values.map(() => REST))
        one = { values, value: make() }
        valuesByLabels.set(key, one)
      }
      return one.value
    }
    const points = (): readonly MetricPoint[] =>
      [...valuesByLabels.values()].map(({ values, value }) => ({ labels: named(labels, values), ...toPoint(value) }))
    return { find, points }
  }
  const named = (names: readonly string[], values: readonly string[]): Readonly<Record<string, string>> =>
    Object.fromEntries(
      names.flatMap((name, at) => (values[at] === undefined || values[at] === '' ? [] : [[name, values[at]]])),
    )

  return {
    counter(name, help, labels, unit = '') {
      const newValue = () => ({ count: 0 })
      const { find, points } = series(labels, newValue, ({ count }) => ({ value: count }))
      families.push(() => ({ name, help, type: 'counter', unit, points: points() }))
      return {
        add(values, more = 1) {
          find(values).count += more
        },
      }
    },
    histogram(name, help, labels) {
      const newValue = () => ({ sum: 0, counts: new Array<number>(BOUNDS.length + 1).fill(0) })
      const { find, points } = series(labels, newValue, ({ sum, counts }) => ({
        value: sum,
        buckets: { bounds: BOUNDS, counts: [...counts] },
      }))
      families.push(() => ({ name, help, type: 'histogram', unit: 's', points: points() }))
      return {
        record(values, seconds) {
          const one = find(values)
          one.sum += seconds
          let at = 0
          while (at < BOUNDS.length && seconds > (BOUNDS[at] as number)) at++
          one.counts[at] = (one.counts[at] as number) + 1
        },
      }
    },
    observe(of, read) {
      families.push(async () => {
        try {
          return { ...of, points: await read() }
        } catch {
          // If one family cannot be read, for example because the state is unavailable, the others are still
          // reported.
          return { ...of, points: [] }
        }
      })
    },
    collect: () => Promise.all(families.map((family) => family())),
  }
}
