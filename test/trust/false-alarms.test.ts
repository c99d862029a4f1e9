import { expect, it } from 'vitest'
import { servers, startApp, temporaryFolder } from '../app.ts'
import { hasCorpus, measureAlarms } from './false-alarms.ts'

it.skipIf(!hasCorpus)(
  `the checks quarantine at most one of a thousand definitions of published servers${hasCorpus ? '' : ' (skipped: set PEGBOARD_DATA)'}`,
  () => {
    const { tools, alarms } = measureAlarms()
    expect(tools).toBeGreaterThan(10_000)
    const counts = new Map<string, number>()
    for (const { code } of alarms) counts.set(code, (counts.get(code) ?? 0) + 1)
    if (process.env['PRINT_ALARMS']) console.log(`${tools} tools`, counts, alarms)
    expect([...counts].filter(([, count]) => count > tools / 1_000)).toEqual([])
  },
  120_000,
)

it('the checks quarantine no tool of the reference servers', async () => {
  const dir = temporaryFolder()
  const mcpServers = {
    everything: servers.everything,
    files: servers.filesystem(dir),
    graph: servers.memory(`${dir}/memory.json`),
    thinking: servers.thinking,
  }
  const started = Object.entries(mcpServers).map(([id, server]) => [id, { ...server, start: 'background' }])
  const { app } = await startApp({ mcpServers: Object.fromEntries(started) }, dir)
  await app.settled(60_000)
  const { owners } = app.catalog.snapshot()
  const looked = Object.keys(mcpServers).map((id) => owners.get(`mcp_${id}`))
  expect(looked.map((owner) => (owner?.tools.length ?? 0) > 0)).toEqual([true, true, true, true])
  expect(looked.flatMap((owner) => owner?.quarantined.map(({ tool }) => tool.id))).toEqual([])
}, 90_000)
