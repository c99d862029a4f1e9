import { randomUUID } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import relay from '../../modules/relay/index.ts'
import { type Caller, localCaller, noOrigin } from '../../src/core/caller.ts'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { botServer, TOKEN } from '../bot-api.ts'
import { connectTo } from '../client.ts'
import { keepsTheContract } from '../contract/module.ts'
import { redisUrl } from '../redis.ts'

keepsTheContract(relay)

type Json = Record<string, unknown>

const NAMES = ['Ada', 'Bob', 'Cleo', 'Dan', 'Eve', 'Fay', 'Gus', 'Hal']

/** Someone in a channel with their own token, or the owner of the machine on their behalf. */
const person = (userName: string, more: Partial<Caller> = {}): Caller => ({
  ...localCaller,
  principal: userName,
  origin: { ...noOrigin, platform: 'irc', channelId: '#lobby', userName },
  ...more,
})

async function open(config: Json = {}, more: Json = {}, dir = temporaryFolder()) {
  const { app, logged } = await startApp(
    { modules: { relay: { config: { enabled: true, users: NAMES, ...config } } }, ...more },
    dir,
  )
  const call = async (action: string, input: unknown, caller: Caller): Promise<Answer> =>
    ((await app.call({ name: `relay.${action}`, input, caller })) as Answer).value
  const send = (from: string, recipient: string, text = 'hello') =>
    call('relay_message', { recipient, text }, person(from))
  const deliver = (nick: string, event = 'speak') => call('relay_deliver', { nick, event }, localCaller)
  return { app, call, send, deliver, logged, dir }
}

describe('leaving a message', () => {
  it('is disabled by default, and names the setting', async () => {
    const { app } = await startApp({})
    expect(app.view(localCaller).hidden.get('relay.relay_message')?.reason).toBe(
      'set modules.relay.config.enabled to true',
    )
    const without = await startApp({ modules: { relay: { config: { enabled: true } } }, services: { kv: false } })
    expect(without.app.view(localCaller).hidden.get('relay.relay_message')?.reason).toBe('set services.kv to true')
  })

  it("returns the recipient's own spelling, and where they were seen [SBS-50]", async () => {
    const { call } = await open({ users: ['Gus'] })
    const caller = person('Ada', {
      origin: {
        ...noOrigin,
        platform: 'irc',
        channelId: '#lobby',
        userName: 'Ada',
        channelMembers: ['Ada', 'BobTheBuilder'],
        seenMembers: ['Cleo', 'bobthebuilder'],
      },
    })
    const to = async (recipient: string) => await call('relay_message', { recipient, text: 'hi' }, caller)
    expect(await to('bobthebuilder')).toEqual({
      ok: true,
      recipient: 'BobTheBuilder',
      source: 'channel',
      queued: 1,
      note: 'BobTheBuilder gets the message when they next appear. It has not been delivered yet.',
    })
    expect(await to(' CLEO ')).toMatchObject({ recipient: 'Cleo', source: 'seen', queued: 1 })
    expect(await to('gus')).toMatchObject({ recipient: 'Gus', source: 'local-user' })
  })

  it('knows earlier authors in the channel [SBS-50]', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(
      join(dir, 'modules/chat.mjs'),
      `export default { name: 'chat', description: 'Takes in what is said in a chat.', tools: {
        said: { description: 'Takes in one message of a chat.', effect: 'write', input: { type: 'object', properties: { by: { type: 'string' } } },
          run: async ({ by }, { services }) => { await services.messages.record({ text: 'x', user_name: by }); return 1 } } } }`,
    )
    const { app, call } = await open({ users: [] }, {}, dir)
    await app.call({ name: 'chat.said', input: { by: 'Zoe' }, caller: person('Zoe') })
    expect(await call('relay_message', { recipient: 'zoe', text: 'hi' }, person('Ada'))).toMatchObject({
      recipient: 'Zoe',
      source: 'history',
    })
  })

  it('is rejected with the reason [SBS-50]', async () => {
    const { call, send } = await open({ users: ['Alice', 'Alicia', 'Malice', 'Chalice', 'Bob'] })
    const fails = async (input: Json, error: Json) =>
      await expect(call('relay_message', input, person('Ada'))).rejects.toMatchObject(error)
    const missing = 'relay_message needs a "recipient": the name of whom it is for'
    await fails({ text: 'x' }, { code: 'E_VALIDATION', message: expect.stringContaining(missing) })
    await fails({ recipient: ' ', text: 'x' }, { code: 'E_VALIDATION', message: missing })
    await fails(
      { recipient: 'Bob' },
      { code: 'E_VALIDATION', message: expect.stringContaining('relay_message needs a "text"') },
    )
    await fails({ recipient: 'Bob', text: ' \n ' }, { message: 'relay_message needs a "text": what to tell' })
    for (const self of ['Ada', 'ADA', ' ada '])
      await fails({ recipient: self, text: 'x' }, { message: 'A message to oneself is not relayed.' })
    await fails(
      { recipient: 'alic', text: 'x' },
      { code: 'E_NOT_FOUND', message: 'Nobody called "alic" is known here. Did you mean: Alice, Alicia, Malice?' },
    )
    await fails({ recipient: 'Zed', text: 'x' }, { message: 'Nobody called "Zed" is known here.' })
    await call('relay_opt_out', {}, person('Bob'))
    await fails({ recipient: 'bob', text: 'x' }, { code: 'E_DENIED_BY_POLICY', message: 'Bob does not want messages.' })
    expect(await send('Ada', 'Alice', 'a\n\u0007 b')).toMatchObject({ ok: true })
  })

  it('is limited to five messages per recipient and per sender [SBS-50]', async () => {
    const { send, deliver } = await open()
    for (const [count, from] of ['Bob', 'Cleo', 'Dan', 'Eve', 'Fay'].entries())
      expect(await send(from, 'Ada')).toMatchObject({ queued: count + 1 })
    await expect(send('Gus', 'Ada')).rejects.toMatchObject({
      code: 'E_OVERLOADED',
      message: 'Ada has 5 messages waiting already, which is the most.',
    })
    for (const to of ['Bob', 'Cleo', 'Dan', 'Eve', 'Fay']) await send('Hal', to)
    await expect(send('hal', 'Gus')).rejects.toMatchObject({
      code: 'E_OVERLOADED',
      message: 'hal has 5 messages waiting already, which is the most.',
    })
    expect(await deliver('Bob')).toMatchObject({ delivered: 1 })
    expect(await send('Hal', 'Gus')).toMatchObject({ queued: 1 })
    const small = await open({ max_pending: 1 })
    await small.send('Ada', 'Bob')
    await expect(small.send('Cleo', 'Bob')).rejects.toMatchObject({ message: expect.stringContaining('1 messages') })
  })

  it('loses nothing with many concurrent messages, or over a restart [SBS-50]', async () => {
    const dir = temporaryFolder()
    const { app, send } = await open({}, {}, dir)
    const left = await Promise.allSettled(
      ['Bob', 'Cleo', 'Dan', 'Eve', 'Fay', 'Gus'].map((from) => send(from, 'Ada', from)),
    )
    expect(left.filter(({ status }) => status === 'fulfilled')).toHaveLength(5)
    await app.stop()
    const later = await open({}, {}, dir)
    expect((await later.deliver('ada')).delivered).toBe(5)
    expect((await later.deliver('ada')).delivered).toBe(0)
  })
})

describe('a message', () => {
  it('is delivered once, when its recipient speaks or joins, with sender and age [SBS-51]', async () => {
    const { send, deliver } = await open()
    vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 0, 1, 8) })
    onTestFinished(() => void vi.useRealTimers())
    await send('Ada', 'Bob', 'the meeting is at five')
    vi.setSystemTime(Date.UTC(2026, 0, 1, 9, 59))
    await send('Cleo', 'Bob', 'call me')
    vi.setSystemTime(Date.UTC(2026, 0, 1, 10))
    expect(await deliver('BOB', 'join')).toEqual({
      nick: 'BOB',
      event: 'join',
      delivered: 2,
      lines: [
        'Bob: Ada left you a message 2 hours ago: "the meeting is at five"',
        'Bob: Cleo left you a message 1 minute ago: "call me"',
      ],
    })
    expect(await deliver('Bob')).toMatchObject({ event: 'speak', delivered: 0, lines: [] })
    await send('Ada', 'Bob')
    vi.setSystemTime(Date.UTC(2026, 3, 2))
    expect((await deliver('Bob')).delivered).toBe(0)
  })

  it('is dropped if its recipient has opted out [SBS-51]', async () => {
    const { call, send, deliver } = await open()
    await send('Ada', 'Bob')
    await call('relay_opt_out', {}, person('Bob'))
    expect((await deliver('Bob')).delivered).toBe(0)
    await call('relay_opt_in', {}, person('Bob'))
    expect((await deliver('Bob')).delivered).toBe(0)
  })

  it('is delivered to its recipient only, and shown to its sender', async () => {
    const { call, send } = await open()
    await send('Ada', 'Bob', 'secret')
    await expect(call('relay_deliver', { nick: 'Bob' }, person('Eve'))).rejects.toMatchObject({
      code: 'E_DENIED_BY_POLICY',
      message: 'Only Bob can do that.',
    })
    const pending = async (caller: Caller) => await call('relay_pending', { user: 'bob' }, caller)
    expect(await pending(person('Eve'))).toMatchObject({ pending: 0, messages: [] })
    expect(await pending(person('Ada'))).toMatchObject({
      pending: 1,
      messages: [{ from: 'Ada', to: 'Bob', text: 'secret' }],
    })
    expect(await pending(person('Eve', { roles: ['admin'] }))).toMatchObject({ pending: 1 })
    expect(await call('relay_pending', {}, person('Bob'))).toMatchObject({ user: 'Bob', pending: 1 })
    expect(await call('relay_deliver', { nick: 'bob' }, person('Bob'))).toMatchObject({ delivered: 1 })
  })
})

describe('opting out', () => {
  it('works by name in any case, survives a restart, and can be undone [SBS-52]', async () => {
    const dir = temporaryFolder()
    const { app, call, send } = await open({}, {}, dir)
    expect(await call('relay_opt_out', {}, person('bOb'))).toEqual({ nick: 'bOb', opted_out: true, changed: true })
    expect(await call('relay_opt_out', { nick: 'BOB' }, localCaller)).toMatchObject({ changed: false })
    await expect(send('Ada', 'Bob')).rejects.toMatchObject({ message: 'Bob does not want messages.' })
    await app.stop()
    const later = await open({}, {}, dir)
    await expect(later.send('Ada', 'Bob')).rejects.toMatchObject({ message: 'Bob does not want messages.' })
    expect(await later.call('relay_opt_in', {}, person('Bob'))).toEqual({
      nick: 'Bob',
      opted_out: false,
      changed: true,
    })
    expect(await later.send('Ada', 'Bob')).toMatchObject({ ok: true })
    await expect(later.call('relay_opt_out', { nick: 'Cleo' }, person('Bob'))).rejects.toMatchObject({
      code: 'E_DENIED_BY_POLICY',
    })
  })
})

/** A scripted language model over HTTP, in OpenAI's format. */
async function model(answer: (asked: string) => string) {
  const asked: Answer[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const piece of request) body += piece
    const parsed = JSON.parse(body)
    asked.push(parsed)
    const content = answer(parsed.messages.at(-1).content)
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ model: 'scripted', choices: [{ message: { role: 'assistant', content } }] }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { asked, llm: { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, model: 'scripted' } }
}

describe('a message rephrased by a model', () => {
  const told = async (text: string, answer: string, config: Json = { rewrite: true }) => {
    const { llm, asked } = await model(() => answer)
    const { send, deliver } = await open(config, { services: { llm } })
    await send('Ada', 'Bob', text)
    const [line] = (await deliver('Bob')).lines
    return { text: /"(.*)"$/s.exec(line)?.[1], asked }
  }

  it('is delivered in its words if they are trustworthy [SBS-53]', async () => {
    const { text, asked } = await told('tell him I will be 10 minutes late', 'I will be 10 minutes late')
    expect(text).toBe('I will be 10 minutes late')
    expect(asked).toHaveLength(1)
    expect(JSON.parse(asked[0].messages.at(-1).content)).toEqual({
      sender: 'Ada',
      recipient: 'Bob',
      text: 'tell him I will be 10 minutes late',
    })
  })

  it.each([
    ['is too long', 'I am late. '.repeat(20)],
    ['is empty', ' '],
    ['has lines', 'I am\nlate at 5'],
    ['has another number', 'I am late at 6'],
    ['has an address nobody gave', 'I am late at 5 https://x.example'],
  ])('is delivered unchanged if the answer %s [SBS-53]', async (_what, answer) => {
    expect((await told('tell him I am late at 5', answer)).text).toBe('tell him I am late at 5')
  })

  it('is delivered unchanged if disabled, without a model, or after a failure [SBS-53]', async () => {
    const off = await told('tell him hi', 'Hi there', {})
    expect([off.text, off.asked.length]).toEqual(['tell him hi', 0])
    const without = await open({ rewrite: true })
    await without.send('Ada', 'Bob', 'tell him hi')
    expect((await without.deliver('Bob')).lines[0]).toContain('"tell him hi"')
    const failing = await open(
      { rewrite: true },
      { services: { llm: { baseUrl: 'http://127.0.0.1:1/v1', model: 'x' } } },
    )
    await failing.send('Ada', 'Bob', 'tell him hi')
    expect((await failing.deliver('Bob')).lines[0]).toContain('"tell him hi"')
  })
})

describe('two people behind one server', () => {
  const noticesIn = (result: unknown): string[] =>
    (result as Answer).content.map(({ text }: Answer) => text).filter((text: string) => text.startsWith('[NOTICE] '))

  it.each(['legacy', 'modern'] as const)('reach each other with their next call (%s) [SBS-51]', async (era) => {
    const { app } = await open({ users: ['Bob'] }, { exposure: { mode: 'discovery' } })
    const ada = await connectTo(app, era)
    const bob = await connectTo(app, era)
    const as = (client: typeof ada, user_name: string) => async (name: string, args: Json) =>
      await client.callTool({ name, arguments: args, _meta: { toolctx: { user_name, channel_id: '#lobby' } } } as never)
    const [adas, bobs] = [as(ada, 'Ada'), as(bob, 'bob')]
    const { tools } = answerOf(await adas('search_tools', { query: 'tell Bob something when he is back' }))
    expect(tools[0].name).toBe('relay.relay_message')
    const left = await adas('execute_tool', {
      name: 'relay.relay_message',
      params: { recipient: 'Bob', text: 'the tests are green' },
    })
    expect(answerOf(left).data).toMatchObject({ ok: true, recipient: 'Bob', queued: 1 })
    expect(noticesIn(await adas('list_categories', {}))).toEqual([])
    expect(noticesIn(await bobs('list_categories', {}))).toEqual([
      '[NOTICE] Bob: Ada left you a message just now: "the tests are green"',
    ])
    expect(noticesIn(await bobs('list_categories', {}))).toEqual([])
  })

  it('get nothing beside results if the operator disabled it', async () => {
    const { app, send, deliver } = await open({ notices: false })
    await send('Ada', 'Bob')
    const client = await connectTo(app)
    const called = await client.callTool({
      name: 'hello__status',
      arguments: {},
      _meta: { toolctx: { user_name: 'Bob' } },
    } as never)
    expect(noticesIn(called)).toEqual([])
    expect((await deliver('Bob')).delivered).toBe(1)
  })
})

describe.skipIf(redisUrl === undefined)('several servers with one Redis', () => {
  it('deliver each message once, whichever is asked [SBS-51]', async () => {
    const state = { url: String(redisUrl), prefix: `pegboard-test-${randomUUID()}` }
    const [one, other] = [await open({}, { state }), await open({}, { state })]
    const senders = ['Bob', 'Cleo', 'Dan', 'Eve', 'Fay', 'Gus']
    const left = await Promise.allSettled(
      senders.map((from, index) => (index % 2 ? one : other).send(from, 'Ada', from)),
    )
    expect(left.filter(({ status }) => status === 'fulfilled')).toHaveLength(5)
    const taken = await Promise.all([one.deliver('ada'), other.deliver('ada'), one.deliver('ada')])
    expect(taken.map(({ delivered }) => delivered).sort()).toEqual([0, 0, 5])
    await one.call('relay_opt_out', {}, person('Ada'))
    await expect(other.send('Bob', 'Ada')).rejects.toMatchObject({ message: 'Ada does not want messages.' })
  })
})

describe('someone who writes on Telegram', () => {
  async function chat(more: Json = {}) {
    const bot = await botServer()
    const { app, logged } = await startApp({
      modules: {
        relay: { config: { enabled: true, users: ['ann'] } },
        telegram: { config: { token: TOKEN, base_url: bot.url, allowed_chat_ids: ['42'], inbound: true } },
        moderation: { config: { users: [{ id: '7', name: 'ann' }] } },
      },
      profiles: { default: { flags: { user_blocking_enabled: true } } },
      ...more,
    })
    const client = await connectTo(app)
    const run = async (name: string, args: Json): Promise<Answer> =>
      answerOf(await client.callTool({ name, arguments: args, _meta: { toolctx: { user_name: 'Bob' } } } as never))
    let update = 0
    const write = (text: string) => {
      update++
      const from = { id: 7, is_bot: false, first_name: 'Ann', username: 'ann' }
      const message = { message_id: 500 + update, date: 1_800_000_000, chat: { id: 42, type: 'private' }, from, text }
      bot.update({ update_id: update, message })
    }
    const taken = () =>
      vi.waitFor(() => expect(bot.of('getUpdates').at(-1)?.params['offset']).toBe(update + 1), { timeout: 15_000 })
    const sent = () => bot.of('sendMessage').map(({ params }) => [params['chat_id'], params['text']])
    return { bot, run, write, taken, sent, logged }
  }

  it('gets a message left with an assistant there, once [SBS-51]', async () => {
    const { run, write, taken, sent } = await chat()
    expect(await run('relay__relay_message', { recipient: 'Ann', text: 'the key is under the mat' })).toMatchObject({
      ok: true,
      recipient: 'ann',
    })
    write('hello?')
    await vi.waitFor(() => expect(sent()).toHaveLength(1), { timeout: 15_000 })
    expect(sent()).toEqual([['42', 'ann: Bob left you a message just now: "the key is under the mat"']])
    write('thanks')
    await taken()
    expect(sent()).toHaveLength(1)
    expect(await run('relay__relay_pending', { user: 'ann' })).toMatchObject({ pending: 0 })
  })

  it('gets nothing while muted, and everything afterwards [TOM-53]', async () => {
    const { run, write, taken, sent } = await chat()
    await run('relay__relay_message', { recipient: 'ann', text: 'hi' })
    await run('moderation__block_user', {
      blocked_user: 'ann',
      block_type: 'mute',
      block_duration_hours: 1,
      block_reason: 'Spam.',
    })
    write('one')
    await taken()
    write('two')
    await taken()
    expect(sent()).toEqual([])
    await run('moderation__unblock_user', { user: 'ann' })
    write('three')
    await vi.waitFor(() => expect(sent()).toHaveLength(1), { timeout: 15_000 })
  })

  it('gets it later if the platform rejects it now', async () => {
    const { bot, run, write, sent, logged } = await chat()
    await run('relay__relay_message', { recipient: 'ann', text: 'hi' })
    bot.answer('sendMessage', 403, {
      ok: false,
      error_code: 403,
      description: 'Forbidden: bot was blocked by the user',
    })
    write('one')
    await vi.waitFor(() => expect(logged.join()).toContain('messages could not be delivered and stay queued'), {
      timeout: 15_000,
    })
    await vi.waitFor(
      async () => expect(await run('relay__relay_pending', { user: 'ann' })).toMatchObject({ pending: 1 }),
      { timeout: 15_000 },
    )
    write('two')
    await vi.waitFor(
      async () => expect(await run('relay__relay_pending', { user: 'ann' })).toMatchObject({ pending: 0 }),
      { timeout: 15_000 },
    )
    await vi.waitFor(() => expect(sent().at(-1)?.[1]).toContain('"hi"'), { timeout: 15_000 })
  })
})
