import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { place, talkTo } from '../process.ts'
import { serving } from '../stubborn.ts'
import { alive, until } from '../upstream/host.ts'

// Ancestors are read from /proc.
describe.runIf(process.platform === 'linux')('a server run by npx, deaf to the end of its stdin and to SIGTERM', () => {
  const gone = async (pids: readonly number[], withinMs: number): Promise<void> => {
    await until(
      () => !pids.some(alive),
      withinMs,
      () => pids.filter(alive).join(' '),
    )
  }

  it('ends with Pegboard when its client leaves', async () => {
    const { talk, pids } = await serving()
    const ended = once(talk.child, 'exit')
    talk.child.stdin?.end()
    expect(await ended).toEqual([0, null])
    await gone(pids, 15_000)
  })

  it.each(['SIGTERM', 'SIGHUP'] as const)('ends with Pegboard on %s', async (signal) => {
    const { talk, pids } = await serving()
    const ended = once(talk.child, 'exit')
    talk.child.kill(signal)
    expect(await ended).toEqual([0, null])
    await gone(pids, 15_000)
  })
})

const slow = `
export default { name: 'slow', description: 'Takes its time.', tools: { wait: { description: 'Waits for some milliseconds.', effect: 'read',
  input: { type: 'object', properties: { ms: { type: 'integer' } }, required: ['ms'] },
  run: ({ ms }) => new Promise((resolve) => setTimeout(() => resolve('waited'), ms)) } } }`

describe('being told to stop', () => {
  it('waits for calls that do not end only for its grace', async () => {
    const { child, send, answer } = await talkTo(place({}, { 'slow.mjs': slow }))
    send({ id: 1, method: 'tools/call', params: { name: 'slow__wait', arguments: { ms: 60_000 } } })
    send({ id: 2, method: 'ping' })
    await answer(2)
    const startedAt = performance.now()
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
    expect(performance.now() - startedAt).toBeLessThan(15_000)
  })
})
