import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { readOwnResource } from '../../src/server/own-resources.ts'
import { type Answer, startApp } from '../app.ts'
import { connectTo } from '../client.ts'

describe('tool statistics', () => {
  it('continue after a restart', async () => {
    const { app, dir } = await startApp({})
    await app.work()
    const client = await connectTo(app)
    await client.callTool({ name: 'hello__say_hello', arguments: { name: 'Ada' } })
    await app.stop()
    const { app: again } = await startApp({}, dir)
    await again.work()
    const read = (await readOwnResource(again.server, localCaller, 'stats://tools')) as Answer
    expect(JSON.parse(read.contents[0].text)).toMatchObject({ tools: [{ name: 'hello.say_hello', calls: 1 }] })
  })

  it("count this principal's calls of tools it sees [TOM-10]", async () => {
    const { app } = await startApp({
      exposure: { mode: 'discovery' },
      profiles: { narrow: { policy: { deny: ['hello.say_hello'] } } },
    })
    const client = await connectTo(app)
    expect((await client.listResources()).resources.map(({ uri }) => uri)).toContain('stats://tools')
    const stats = async () =>
      JSON.parse(((await client.readResource({ uri: 'stats://tools' })).contents[0] as Answer).text)
    expect(await stats()).toEqual({ tools: [], total_calls: 0 })
    await client.callTool({ name: 'hello__say_hello', arguments: { name: 'Ada' } })
    await client.callTool({ name: 'execute_tool', arguments: { name: 'hello.say_hello', params: { language: 'xx' } } })
    await client.callTool({ name: 'hello__status', arguments: {} })
    const average_ms = expect.any(Number)
    expect(await stats()).toEqual({
      tools: [
        { name: 'hello.say_hello', calls: 2, failures: 1, average_ms },
        { name: 'hello.status', calls: 1, failures: 0, average_ms },
      ],
      total_calls: 3,
    })
    const of = async (change: object) => {
      const read = (await readOwnResource(app.server, { ...localCaller, ...change }, 'stats://tools')) as Answer
      return JSON.parse(read.contents[0].text)
    }
    expect(await of({ principal: 'ada' })).toEqual({ tools: [], total_calls: 0 })
    expect((await of({ profile: 'narrow' })).tools.map(({ name }: Answer) => name)).toEqual(['hello.status'])
  })
})
