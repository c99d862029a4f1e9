import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createBotApi } from '../../modules/telegram/api.ts'
import { Config } from '../../modules/telegram/config.ts'
import { silentLog } from '../../src/core/log.ts'
import { temporaryFolder } from '../app.ts'
import { type BotServer, botServer, message, TOKEN } from '../bot-api.ts'
import { type AppWithClient, startAppWithClient } from './app-with-client.ts'

interface Rig extends AppWithClient {
  readonly bot: BotServer
  /** The messages of chat 42, oldest first. */
  said(): Promise<readonly string[]>
}

async function open(dir = temporaryFolder(), settings: Record<string, unknown> = {}): Promise<Rig> {
  const bot = await botServer()
  mkdirSync(join(dir, 'cache'), { recursive: true })
  const telegram = {
    token: TOKEN,
    base_url: bot.url,
    allowed_chat_ids: ['42'],
    inbound: true,
    file_cache_dir: join(dir, 'cache'),
  }
  const modules = { telegram: { config: telegram }, context: { config: { enabled: true } } }
  const all = await startAppWithClient(modules, { dir, settings })
  const said = async () => {
    const { messages } = await all.call('context.conversation_get', { channel_id: '42', platform: 'telegram' })
    return messages.map(({ content }: { content: string }) => content)
  }
  return { ...all, bot, said }
}

const patience = { timeout: 60_000, interval: 50 }

test('an invalid update does not delay others, and each is processed once', async () => {
  const { bot, said, logged } = await open()
  const odd = [
    null,
    7,
    'x',
    [],
    {},
    { message: null },
    { message: 'x' },
    { message: {} },
    { message: message('x', { chat: null }) },
    { message: message({ toString: 1 }) },
    { message: message('x', { from: 7 }) },
    { message: message('x', { from: { id: 7, first_name: { toString: 1 } } }) },
    { message: message('', { photo: 7 }) },
    { message: message('', { photo: [null] }) },
    { message: message('', { document: { file_id: { a: 1 }, file_name: 7 } }) },
    { message: message('', { voice: 'x' }) },
    { message: message('x', { reply_to_message: null }) },
    { message: message('x', { message_id: { toString: 1 } }) },
    { message: message('x', { date: 'never' }) },
  ]
  bot.answer('getUpdates', 200, { ok: true, result: odd })
  bot.answer('getUpdates', 200, { ok: true, result: { length: 3 } })
  bot.answer('getUpdates', 200, { ok: true, result: [{ update_id: 'x', message: message('not counted') }] })
  // An unprocessed update would be sent again forever.
  bot.update(
    ...odd.flatMap((one, at) => (typeof one === 'object' && one !== null ? [{ update_id: at + 1, ...one }] : [])),
    { update_id: 30, message: message('at last', { message_id: 600 }) },
  )
  await vi.waitFor(async () => expect(await said()).toContain('at last'), patience)
  expect((await said()).filter((text) => text === 'at last')).toHaveLength(1)
  // Pegboard requests the next updates after all of these are processed.
  await vi.waitFor(() => expect(bot.of('getUpdates').at(-1)?.params['offset']).toBe(31), patience)
  expect(logged.join()).not.toMatch(/TypeError/)
}, 120_000)

test('a message with an impossible time leaves its channel readable', async () => {
  const { bot, said } = await open()
  for (const [at, date] of [1e20, -1e20, null, 253_402_300_800_000].entries())
    bot.update({ update_id: at + 1, message: message(`odd ${at}`, { date, message_id: at + 1 }) })
  bot.update({ update_id: 9, message: message('now', { message_id: 9 }) })
  await vi.waitFor(async () => expect(await said()).toContain('now'), patience)
}, 120_000)

test('a repeated or edited message is in its conversation once', async () => {
  const { bot, said } = await open()
  bot.update({ update_id: 1, message: message('first', { message_id: 1 }) })
  bot.update({ update_id: 2, message: message('first', { message_id: 1 }) })
  bot.update({ update_id: 3, edited_message: message('second', { message_id: 1 }) })
  bot.update({ update_id: 4, message: message('end', { message_id: 2 }) })
  await vi.waitFor(async () => expect(await said()).toContain('end'), patience)
  expect(await said()).toEqual(['second', 'end'])
}, 120_000)

test('if the state is unreadable at the start, messages arrive once it is readable', async () => {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'state'))
  // A file in place of the store folder.
  writeFileSync(join(dir, 'state/kv'), '')
  const unhandled: unknown[] = []
  const note = (error: unknown) => void unhandled.push(error)
  process.on('unhandledRejection', note)
  onTestFinished(() => void process.off('unhandledRejection', note))
  const { bot, logged, said } = await open(dir)
  await vi.waitFor(() => expect(logged.join()).toContain('messages from Telegram cannot be received'), patience)
  expect(unhandled).toEqual([])
  rmSync(join(dir, 'state/kv'))
  bot.update({ update_id: 1, message: message('at last') })
  await vi.waitFor(async () => expect(await said()).toEqual(['at last']), patience)
}, 120_000)

test('Pegboard polls Telegram again within a day, whatever wait Telegram requests', async () => {
  for (const [retry_after, seconds] of [
    [1e9, 86_400],
    [1e300, 86_400],
    ['Infinity', 86_400],
    [-5, 1],
    [{}, 1],
  ] as const) {
    const bot = await botServer()
    const api = createBotApi(
      Config.parse({ token: TOKEN, base_url: bot.url, user_agent: 'test' }),
      silentLog,
      () => 1_000,
    )
    onTestFinished(() => api.close())
    bot.answer('getMe', 429, { ok: false, error_code: 429, description: 'later', parameters: { retry_after } })
    await expect(api.call('getMe')).rejects.toMatchObject({ code: 'E_RATE_LIMITED', retryAfterMs: seconds * 1_000 })
  }
}, 120_000)

test('no answer reveals a part of the token, and an unusual answer breaks nothing', async () => {
  const bot = await botServer()
  const api = createBotApi(Config.parse({ token: TOKEN, base_url: bot.url, user_agent: 'test' }), silentLog)
  onTestFinished(() => api.close())
  const told: string[] = []
  for (let before = 320; before < 400; before++) {
    bot.answer('getMe', 400, { ok: false, error_code: 400, description: `${'x'.repeat(before)} /bot${TOKEN}/getMe` })
    await api.call('getMe').catch((error: Error) => told.push(error.message))
  }
  bot.answer('getMe', 400, { ok: false, error_code: 400, description: encodeURIComponent(TOKEN) })
  await api.call('getMe').catch((error: Error) => told.push(error.message))
  expect(told).toHaveLength(81)
  expect(told.filter((text) => /4242[:%]|AAE-|secret/.test(text))).toEqual([])
  for (const body of [
    { ok: false, error_code: { valueOf: 1, toString: 1 }, description: { toString: 1 } },
    { ok: false, error_code: 400, description: { toString: 1 }, parameters: null },
    { ok: false, description: null },
    { ok: 'true' },
  ]) {
    bot.answer('getMe', 400, body)
    await expect(api.call('getMe'), JSON.stringify(body)).rejects.toMatchObject({
      code: expect.stringMatching(/^E_(TOOL_FAILED|BACKEND_UNAVAILABLE)$/),
    })
  }
}, 120_000)
