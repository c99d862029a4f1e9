import { describe, expect, it } from 'vitest'
import { includesText } from '../../modules/_occurrences.ts'
import { createTurns } from '../../modules/_turns.ts'
import type { Command } from '../../modules/shell/command.ts'
import { createJobs } from '../../modules/shell/jobs.ts'
import { createReader } from '../../modules/web/reader.ts'

const { signal } = new AbortController()
const soon = () => new Promise((resolve) => setImmediate(resolve))

describe('slots', () => {
  it('leave the last of several to others, and a released one to the next allowed caller', async () => {
    const turns = createTurns(3)
    const ends = [await turns.take('bob', signal), await turns.take('bob', signal)]
    const served: string[] = []
    const wait = (who: string): void => void turns.take(who, signal).then(() => served.push(who))
    wait('bob')
    wait('bob')
    expect(turns.takeFree('bob')).toBeUndefined()
    wait('ann')
    await soon()
    expect(served).toEqual(['ann'])
    wait('ann')
    ends[0]?.()
    await soon()
    ends[1]?.()
    await soon()
    expect(served).toEqual(['ann', 'ann', 'bob'])
  })

  it('serve principals in turn, however many calls of one principal wait', async () => {
    const turns = createTurns(1)
    let end = await turns.take('bob', signal)
    const served: string[] = []
    for (const who of ['bob', 'bob', 'bob', 'ann', 'cleo'])
      void turns.take(who, signal).then((mine) => {
        served.push(who)
        end = mine
      })
    for (let one = 0; one < 5; one++) {
      end()
      await soon()
    }
    expect(served).toEqual(['ann', 'cleo', 'bob', 'bob', 'bob'])
  })

  it('are not taken by a caller that has stopped waiting', async () => {
    const turns = createTurns(1)
    const end = await turns.take('bob', signal)
    const gone = new AbortController()
    const given = turns.take('bob', gone.signal)
    const ann = turns.take('ann', signal)
    gone.abort(new Error('gone'))
    await expect(given).rejects.toThrow('gone')
    end()
    end()
    const hers = await ann
    hers()
    expect(turns.takeFree('cleo')).toBeDefined()
  })
})

it('slow pages of one principal delay others by at most one of them', async () => {
  const reader = createReader(1_500)
  const slow = '<div>'.repeat(20_000)
  const order: string[] = []
  const read = (principal: string, page: string): Promise<unknown> =>
    reader.read(page, 'https://example.com/', { principal, signal }).then(() => order.push(principal))
  const all = [...Array.from({ length: 3 }, () => read('bob', slow)), read('ann', '<p>Hello</p>')]
  await Promise.all(all)
  expect(order).toEqual(['bob', 'ann', 'bob', 'bob'])
  await reader.close()
}, 20_000)

it('finds the awaited output of a program in linear time', async () => {
  const half = 'a'.repeat(500_000)
  expect([includesText(half.repeat(8), `${half}b${half}`), includesText(`x${half}b`, 'ab')]).toEqual([false, true])
})

it('background commands of one principal leave slots to others', async () => {
  const jobs = createJobs()
  const command = { ended: new Promise(() => undefined), stop: async () => undefined } as unknown as Command
  const add = (owner: string) => jobs.add(owner, '', 2, async () => command)
  await Promise.all([add('bob'), add('bob')])
  await expect(add('bob')).rejects.toMatchObject({
    code: 'E_OVERLOADED',
    message: '2 background commands are already running.',
  })
  for (const owner of ['ann', 'cleo', 'dan']) await Promise.all([add(owner), add(owner)])
  await expect(add('eve')).rejects.toMatchObject({
    message: 'Too many background commands of other principals are running.',
  })
})

it('ended background commands are kept for each principal', async () => {
  const jobs = createJobs()
  const command = { ended: Promise.resolve({ exit_code: 0 }), stop: async () => undefined } as unknown as Command
  const { id } = await jobs.add('ann', '', 8, async () => command)
  for (let one = 0; one < 70; one++) await jobs.add('bob', '', 8, async () => command)
  expect(jobs.get('ann', id).owner).toBe('ann')
  expect(jobs.list('bob')).toHaveLength(64)
})
