import { describe, expect, it } from 'vitest'
import { createTaskBook } from '../../src/server/task-book.ts'
import { createMemoryStore } from '../../src/state/memory-store.ts'
import { createManualClock } from '../clock.ts'

const known = (holder: string, id: string) => ({ holder, session: 's', owner: 'mcp_t', id, name: `${id}-name` })

describe('tasks started through this process', () => {
  it('are listed to their owner only, newest first, for their lifetime', () => {
    const clock = createManualClock(0)
    const book = createTaskBook(clock)
    book.add(known('ann', 'one'), 1_000)
    book.add(known('bob', 'two'), null)
    book.add(known('ann', 'three'), 5_000)
    expect(book.listOf('ann').map(({ id }) => id)).toEqual(['three', 'one'])
    expect(book.listOf('bob').map(({ id }) => id)).toEqual(['two'])
    expect(book.find('mcp_t', 'two').map(({ holder }) => holder)).toEqual(['bob'])
    clock.pass(1_000)
    expect(book.listOf('ann').map(({ id }) => id)).toEqual(['three'])
    clock.pass(60 * 60_000)
    expect(book.listOf('bob')).toEqual([])
  })

  it('are listed by every process with the same store, and continue if an id cannot be shared', async () => {
    const clock = createManualClock(0)
    const store = createMemoryStore(clock)
    const [one, other] = [1, 2].map(() => createTaskBook(clock, () => store.table('begun')))
    one?.add(known('ann', 'one'), 1_000)
    other?.add(known('ann', 'two'), null)
    other?.add(known('bob', 'three'), null)
    await Promise.resolve()
    for (const book of [one, other]) expect(await book?.names('ann')).toEqual(['two-name', 'one-name'])
    clock.pass(1_000)
    expect(await other?.names('ann')).toEqual(['two-name'])
    expect(other?.listOf('ann').map(({ id }) => id)).toEqual(['two'])
    const errors: unknown[] = []
    const alone = createTaskBook(
      clock,
      () => ({ ...store.table<string>('begun'), put: () => Promise.reject(new Error('away')) }),
      (error) => errors.push(error),
    )
    alone.add(known('eve', 'four'), null)
    expect(await alone.names('eve')).toEqual(['four-name'])
    expect(errors).toEqual([new Error('away')])
  })

  it('that finished at once are kept for five minutes, 64 at most', () => {
    const clock = createManualClock(0)
    const book = createTaskBook(clock)
    const ids = Array.from({ length: 65 }, (_, n) => String(book.keep('ann', { n }, 24 * 60 * 60_000)['taskId']))
    expect(book.storedTask(ids[0] as string)).toBeUndefined()
    expect(book.storedTask(ids[1] as string)).toMatchObject({
      result: { n: 1 },
      task: { status: 'completed', ttlMs: 300_000 },
    })
    clock.pass(300_000)
    expect(book.storedTask(ids[64] as string)).toBeUndefined()
  })

  it("are not displaced by another principal's tasks", () => {
    const book = createTaskBook(createManualClock(0))
    const done = String(book.keep('bob', { n: 1 }, null)['taskId'])
    book.add(known('bob', 'begun'), null)
    for (let n = 0; n < 100; n++) book.keep('eve', { n }, null)
    for (let n = 0; n < 2_100; n++) book.add(known('eve', `e${n}`), null)
    expect(book.storedTask(done)?.result).toEqual({ n: 1 })
    expect(book.listOf('bob').map(({ id }) => id)).toEqual(['begun'])
    expect(book.find('mcp_t', 'e0')).toEqual([])
    expect(book.find('mcp_t', 'e2099').map(({ holder }) => holder)).toEqual(['eve'])
  })
})
