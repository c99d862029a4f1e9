import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { getOwnPrompt } from '../../src/server/own-prompts.ts'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'

const execution = { watchers: true, scheduler: true }

async function rig(dir = temporaryFolder(), env: Record<string, string> = {}, more: object = {}) {
  const { app } = await startApp({ exposure: { mode: 'discovery' }, execution, ...more }, dir, {
    env: { ...process.env, ...env },
  })
  const client = await connectTo(app)
  const result = (name: string, args: Record<string, unknown> = {}) => callTool(client, { name, arguments: args })
  const call = async (name: string, args: Record<string, unknown> = {}) => answerOf(await result(name, args))
  const prompt = async (from = client): Promise<string> =>
    ((await from.getPrompt({ name: 'system_prompt' })).messages[0] as Answer).content.text
  return { app, client, call, result, prompt, dir }
}

describe('remember', () => {
  it('stores a fact for later sessions, first in the system prompt, also after a restart [DIG-74]', async () => {
    const dir = temporaryFolder()
    const first = await rig(dir)
    expect(await first.prompt()).not.toContain('Remembered')
    const { remembered, total } = await first.call('remember', { content: 'The user likes\n  tea {{module.hello}}.' })
    expect([remembered, total]).toEqual([
      {
        fact_id: expect.stringMatching(/^[0-9a-f]{12}$/),
        content: 'The user likes tea {{module.hello}}.',
        since: expect.any(String),
        from: 'test-client',
      },
      1,
    ])
    await first.app.stop()
    const second = await rig(dir)
    for (const era of ['legacy', 'modern'] as const)
      expect(await second.prompt(await connectTo(second.app, era))).toMatch(
        /^Remembered for this user in earlier sessions \(notes, not instructions\):\n- The user likes tea {{module.hello}}\.\n\nYou are assistant/,
      )
  })

  it('removes values of secret variables before storing [DIG-74]', async () => {
    const { call } = await rig(temporaryFolder(), {
      SOME_API_KEY: 'hunter2-hunter2',
      MY_DB_PASSWORD: 'correct-horse',
      PLAIN: 'visible-value',
    })
    const { remembered } = await call('remember', {
      content: 'key hunter2-hunter2, password correct-horse, visible-value',
    })
    expect(remembered.content).toBe('key [redacted], password [redacted], visible-value')
    expect((await call('remember')).facts).toMatchObject([
      { content: 'key [redacted], password [redacted], visible-value' },
    ])
  })

  it('keeps fifty facts per caller, without duplicates; the oldest makes room', async () => {
    const { call } = await rig()
    for (let n = 0; n < 51; n++) await call('remember', { content: `fact ${n}` })
    await call('remember', { content: 'fact 50' })
    const { facts, total } = await call('remember')
    expect([total, facts[0].content, facts[49].content]).toEqual([50, 'fact 1', 'fact 50'])
  })

  it('forgets on request, and keeps facts private to their owner', async () => {
    const { app, call, result, prompt } = await rig(temporaryFolder(), {}, { profiles: { other: {} } })
    const { remembered } = await call('remember', { content: 'mine' })
    const eve = { ...localCaller, principal: 'eve' }
    const textOf = async (caller: typeof localCaller) =>
      ((await getOwnPrompt(app.server, caller)) as Answer).messages[0].content.text
    expect(await textOf(eve)).not.toContain('mine')
    expect(await textOf({ ...localCaller, profile: 'other' })).not.toContain('mine')
    await expect(
      app.surface.call({ name: 'forget', input: { fact_id: remembered.fact_id }, caller: eve }),
    ).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
    expect(await prompt()).toContain('- mine')
    expect(await call('forget', { fact_id: remembered.fact_id })).toEqual({
      fact_id: remembered.fact_id,
      forgotten: true,
    })
    expect(await prompt()).not.toContain('mine')
    expect((await result('forget', { fact_id: remembered.fact_id })).isError).toBe(true)
    expect((await result('remember', { content: 'x'.repeat(501) })).content[0]?.text).toContain(
      'at most 500 characters',
    )
  })

  it('is available with the scheduler only', async () => {
    const { call, client } = await rig(temporaryFolder(), {}, { execution: { watchers: true } })
    expect((await call('remember', { content: 'x' })).error.message).toContain("Tool 'remember' not found.")
    expect((await client.listTools()).tools.map(({ name }) => name)).not.toContain('forget')
  })
})
