import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { expect, it, onTestFinished } from 'vitest'
import { createSpawnQueue } from '../../src/upstream/spawn-queue.ts'
import { scripted, withServers } from './host.ts'

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

it('each process start gets its own turn of the event loop, the first at once', async () => {
  const turn = createSpawnQueue()
  const begun: number[] = []
  for (const n of [1, 2, 3]) void turn().then(() => begun.push(n))
  await Promise.resolve()
  const seen = [[...begun]]
  for (let turns = 0; turns < 3; turns++) {
    await nextTurn()
    seen.push([...begun])
  }
  expect(seen).toEqual([[1], [1, 2], [1, 2, 3], [1, 2, 3]])
})

it('servers that are due together are started one after the other, with other work between', async () => {
  let turn = 0
  let isOver = false
  const startedIn: number[] = []
  const onStart = (): void => void startedIn.push(turn)
  subscribe('child_process', onStart)
  onTestFinished(() => {
    isOver = true
    unsubscribe('child_process', onStart)
  })
  const count = (): void => {
    turn++
    if (!isOver) setImmediate(count)
  }
  count()
  const servers = ['a', 'b', 'c', 'd'].map((id) => [id, { ...scripted(), start: 'eager' }])
  await withServers(Object.fromEntries(servers), async ({ text }) => {
    for (const id of ['a', 'b', 'c', 'd']) expect(await text(`mcp_${id}.echo`, { text: id })).toBe(id)
  })
  // The first start also starts the watchdog.
  expect(startedIn).toHaveLength(5)
  expect(new Set(startedIn.slice(1)).size).toBe(4)
})
