import { expect, it } from 'vitest'
import { withExactBody } from '../../src/upstream/exact.ts'

const stream = async (text: string): Promise<string> =>
  await (await withExactBody(new Response(text, { headers: { 'content-type': 'text/event-stream' } }))).text()

it('a batch in an event comes as an event for each message, its integers exact', async () => {
  const batch = 'id: 1\ndata: [ {"a":"],[\\"é"} , {"n":9007199254740993,"m":[{},[1]]}, {} ]\nretry: 5\n\n'
  expect(await stream(batch)).toBe(
    'id: 1\ndata: {"a":"],[\\"é"}\n\ndata: {"n":"9007199254740993","m":[{},[1]]}\n\ndata: {}\nretry: 5\n\n',
  )
})

it.each(['[]', '[1,2]', '[{},null]', '[{}', '[{}] [{}]', `[${'{},'.repeat(1_000)}{}]`])(
  'what is no batch of messages stays as it is: %#',
  async (data) => {
    expect(await stream(`data: ${data}\n\n`)).toBe(`data: ${data}\n\n`)
  },
)

it('reading what only looks like a batch takes time in proportion to its length', async () => {
  const took = async (data: string): Promise<number> => {
    const startedAt = performance.now()
    await stream(`data: [${data}]\n\n`)
    return performance.now() - startedAt
  }
  const rows = ['{"a":"', '\\"', '[', '{"a":[', '] data: [', ',{']
  for (const row of rows) expect(await took(row.repeat(200_000)), row).toBeLessThan(1_500)
})
