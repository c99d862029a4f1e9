import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { forgetDerived } from '../../src/upstream/derived.ts'
import { derivedFrom } from '../signals.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

it('a signal forgets those that were derived from it and that nobody has, and ends those that somebody has', async () => {
  const connection = new AbortController()
  const held = AbortSignal.any([connection.signal, new AbortController().signal])
  for (let n = 0; n < 10_000; n++) AbortSignal.any([connection.signal, new AbortController().signal])
  // Node 20; newer ones forget by themselves.
  if (process.version.startsWith('v20.')) expect(derivedFrom(connection.signal)).toBeGreaterThan(100)
  await sleep(1)
  collect()
  expect(forgetDerived(connection.signal)).toBeLessThan(100)
  expect(derivedFrom(connection.signal)).toBeLessThan(100)
  connection.abort('closed')
  expect([held.aborted, held.reason]).toEqual([true, 'closed'])
})

it('a signal of which nothing was derived has nothing to forget', () => {
  expect(forgetDerived(new AbortController().signal)).toBe(0)
})
