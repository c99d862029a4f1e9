import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { expect, it } from 'vitest'
import { appWithResults, handleIn, LONG_RESULTS } from '../long-results.ts'

for (const name of LONG_RESULTS)
  it(`a long ${name} costs the model less than the limit, and can be read on`, async () => {
    const { call, text } = await appWithResults()
    const result = await call(`big.${name}`)
    expect(countTokens(JSON.stringify(result))).toBeLessThan(2_500)
    expect(result.structuredContent).toBeUndefined()
    const page = await text('read_result', { handle: handleIn(result.content[0]?.text ?? ''), page: 2 })
    expect(page).toMatch(/go on with page 3|Page 2, the last/)
    expect(countTokens(page)).toBeLessThan(4_800)
  })

it('a log of 50 MB and a table of 100,000 rows answer questions', async () => {
  const { text } = await appWithResults()
  const log = handleIn(await text('big.log'))
  expect(await text('read_result', { handle: log, grep: 'ERROR worker-3', context: 1, head: 3 })).toMatch(
    /^\[lines 9999–10001, 3 of 800,000 lines with "ERROR worker-3"\. All of it\.\]\n9999-/,
  )
  expect(await text('read_result', { handle: log, grep: 'ERROR', count: true })).toBe('[160 lines with "ERROR".]')
  expect(await text('read_result', { handle: log, tail: '1' })).toContain('request 799999')
  const table = handleIn(await text('big.table'))
  const query = { handle: table, where: { city: 'Wien', total: { '>=': 990 } }, select: ['id', 'total'], head: 1 }
  expect(await text('read_result', query)).toMatch(/\n\{"id":\d+,"total":99\d\}$/)
  expect(await text('read_result', { handle: table, path: '$[99999].name' })).toContain('Customer 99999')
})

it('a regular expression that never ends stops after a time, and others are answered meanwhile', async () => {
  const { call, text } = await appWithResults()
  const handle = handleIn(await text('big.keys'))
  const [stuck] = await Promise.all([
    call('read_result', { handle, path: '$', grep: '(("?.?)*)*x$' }),
    expect(text('read_result', { handle, head: 1 })).resolves.toContain('{'),
  ])
  expect(JSON.stringify(stuck.content)).toContain('E_TIMEOUT')
})
