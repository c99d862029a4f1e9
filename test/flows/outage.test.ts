import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { type Answer, answerOf } from '../app.ts'
import { clientOf, fleetRuns, gatewayTo, type Member, startFleet } from '../fleet.ts'
import { redisUrl } from '../redis.ts'

const WORK = `
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
export default {
  name: 'work',
  description: 'Things to do.',
  tools: { do: {
    description: 'Works for so many milliseconds, and writes down that it began.',
    input: { type: 'object', properties: { n: { type: 'integer' }, ms: { type: 'integer' } }, required: ['n'] },
    effect: 'write',
    run: ({ n, ms = 0 }) => {
      appendFileSync(join(process.env.HOME, 'runs.txt'), n + '\\n')
      return new Promise((done) => setTimeout(() => done({ n }), ms))
    },
  } },
}`
const SECONDS = 60

describe.skipIf(!fleetRuns)('a Redis that is away for a minute', () => {
  it('makes servers unready and not dead, and delays what is planned without losing it [STA-11]', async () => {
    const gateway = await gatewayTo(String(redisUrl))
    const settings = { exposure: { mode: 'direct' }, execution: { watchers: true, scheduler: true } }
    const fleet = await startFleet(2, settings, { 'work.mjs': WORK }, `redis://127.0.0.1:${gateway.port}`)
    const [one, other] = fleet.members as [Member, Member]
    const client = await clientOf(one.url, 'modern')
    const call = async (name: string, args: object = {}) =>
      answerOf(await client.callTool({ name, arguments: args as never })) as Record<string, unknown>
    const status = async (path: string) =>
      Promise.all([one, other].map(({ url }) => fetch(new URL(path, url)).then((answer) => answer.status)))
    const runs = () => readFileSync(join(fleet.place.dir, 'runs.txt'), 'utf8').trim().split('\n').map(Number).sort()

    expect([await status('/health'), await status('/ready')]).toEqual([
      [200, 200],
      [200, 200],
    ])
    const begun = await call('background_run', { name: 'work.do', params: { n: 1, ms: 3_000 } })
    for (const n of [2, 3, 4])
      await call('schedule_once', { when: `in ${n * 5}s`, name: 'work.do', params: { n }, label: `job ${n}` })
    await call('watch_start', { name: 'work.do', params: { n: 5 }, interval: 3_600 })

    await gateway.shut()
    const until = Date.now() + SECONDS * 1_000
    await expect.poll(() => status('/ready'), { timeout: 10_000 }).toEqual([503, 503])
    while (Date.now() < until) {
      expect([await status('/health'), await status('/ready')]).toEqual([
        [200, 200],
        [503, 503],
      ])
      expect(
        await call('run_parallel', { actions: [{ name: 'hello.say_hello', params: { name: 'Ada' } }] }),
      ).toMatchObject({
        succeeded: 1,
      })
      await sleep(4_000)
    }
    expect(runs()).toEqual([1])
    const refused = (await client.callTool({ name: 'schedule_list', arguments: {} })) as Answer
    expect(refused).toMatchObject({ structuredContent: { error: { code: 'E_STATE_UNAVAILABLE', retryable: true } } })

    await gateway.open()
    await expect.poll(() => status('/ready'), { timeout: 15_000 }).toEqual([200, 200])
    await expect.poll(runs, { timeout: 20_000, interval: 250 }).toEqual([1, 2, 3, 4])
    await expect
      .poll(() => call('background_result', { task_id: begun['task_id'] }), { timeout: 20_000 })
      .toMatchObject({ status: 'completed', result: { n: 1 } })
    await expect.poll(async () => (await call('schedule_list'))['total'], { timeout: 20_000 }).toBe(0)
    expect(await call('watch_list')).toMatchObject({ total: 1 })
    await sleep(2_000)
    expect(runs()).toEqual([1, 2, 3, 4])
  }, 150_000)
})
