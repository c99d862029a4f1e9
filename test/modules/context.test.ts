import { describe, expect, it } from 'vitest'
import context from '../../modules/context/index.ts'
import { type Caller, localCaller, noOrigin } from '../../src/core/caller.ts'
import { type Answer, answerOf, startApp } from '../app.ts'
import { connectTo } from '../client.ts'
import { createManualClock } from '../clock.ts'
import { keepsTheContract } from '../contract/module.ts'

keepsTheContract(context)

type Json = Record<string, unknown>

const DAY = 24 * 60 * 60_000

async function open(more: Json = {}, start = Date.UTC(2026, 0, 1)) {
  const clock = createManualClock(start)
  const config = { enabled: true, channel_roles: ['bot'] }
  const { app } = await startApp({ modules: { context: { config } }, ...more }, undefined, { clock })
  const call = async (action: string, input: unknown = {}, caller: Caller = localCaller): Promise<Answer> =>
    ((await app.call({ name: `context.${action}`, input, caller })) as Answer).value
  return { app, call, clock }
}
const inChannel = (channelId: string, principal = 'local'): Caller => ({
  ...localCaller,
  principal,
  // A token of a program that serves several chats.
  roles: principal === 'local' ? [] : ['bot'],
  origin: { ...noOrigin, platform: 'irc', channelId, userId: 'u1', userName: 'Ada' },
})

/** All tools that read or change a channel, with their arguments. */
const OF_A_CHANNEL = {
  conversation_get: {},
  conversation_append: { content: 'x' },
  conversation_update: { message_id: 'x', content: 'y' },
  conversation_delete: { all: true },
  message_record: { text: 'x' },
  message_search: { query: 'secret' },
}

describe('the module context', () => {
  it('is disabled by default, and names the setting', async () => {
    const { app } = await startApp({})
    expect(app.view(localCaller).hidden.get('context.message_search')?.reason).toBe(
      'set modules.context.config.enabled to true',
    )
    const off = await startApp({ modules: { context: { config: { enabled: true } } }, services: { messages: false } })
    expect(off.app.view(localCaller).hidden.get('context.message_search')?.reason).toBe('set services.messages to true')
    expect(off.app.view(localCaller).byId.has('context.conversation_get')).toBe(true)
  })
})

describe('a conversation', () => {
  it('keeps the last hundred entries of a channel, oldest first [CTX-16]', async () => {
    const { call } = await open()
    for (let index = 1; index <= 101; index++)
      await call('conversation_append', { channel_id: 'c1', content: `Entry ${index}` })
    const { messages } = await call('conversation_get', { channel_id: 'c1', limit: 100 })
    expect(messages).toHaveLength(100)
    expect([messages[0].content, messages[99].content]).toEqual(['Entry 2', 'Entry 101'])
    expect((await call('conversation_get', { channel_id: 'c1', limit: 2 })).messages).toMatchObject([
      { content: 'Entry 100' },
      { content: 'Entry 101' },
    ])
    expect((await call('conversation_get', { channel_id: 'c2' })).messages).toEqual([])
  })

  it('says who wrote what and when, and can be corrected and deleted from [CTX-16]', async () => {
    const { call } = await open()
    const caller = inChannel('#lobby')
    expect(await call('conversation_append', { content: 'Hallo', message_id: 'm1' }, caller)).toEqual({
      channel_id: '#lobby',
      message_id: 'm1',
      role: 'user',
      content: 'Hallo',
      user_id: 'u1',
      user_name: 'Ada',
      timestamp: '2026-01-01T00:00:00.000Z',
    })
    await call('conversation_append', { role: 'assistant', content: 'Hello', message_id: 'm2' }, caller)
    expect(await call('conversation_update', { message_id: 'm1', content: 'Hallo!' }, caller)).toMatchObject({
      content: 'Hallo!',
      user_name: 'Ada',
    })
    expect(await call('conversation_delete', { message_id: 'm2' }, caller)).toEqual({
      channel_id: '#lobby',
      deleted: 1,
    })
    expect((await call('conversation_get', {}, caller)).messages).toMatchObject([
      { message_id: 'm1', content: 'Hallo!' },
    ])
    for (const action of ['conversation_update', 'conversation_delete'])
      await expect(
        call(action, { message_id: 'm2', ...(action.endsWith('update') && { content: 'x' }) }, caller),
      ).rejects.toMatchObject({
        code: 'E_NOT_FOUND',
      })
    await expect(call('conversation_delete', {}, caller)).rejects.toMatchObject({ code: 'E_VALIDATION' })
    expect(await call('conversation_delete', { all: true }, caller)).toEqual({ channel_id: '#lobby', deleted: 1 })
    expect((await call('conversation_get', {}, caller)).messages).toEqual([])
    await expect(call('conversation_get')).rejects.toMatchObject({ message: 'The channel is unknown.' })
  })

  it("is that of the request's channel; others are for the machine's owner and admins", async () => {
    const { call } = await open()
    await call('conversation_append', { channel_id: '#staff', content: 'secret' }, inChannel('#lobby'))
    const ada = inChannel('#lobby', 'ada')
    for (const [action, input] of Object.entries(OF_A_CHANNEL))
      await expect(call(action, { ...input, channel_id: '#staff' }, ada), action).rejects.toMatchObject({
        code: 'E_DENIED_BY_POLICY',
      })
    await expect(call('message_search', { query: 'x', everywhere: true }, ada)).rejects.toMatchObject({
      code: 'E_DENIED_BY_POLICY',
    })
    const admin = { ...ada, roles: ['admin'] }
    expect((await call('conversation_get', { channel_id: '#staff' }, admin)).messages).toMatchObject([
      { content: 'secret' },
    ])
  })
})

describe('a token that is not trusted', () => {
  it('reads and changes no channel, whatever origin it claims', async () => {
    const { call } = await open()
    await call('conversation_append', { content: 'secret' }, inChannel('#lobby'))
    const eve: Caller = { ...inChannel('#lobby', 'eve'), roles: ['reader'] }
    for (const [action, input] of Object.entries(OF_A_CHANNEL))
      for (const more of [{}, { channel_id: '#lobby' }, { channel_id: '#lobby', platform: 'irc' }])
        await expect(call(action, { ...input, ...more }, eve), action).rejects.toMatchObject({
          code: 'E_DENIED_BY_POLICY',
          hint: 'The operator adds a role of this token to modules.context.config.channel_roles.',
        })
    const bot = inChannel('#lobby', 'bot')
    expect((await call('conversation_get', {}, bot)).messages).toMatchObject([{ content: 'secret' }])
  })
})

describe('messages', () => {
  it('are newest first, and expire after ninety days [CTX-11]', async () => {
    const { call, clock } = await open()
    for (const text of ['one', 'two', 'three']) {
      await call('message_record', { channel_id: 'c1', text, user_name: 'Ada' })
      clock.pass(DAY)
    }
    const texts = async (input: Json) => (await call('message_search', input)).messages.map(({ text }: Answer) => text)
    expect(await texts({ channel_id: 'c1', limit: 2 })).toEqual(['three', 'two'])
    clock.pass(88 * DAY)
    expect(await texts({ channel_id: 'c1' })).toEqual(['three'])
    expect(await texts({ query: 'one', channel_id: 'c1' })).toEqual([])
  })

  it('are found by words in one or all channels, and replaced by id [CTX-11]', async () => {
    const { call } = await open()
    const caller = inChannel('#lobby')
    expect(
      await call(
        'message_record',
        { text: 'The release is on Friday.', message_id: 'm1', timestamp: '2025-12-31T10:00:00Z' },
        caller,
      ),
    ).toEqual({
      user_id: 'u1',
      user_name: 'Ada',
      platform: 'irc',
      channel_id: '#lobby',
      text: 'The release is on Friday.',
      message_id: 'm1',
      reply_to_id: '',
      timestamp: '2025-12-31T10:00:00.000Z',
    })
    await call('message_record', { text: 'Pizza at noon?' }, caller)
    await call('message_record', { text: 'Friday is a holiday.', channel_id: '#staff' }, caller)
    const found = async (input: Json) =>
      (await call('message_search', input, caller)).messages.map(({ text }: Answer) => text)
    expect(await found({ query: 'release Friday', limit: 1 })).toEqual(['The release is on Friday.'])
    expect((await found({ query: 'Friday', everywhere: true })).toSorted()).toEqual([
      'Friday is a holiday.',
      'The release is on Friday.',
    ])
    await call('message_record', { text: 'The release is on Monday.', message_id: 'm1' }, caller)
    expect(await found({ query: 'release', limit: 1 })).toEqual(['The release is on Monday.'])
    await expect(call('message_search', { everywhere: true }, caller)).rejects.toMatchObject({ code: 'E_VALIDATION' })
    await expect(call('message_record', { text: 'x', timestamp: 'yesterday' }, caller)).rejects.toMatchObject({
      code: 'E_VALIDATION',
    })
  })
})

describe('a chat of another platform', () => {
  const inbound = async () => {
    const opened = await open()
    const telegram: Caller = { ...localCaller, origin: { ...noOrigin, platform: 'telegram', channelId: '42' } }
    await opened.call('message_record', { text: 'The train is late.', user_name: 'Ann' }, telegram)
    await opened.call('conversation_append', { content: 'The train is late.', message_id: 'm1' }, telegram)
    return { ...opened, telegram }
  }

  it('can be used by a client that names the platform', async () => {
    const { app, call, telegram } = await inbound()
    const client = await connectTo(app, 'modern')
    const run = async (name: string, params: Json) =>
      answerOf(await client.callTool({ name: `context__${name}`, arguments: { channel_id: '42', ...params } }))
    const texts = async (params: Json) => (await run('message_search', params)).messages.map(({ text }: Answer) => text)
    expect(await texts({})).toEqual([])
    for (const params of [{}, { query: 'train' }, { query: 'train', everywhere: true }])
      expect(await texts({ ...params, platform: 'telegram' })).toEqual(['The train is late.'])
    expect(await texts({ query: 'train', everywhere: true, platform: 'irc' })).toEqual([])
    expect((await run('conversation_get', {})).messages).toEqual([])
    expect((await run('conversation_get', { platform: 'telegram' })).messages).toMatchObject([
      { content: 'The train is late.' },
    ])
    await run('conversation_update', { platform: 'telegram', message_id: 'm1', content: 'It is here.' })
    await run('conversation_append', { platform: 'telegram', role: 'assistant', content: 'Noted.', message_id: 'm2' })
    const contents = async () =>
      (await call('conversation_get', {}, telegram)).messages.map(({ content }: Answer) => content)
    expect(await contents()).toEqual(['It is here.', 'Noted.'])
    await run('conversation_delete', { platform: 'telegram', message_id: 'm2' })
    expect(await contents()).toEqual(['It is here.'])
    expect(await run('conversation_delete', { platform: 'telegram', all: true })).toMatchObject({ deleted: 1 })
    expect(await contents()).toEqual([])
  })

  it("differs from the request's channel even if the names are equal", async () => {
    const { call } = await inbound()
    const ada = inChannel('42', 'ada')
    for (const [action, input] of Object.entries({
      conversation_get: {},
      conversation_append: { content: 'x' },
      conversation_update: { message_id: 'm1', content: 'y' },
      conversation_delete: { all: true },
      message_record: { text: 'x' },
      message_search: { query: 'train' },
    }))
      await expect(
        call(action, { ...input, channel_id: '42', platform: 'telegram' }, ada),
        action,
      ).rejects.toMatchObject({ code: 'E_DENIED_BY_POLICY', hint: 'Leave channel_id and platform out.' })
    await expect(call('message_search', { platform: 'telegram' }, ada)).rejects.toMatchObject({ code: 'E_VALIDATION' })
    expect((await call('message_search', { platform: 'irc' }, ada)).messages).toEqual([])
    const admin = { ...ada, roles: ['admin'] }
    expect((await call('message_search', { channel_id: '42', platform: 'telegram' }, admin)).messages).toMatchObject([
      { text: 'The train is late.' },
    ])
  })
})

describe('a bot that comes back to a channel', () => {
  it.each(['legacy', 'modern'] as const)(
    'reads the conversation, finds who said something, and records its answer (%s)',
    async (era) => {
      const { app, call } = await open({ exposure: { mode: 'discovery' } })
      const client = await connectTo(app, era)
      const _meta = { toolctx: { platform: 'irc', channel_id: '#lobby', user_name: 'Ada', user_id: 'u1' } }
      const run = async (name: string, params: Json) =>
        answerOf(
          await client.callTool({
            name: 'execute_tool',
            arguments: { name: `context.${name}`, params },
            _meta,
          } as never),
        ).data
      for (const [user_name, text] of [
        ['Bob', 'the database password rotates on Monday'],
        ['Cleo', 'lunch?'],
      ]) {
        await run('message_record', { user_name, text })
        await run('conversation_append', { user_name, content: text })
      }
      const { tools } = answerOf(
        await client.callTool({
          name: 'search_tools',
          arguments: { query: 'find out who said something in the channel' },
        }),
      )
      expect(tools.map(({ name }: Answer) => name)).toContain('context.message_search')
      const { messages } = await run('message_search', { query: 'when does the password rotate', limit: 1 })
      expect(messages).toMatchObject([{ user_name: 'Bob', text: 'the database password rotates on Monday' }])
      await run('conversation_append', { role: 'assistant', content: 'On Monday, Bob said.' })
      expect(
        (await call('conversation_get', {}, inChannel('#lobby'))).messages.map(({ role }: Answer) => role),
      ).toEqual(['user', 'user', 'assistant'])
    },
  )
})
