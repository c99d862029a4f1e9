import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { silentLog } from '../../src/core/log.ts'
import type { Cassette } from '../../src/record/cassette.ts'
import { createRecorder } from '../../src/record/recorder.ts'
import { createScrubber } from '../../src/record/scrubber.ts'
import type { UpstreamTransport, UpstreamTransportEvents } from '../../src/upstream/transport.ts'
import { temporaryFolder } from '../app.ts'

it('a server that reports changed lists endlessly fills neither the recording nor the memory', async () => {
  const dir = temporaryFolder()
  let server: UpstreamTransportEvents | undefined
  const transport: UpstreamTransport = {
    kind: 'stdio',
    async open(events) {
      server = events
    },
    send: () => undefined,
    close: async () => undefined,
    stderrTail: () => '',
  }
  const recorder = createRecorder({ dir, clock: systemClock, log: silentLog, scrub: createScrubber((text) => text) })
  const recording = recorder.record('s', transport)
  await recording.open({
    message: () => undefined,
    closed: () => undefined,
    oversize: () => undefined,
    error: () => undefined,
    flooded: () => false,
    awaited: () => 'calls',
  })
  const say = (message: object) => server?.message({ jsonrpc: '2.0', ...message } as never)
  const flood = () => {
    for (let n = 0; n < 3_000; n++) say({ method: 'notifications/tools/list_changed' })
  }
  recording.send({ jsonrpc: '2.0', id: 0, method: 'tools/list', params: {} })
  say({ id: 0, result: { tools: [] } })
  recording.send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'go' } })
  flood()
  say({ id: 1, result: { content: [] } })
  flood()
  recording.send({ jsonrpc: '2.0', id: 2, method: 'tools/list', params: {} })
  say({ id: 2, result: { tools: [] } })
  await recorder.close()
  const { calls, lists } = JSON.parse(readFileSync(join(dir, 's.json'), 'utf8')) as Cassette
  expect(calls[0]?.answers[0]?.before).toHaveLength(2_000)
  expect(calls[0]?.answers[0]?.after).toHaveLength(2_000)
  // One answer before the changes, and one after each recorded change.
  expect(lists[0]?.answers).toHaveLength(4_001)
})
