import { expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { valueResult } from '../../src/core/tool-result.ts'
import { createCallLog } from '../../src/exec/call-log.ts'
import { createManualClock } from '../clock.ts'
import { heldMiB } from '../memory.ts'

it('a stored record of a long call uses as little memory as it shows', async () => {
  const log = createCallLog({ size: 50, clock: createManualClock() })
  const long = (n: number): string => JSON.parse(`"${String(n % 10).repeat(2 ** 20)}"`)
  const before = heldMiB()
  for (let n = 0; n < 20; n++)
    await log.run({ caller: localCaller, name: long(n), input: { text: long(n), [long(n)]: 1 } }, async () =>
      valueResult({ text: long(n) }),
    )
  expect(log.of(localCaller, 50)).toHaveLength(20)
  expect(log.of(localCaller, 1)[0]).toMatchObject({ tool: '9'.repeat(200), result: { text: `${'9'.repeat(500)}…` } })
  // Memory of earlier test files is freed gradually.
  await expect.poll(() => heldMiB() - before).toBeLessThan(5)
})

it('a record shows values six objects deep, and names what is deeper', async () => {
  const log = createCallLog({ size: 50, clock: createManualClock() })
  const nested = (depth: number): object => (depth === 0 ? { end: 1 } : { in: nested(depth - 1) })
  const recorded = async (input: Record<string, unknown>) => {
    await log.run({ caller: localCaller, name: 'find', input }, async () => valueResult({ found: 1 }))
    return log.of(localCaller, 1)[0]?.args
  }
  const filter = { filter: { tags: [{ name: 'a' }], since: '2026-01-01' }, limit: 3 }
  expect(await recorded(filter)).toEqual(filter)
  expect(await recorded({ in: nested(5) })).toEqual({ in: nested(5) })
  expect(JSON.stringify(await recorded({ in: nested(6) }))).toBe('{"in":{"in":{"in":{"in":{"in":{"in":{"in":"…"}}}}}}}')
})
