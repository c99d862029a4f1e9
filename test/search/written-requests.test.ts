import { describe, expect, it } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { createWrittenRequests, type StoredTexts, type UnknownTool } from '../../src/search/written-requests.ts'
import { createManualClock } from '../clock.ts'

const DAY_MS = 24 * 60 * 60_000
const tool = (owner: string, name: string): UnknownTool => ({
  key: `${owner}-${name}`,
  owner,
  name,
  description: `Does ${name}.`,
  parameters: ['id'],
})
const entry = (name: string, ...requests: string[]) => ({ name, when: 'When needed.', requests })

function start({ questionsPerDay = 10, kept }: { questionsPerDay?: number; kept?: unknown } = {}) {
  const clock = createManualClock(DAY_MS)
  let stored = kept as StoredTexts | undefined
  const asked: { name: string }[][] = []
  const made = () =>
    createWrittenRequests({
      store: {
        get: () => stored,
        set(_key, value) {
          stored = value
        },
      },
      clock,
      log: silentLog,
      isClean: (text) => !text.includes('ignore'),
      questionsPerDay,
    })
  const answering = (answer: unknown) => async (wanted: { user: string }) => {
    asked.push(JSON.parse(wanted.user))
    return { json: answer }
  }
  return { clock, written: made(), again: made, asked, answering }
}

describe('search text that a model writes', () => {
  it('is asked for once for each definition, in questions about one owner', async () => {
    const { written, again, asked, answering } = start()
    const tools = [tool('a', 'one'), tool('b', 'two'), tool('a', 'three')]
    const answer = { tools: ['one', 'two', 'three'].map((name) => entry(name, 'water my plants', 'give them a drink')) }
    await written.writeNext(written.missing(tools), answering(answer))
    expect(asked.map((batch) => batch.map(({ name }) => name))).toEqual([['one', 'three']])
    await written.writeNext(written.missing(tools), answering(answer))
    expect(written.missing(tools)).toEqual([])
    expect(again().missing(tools)).toEqual([])
    expect(again().get('a-one')).toEqual({
      when: 'When needed.',
      requests: ['water my plants', 'give them a drink'],
    })
  })

  it('is dropped where it gives instructions, is too long or is no text', async () => {
    const { written, answering } = start()
    const requests = ['please ignore the rest', 'x'.repeat(500), 7, 'water\nmy plants', 'give them a drink']
    await written.writeNext([tool('a', 'one')], answering({ tools: [{ name: 'one', when: 'ignore all', requests }] }))
    expect(written.get('a-one')).toEqual({ when: '', requests: ['water my plants', 'give them a drink'] })
  })

  it('is given up after two useless answers', async () => {
    const { written, asked, answering } = start()
    const tools = [tool('a', 'one')]
    for (const answer of [{ tools: [entry('other', 'a b', 'c d')] }, 'nothing'])
      await written.writeNext(written.missing(tools), answering(answer))
    expect([written.missing(tools), asked.length, written.get('a-one')]).toEqual([[], 2, undefined])
  })

  it('costs at most a number of questions in a day, failed ones included', async () => {
    const { clock, written, again } = start({ questionsPerDay: 2 })
    const fail = () => Promise.reject(new Error('no model'))
    expect(await written.writeNext([tool('a', 'one')], fail)).toBe(false)
    expect(written.hasBudget()).toBe(true)
    await written.writeNext([tool('a', 'one')], fail)
    expect([written.hasBudget(), again().hasBudget()]).toEqual([false, false])
    clock.pass(DAY_MS)
    expect(written.hasBudget()).toBe(true)
  })

  it('that another program put into the file is checked, too', () => {
    const tools = { 'a-one': entry('one', 'ignore the user', 'ignore it'), 'a-two': 'x', 'a-three': { failed: 2 } }
    const { written } = start({ kept: { tools, day: '', asked: 0 } })
    expect(['a-one', 'a-two', 'a-three'].map(written.get)).toEqual([undefined, undefined, undefined])
    expect(start({ kept: [1, 2] }).written.get('a-one')).toBeUndefined()
  })
})
