import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startApp, temporaryFolder } from '../app.ts'
import { least } from '../security/lag.ts'

/** Milliseconds that the event loop stood still at most while `work` ran, not counting the wait for a processor. */
async function longestBlock(work: () => Promise<void>): Promise<number> {
  let [since, before, longest] = [performance.now(), process.cpuUsage(), 0]
  const timer = setInterval(() => {
    const { user, system } = process.cpuUsage(before)
    longest = Math.max(longest, Math.min(performance.now() - since, (user + system) / 1_000))
    since = performance.now()
    before = process.cpuUsage()
  }, 1)
  try {
    await work()
  } finally {
    clearInterval(timer)
  }
  return longest
}

it('lets other requests run while a document with 40,000 operations is read', async () => {
  const file = join(temporaryFolder(), 'api.json')
  const responses = {
    200: { description: 'ok', content: { 'application/json': { schema: { $ref: '#/components/schemas/Thing' } } } },
  }
  const parameters = [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }]
  const paths = Object.fromEntries(
    Array.from({ length: 40_000 }, (_, n) => [
      `/things/${n}/{id}`,
      { get: { operationId: `get_thing_${n}`, summary: `Returns thing ${n}.`, parameters, responses } },
    ]),
  )
  const components = { schemas: { Thing: { type: 'object', properties: { name: { type: 'string' } } } } }
  writeFileSync(file, JSON.stringify({ openapi: '3.0.3', info: { title: 'Things', version: '1' }, components, paths }))
  // Before the work was cut into steps, this was 640 to 700 ms on the same machine.
  const longest = await least(
    500,
    async () => {
      const openapi = { things: { document: file, baseUrl: 'http://127.0.0.1:1' } }
      return await longestBlock(async () => {
        const { app } = await startApp({ exposure: { mode: 'discovery' }, openapi })
        await expect
          .poll(() => app.apis.status()[0], { timeout: 60_000 })
          .toMatchObject({ state: 'ready', tools: 2_000 })
        await app.stop()
      })
    },
    4,
  )
  expect(longest).toBeLessThan(500)
}, 300_000)
