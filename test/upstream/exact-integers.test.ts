import { expect, it } from 'vitest'
import type { PegboardError } from '../../src/core/errors.ts'
import { withExactBody } from '../../src/upstream/exact-integers.ts'
import { costMs } from '../measure-growth.ts'

const stream = async (text: string): Promise<string> =>
  await (await withExactBody(new Response(text, { headers: { 'content-type': 'text/event-stream' } }))).text()

it('a batch in an event becomes one event per message, with exact integers', async () => {
  const batch = 'id: 1\ndata: [ {"a":"],[\\"é"} , {"n":9007199254740993,"m":[{},[1]]}, {} ]\nretry: 5\n\n'
  expect(await stream(batch)).toBe(
    'id: 1\ndata: {"a":"],[\\"é"}\n\ndata: {"n":"9007199254740993","m":[{},[1]]}\n\ndata: {}\nretry: 5\n\n',
  )
})

it.each(['[]', '[1,2]', '[{},null]', '[{}', '[{}] [{}]', `[${'{},'.repeat(1_000)}{}]`])(
  'keeps anything else unchanged: %#',
  async (data) => {
    expect(await stream(`data: ${data}\n\n`)).toBe(`data: ${data}\n\n`)
  },
)

it('reads text that only looks like a batch in linear time', async () => {
  const read = (data: string): Promise<unknown> =>
    stream(`data: [${data}]\n\n`).catch((error: PegboardError) => expect(error.code).toBe('E_TOO_LARGE'))
  const rows = ['{"a":"', '\\"', '[', '{"a":[', '] data: [', ',{']
  for (const row of rows) expect(await costMs(() => read(row.repeat(200_000))), row).toBeLessThan(1_500)
})
