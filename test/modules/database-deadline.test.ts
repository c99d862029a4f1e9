import { expect, it } from 'vitest'
import { withDeadline } from '../../modules/database/deadline.ts'
import { heldMiB } from '../memory.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))

it('a deadline leaves nothing in memory after its work', async () => {
  const run = async (times: number) => {
    for (let n = 0; n < times; n++) {
      const { signal } = new AbortController()
      await withDeadline(
        async () => n,
        60_000,
        signal,
        async () => undefined,
      )
      if (n % 100 === 0) await turn()
    }
    await turn()
    heldMiB()
    await turn()
    return heldMiB()
  }
  const before = await run(1_000)
  expect((await run(5_000)) - before).toBeLessThan(3)
})
