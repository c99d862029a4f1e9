import { describe, expect, it } from 'vitest'
import { createMetricRegistry } from '../../src/observe/metric-registry.ts'
import { toPrometheusText } from '../../src/observe/prometheus.ts'

const textOf = async (
  fill: (registry: ReturnType<typeof createMetricRegistry>) => void,
  max?: number,
): Promise<string> => {
  const registry = createMetricRegistry(max)
  fill(registry)
  return toPrometheusText(await registry.collect())
}

describe('metrics', () => {
  it('are written in the Prometheus format: counters with _total, seconds, cumulative buckets', async () => {
    const text = await textOf((registry) => {
      registry.counter('a.calls', 'Calls.', ['tool', 'outcome']).add(['x', 'ok'], 2)
      const times = registry.histogram('a.time', 'Time.', ['tool'])
      for (const seconds of [0.0005, 0.003, 0.003, 100]) times.record(['x'], seconds)
      registry.observe({ name: 'b.memory', help: 'Memory.', type: 'gauge', unit: 'By' }, () => [
        { labels: {}, value: 7 },
      ])
    })
    expect(
      text
        .split('\n')
        .filter((line) => !/_bucket\{tool="x",le="(?:0\.0[15]|0\.[12]|0\.025|[1-9.]|10|30|60)/.test(line)),
    ).toEqual([
      '# HELP a_calls_total Calls.',
      '# TYPE a_calls_total counter',
      'a_calls_total{tool="x",outcome="ok"} 2',
      '# HELP a_time_seconds Time.',
      '# TYPE a_time_seconds histogram',
      'a_time_seconds_bucket{tool="x",le="0.001"} 1',
      'a_time_seconds_bucket{tool="x",le="0.0025"} 1',
      'a_time_seconds_bucket{tool="x",le="0.005"} 3',
      'a_time_seconds_bucket{tool="x",le="0.5"} 3',
      'a_time_seconds_bucket{tool="x",le="+Inf"} 4',
      'a_time_seconds_sum{tool="x"} 100.0065',
      'a_time_seconds_count{tool="x"} 4',
      '# HELP b_memory_bytes Memory.',
      '# TYPE b_memory_bytes gauge',
      'b_memory_bytes 7',
      '',
    ])
  })

  it('are counted together beyond the label limit', async () => {
    const text = await textOf((registry) => {
      const calls = registry.counter('calls', 'Calls.', ['tool', 'outcome'])
      for (let n = 0; n < 100; n++) calls.add([`tool${n}`, 'ok'])
      for (let n = 0; n < 100; n++) calls.add(['tool0', `code${n}`])
    }, 3)
    const lines = text.split('\n').filter((line) => line.startsWith('calls_total'))
    expect(lines).toEqual([
      'calls_total{tool="tool0",outcome="ok"} 1',
      'calls_total{tool="tool1",outcome="ok"} 1',
      'calls_total{tool="tool2",outcome="ok"} 1',
      'calls_total{tool="other",outcome="ok"} 97',
      'calls_total{tool="other",outcome="code0"} 1',
      'calls_total{tool="other",outcome="code1"} 1',
      'calls_total{tool="other",outcome="other"} 98',
    ])
  })

  it('are valid whatever a label contains, and skipped if they cannot be read', async () => {
    const text = await textOf((registry) => {
      registry.counter('calls', 'a\nb', ['tool']).add(['x"}\n# evil \\'])
      registry.observe({ name: 'gone', help: '', type: 'gauge', unit: '' }, () => Promise.reject(new Error('away')))
    })
    expect(text).toBe(
      '# HELP calls_total a\\nb\n# TYPE calls_total counter\ncalls_total{tool="x\\"}\\n# evil \\\\"} 1\n',
    )
  })
})
