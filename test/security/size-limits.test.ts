import { expect, test } from 'vitest'
import { startAppWithClient } from './app-with-client.ts'

test('params of scheduled work have at most 64 KiB', async () => {
  const { client } = await startAppWithClient(
    { filesystem: { config: { roots: ['.'] } } },
    { settings: { execution: { watchers: true, scheduler: true } } },
  )
  const planned = async (tool: string, length: number, more: Record<string, unknown>) => {
    const params = { path: 'a.txt', content: 'x'.repeat(length) }
    return await client.callTool({ name: tool, arguments: { name: 'filesystem.write', params, ...more } })
  }
  for (const [tool, more] of [
    ['schedule_once', { when: 'in 1d' }],
    ['schedule_cron', { cron: '0 3 * * *' }],
    ['watch_start', { interval: 3_600 }],
  ] as const) {
    expect(JSON.stringify(await planned(tool, 70_000, more)), tool).toContain('E_TOO_LARGE')
    expect(await planned(tool, 60_000, more), tool).not.toMatchObject({ isError: true })
  }
})

test('run_parallel returns no more than the limit, and keeps the results that do not fit', async () => {
  const { client, call } = await startAppWithClient({ filesystem: { config: { roots: ['.'] } } }, {})
  await call('filesystem.write', { path: 'a.txt', content: 'x'.repeat(90_000) })
  const actions = Array.from({ length: 50 }, () => ({ name: 'filesystem.read', params: { path: 'a.txt' } }))
  const answer = await client.callTool({ name: 'run_parallel', arguments: { actions } })
  const text = (answer.content as { text: string }[])[0]?.text ?? ''
  expect(text.length).toBeLessThan(32_000)
  const { results, succeeded } = JSON.parse(text)
  expect(succeeded).toBe(50)
  expect(new Set(results.map(({ data }: { data: { kept: string } }) => data.kept)).size).toBe(50)
})
