import type { MetricFamily, MetricPoint } from './metric-registry.ts'

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

const UNITS: Readonly<Record<string, string>> = { s: '_seconds', By: '_bytes' }

/**
 * The Prometheus text format. Names follow the OpenTelemetry rules: dots become underscores; unit and `_total` are
 * appended.
 */
export function toPrometheusText(families: readonly MetricFamily[]): string {
  return families
    .filter(({ points }) => points.length > 0)
    .map((family) => {
      const name = nameOf(family)
      const lines = family.points.flatMap((point) => linesOf(name, point))
      return `# HELP ${name} ${family.help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}\n# TYPE ${name} ${family.type}\n${lines.join('\n')}\n`
    })
    .join('')
}

function nameOf({ name, unit, type }: MetricFamily): string {
  const base = name.replaceAll(/[^A-Za-z0-9]/g, '_')
  const suffix = UNITS[unit] ?? ''
  return `${base.endsWith(suffix) ? base : base + suffix}${type === 'counter' ? '_total' : ''}`
}

function linesOf(name: string, { labels, value, buckets }: MetricPoint): string[] {
  if (!buckets) return [`${name}${labelsOf(labels)} ${numberOf(value)}`]
  let count = 0
  const lines = buckets.counts.map((more, at) => {
    count += more
    const bound = buckets.bounds[at]
    return `${name}_bucket${labelsOf({ ...labels, le: bound === undefined ? '+Inf' : String(bound) })} ${count}`
  })
  return [...lines, `${name}_sum${labelsOf(labels)} ${numberOf(value)}`, `${name}_count${labelsOf(labels)} ${count}`]
}

function labelsOf(labels: Readonly<Record<string, string>>): string {
  const all = Object.entries(labels).map(
    ([name, value]) => `${name.replaceAll(/[^A-Za-z0-9]/g, '_')}="${escaped(value)}"`,
  )
  return all.length === 0 ? '' : `{${all.join(',')}}`
}

const escaped = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
const numberOf = (value: number): string =>
  Number.isFinite(value) ? String(value) : Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
