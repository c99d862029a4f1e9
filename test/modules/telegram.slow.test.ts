import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { languageOf } from '../../modules/_speech.ts'
import { createBotApi } from '../../modules/telegram/api.ts'
import { Config } from '../../modules/telegram/config.ts'
import telegram from '../../modules/telegram/index.ts'
import { splitText } from '../../modules/telegram/split-text.ts'
import { type Caller, localCaller, noOrigin } from '../../src/core/caller.ts'
import { createLog } from '../../src/core/log.ts'
import type { CachedMessage } from '../../src/index.ts'
import { type Answer, answerOf, startApp, type TestApp, temporaryFolder } from '../app.ts'
import { type BotServer, botServer, message, TOKEN } from '../bot-api.ts'
import { connectTo } from '../client.ts'
import { keepsTheContract } from '../contract/module.ts'
import { callsOf, place, talkTo } from '../process.ts'

keepsTheContract(telegram)

const OTHER_TOKEN = '4343:BBE-secret_token_of_another'

const chat = (channelId: string, messageId = ''): Caller => ({
  ...localCaller,
  origin: { ...noOrigin, platform: 'telegram', channelId, messageId },
})

interface Rig extends TestApp {
  readonly bot: BotServer
  readonly cache: string
  call(action: string, input?: object, caller?: Caller): Promise<Answer>
  /** The service's answer about members of chat 42. */
  ask(service: string, method: string, ...args: readonly unknown[]): Promise<Answer>
  probe(action: string, input?: object): Promise<Answer>
  /** The error of a call that fails. */
  fails(action: string, input?: object, caller?: Caller): Promise<Answer>
}

/** Uses the services of a module, and listens to incoming messages; it stops those with `blocked`. */
const PROBE = `
const heard = []
let stop
const tool = (run) => ({ description: 'A tool made for a test.', effect: 'write', input: { type: 'object',
  properties: { service: { type: 'string' }, method: { type: 'string' }, args: { type: 'array', items: {} } } }, run })
export default {
  name: 'probe', description: 'Reaches the services of a test.',
  start({ services }) {
    stop = services.incoming.hear((one) => { heard.push(one.user_name + ': ' + one.text); return one.text !== 'blocked' })
    services.incoming.hear((one) => { if (one.text === 'break') throw new Error('this one is broken') })
  },
  tools: {
    ask: tool(async ({ service, method, args }, { services }) => (await services[service][method](...args)) ?? null),
    adapter: tool(({ method, args }, { services }) => services.adapters.get('telegram')[method](...args)),
    heard: tool(() => heard),
    deafen: tool(() => stop() ?? null),
  },
}`

async function open(
  config: Record<string, unknown> = {},
  env: Record<string, string> = {},
  more: Record<string, unknown> = {},
): Promise<Rig> {
  const bot = await botServer()
  const dir = temporaryFolder()
  const cache = join(dir, 'cache')
  mkdirSync(cache)
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules/probe.mjs'), PROBE)
  const settings = {
    token: TOKEN,
    base_url: bot.url,
    allowed_chat_ids: ['42', -1001234567890],
    file_cache_dir: cache,
    ...config,
  }
  const started = await startApp({ modules: { telegram: { config: settings }, ...more } }, dir, {
    env: { PATH: process.env['PATH'], HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state'), ...env },
  })
  const run = async (name: string, input: object, caller: Caller): Promise<Answer> => {
    const result = await started.app.surface.call({ name, input, caller })
    return result.kind === 'value' ? result.value : result
  }
  const call: Rig['call'] = (action, input = {}, caller = chat('42', '7')) => run(`telegram_${action}`, input, caller)
  const probe: Rig['probe'] = (action, input = {}) => run(`probe.${action}`, input, chat('42'))
  return {
    ...started,
    bot,
    cache,
    call,
    probe,
    ask: (service, method, ...args) => probe('ask', { service, method, args }),
    fails: async (action, input, caller) =>
      await call(action, input, caller).then(
        (value) => expect.fail(`it answered ${JSON.stringify(value)}`),
        (error: unknown) => error,
      ),
  }
}

describe('telegram', () => {
  it('exists only with a token, and names the setting [MOR-43]', async () => {
    const { app } = await startApp({})
    const client = await connectTo(app)
    expect((await client.listTools()).tools.filter(({ name }) => name.startsWith('telegram'))).toEqual([])
    const categories = JSON.stringify(
      answerOf(await client.callTool({ name: 'list_categories', arguments: {} })).categories,
    )
    expect(categories).not.toContain('telegram')
    const { bot, app: there } = await open()
    const names = (await (await connectTo(there)).listTools()).tools.map(({ name }) => name)
    expect(names.filter((name) => name.startsWith('telegram'))).toHaveLength(3)
    expect(bot.calls).toEqual([])
  })

  it('uses the chat and message of the request, otherwise the configured ones [MOR-46, CTX-05]', async () => {
    const bot = await botServer()
    const served = async (config: object) => {
      const telegram = {
        config: { token: TOKEN, base_url: bot.url, allowed_chat_ids: ['42', '-100', '99'], ...config },
      }
      return callsOf(await talkTo(place({ modules: { telegram } })))
    }
    const from = (platform: string, channel_id?: string, message_id?: string) => ({
      toolctx: { platform, channel_id, message_id },
    })
    const react = (call: Awaited<ReturnType<typeof served>>, args: object, meta?: object) =>
      call('telegram.telegram_react', { emoji: '👍', ...args }, meta)
    const errorOf = async (answer: Promise<Answer>) => (await answer).structuredContent.error.message
    const call = await served({ default_chat_id: '99' })
    await react(call, {}, from('telegram', '42', '7'))
    await react(call, { chat_id: '-100', message_id: '8' }, from('telegram', '42', '7'))
    await react(call, { message_id: '9' })
    await react(call, { message_id: '10' }, from('discord', '42', '7'))
    expect(bot.calls.map(({ params }) => [params['chat_id'], params['message_id']])).toEqual([
      ['42', 7],
      ['-100', 8],
      ['99', 9],
      ['99', 10],
    ])
    expect(await errorOf(react(call, {}, from('discord', '42', '7')))).toBe('missing required param: message_id')
    const none = await served({})
    expect(await errorOf(react(none, { message_id: '9' }))).toBe('missing required param: chat_id')
    expect(await errorOf(react(none, { message_id: '9' }, from('discord', '42')))).toBe(
      'missing required param: chat_id',
    )
    await react(none, { message_id: '11' }, from('telegram', '42'))
    expect(bot.calls).toHaveLength(5)
  })

  it('accepts ids as Telegram writes them', async () => {
    const { bot, call } = await open()
    await call('react', { emoji: '👍', chat_id: -1001234567890, message_id: 5 })
    expect(bot.calls[0]?.params).toMatchObject({ chat_id: '-1001234567890', message_id: 5 })
  })

  it('sends with the configured options', async () => {
    const { bot, call } = await open({ user_agent: 'Acme/1.0' })
    await call('react', { emoji: '👍' })
    expect(bot.calls[0]?.userAgent).toBe('Acme/1.0')
  })

  it('accepts the token from a variable', async () => {
    vi.stubEnv('PEGBOARD_TEST_BOT', TOKEN)
    const { bot, call } = await open({ token: undefined, token_env: 'PEGBOARD_TEST_BOT' })
    await call('react', { emoji: '👍' })
    expect(bot.calls).toHaveLength(1)
    vi.unstubAllEnvs()
  })
})

describe('telegram_react', () => {
  it("accepts Telegram's reactions, in any spelling [MOR-49]", async () => {
    const { bot, call, fails } = await open()
    expect(await call('react', { emoji: '👍' })).toEqual({ result: 'reacted with 👍' })
    expect(await call('react', { emoji: '❤️', is_big: true })).toEqual({ result: 'reacted with ❤' })
    await call('react', { emoji: '❤‍🔥' })
    expect(bot.calls.map(({ params }) => params)).toEqual([
      { chat_id: '42', message_id: 7, reaction: [{ type: 'emoji', emoji: '👍' }] },
      { chat_id: '42', message_id: 7, reaction: [{ type: 'emoji', emoji: '❤' }], is_big: true },
      { chat_id: '42', message_id: 7, reaction: [{ type: 'emoji', emoji: '❤️‍🔥' }] },
    ])
    expect((await fails('react', { emoji: '🦖' })).message).toBe('emoji is not in Telegram standard reactions list: 🦖')
    expect((await fails('react', { emoji: '👍' }, chat('42'))).message).toBe('missing required param: message_id')
  })
})

describe('telegram_send_file', () => {
  it('sends a file of the cache folder to the chat, byte for byte [MOR-44]', async () => {
    const { bot, cache, call } = await open()
    const bytes = Buffer.from([0, 1, 2, 250, 251])
    writeFileSync(join(cache, 'a b.bin'), bytes)
    expect(await call('send_file', { path: 'a b.bin', caption: 'Voilà' })).toEqual({
      sent: true,
      chat_id: '42',
      message_id: '101',
      filename: 'a b.bin',
      bytes: 5,
    })
    await call('send_file', { path: 'file_cache_dir/a b.bin', filename: '../../x/été: 1.pdf' })
    await call('send_file', { path: join(cache, 'a b.bin'), filename: 'n'.repeat(200) })
    const [first, second, third] = bot.of('sendDocument')
    expect(first?.params).toEqual({ chat_id: '42', caption: 'Voilà' })
    expect(first?.files['document']).toEqual({ name: 'a b.bin', type: 'application/octet-stream', bytes })
    expect(second?.files['document']?.name).toBe('été_ 1.pdf')
    expect(third?.files['document']?.name).toHaveLength(120)
  })
})

describe('a rejection by Telegram', () => {
  it("from a proxy's error page is reported with its status", async () => {
    const { bot, fails } = await open()
    bot.answer('setMessageReaction', 502, 'Bad Gateway')
    expect(await fails('react', { emoji: '👍' })).toMatchObject({
      code: 'E_BACKEND_UNAVAILABLE',
      message: 'Telegram refused bot<redacted>/setMessageReaction: 502 the answer is not JSON',
    })
  })
})

/** A folder of programs that record their arguments and create their output file. */
function programs(dir: string, ...names: readonly string[]): string {
  const folder = join(dir, 'bin')
  mkdirSync(folder)
  for (const name of names) {
    const path = join(folder, name)
    writeFileSync(
      path,
      `#!/bin/sh
printf '%s' '${name}' >> '${dir}/log'
for a in "$@"; do printf '|%s' "$a" >> '${dir}/log'; case "$a" in --wave=*) echo sound > "\${a#--wave=}";; /*.wav|/*.ogg) [ -e "$a" ] || echo sound > "$a";; esac; done
echo >> '${dir}/log'
`,
    )
    chmodSync(path, 0o755)
  }
  return folder
}

describe('telegram_send_voice', () => {
  it('sends the recording, otherwise the spoken text, otherwise the caption [MOR-45]', async () => {
    const dir = temporaryFolder()
    const { bot, cache, call, fails } = await open({}, { PATH: programs(dir, 'espeak-ng', 'ffmpeg') })
    writeFileSync(join(cache, 'note.ogg'), 'OggS')
    await call('send_voice', { path: 'note.ogg', text: 'not this', caption: 'Listen' })
    await call('send_voice', { text: 'Hello there' })
    expect(await call('send_voice', { caption: 'Only this', chat_id: '-1001234567890' })).toMatchObject({
      sent: true,
      chat_id: '-1001234567890',
      lang: 'en',
    })
    const [first, second, third] = bot.of('sendVoice')
    expect(first?.files['voice']).toMatchObject({ name: 'note.ogg', bytes: Buffer.from('OggS') })
    expect(second?.files['voice']).toMatchObject({
      name: 'voice.ogg',
      type: 'audio/ogg',
      bytes: Buffer.from('sound\n'),
    })
    expect(third?.params).toEqual({ chat_id: '-1001234567890', caption: 'Only this' })
    expect(readFileSync(join(dir, 'log'), 'utf8').match(/^espeak-ng/gm)).toHaveLength(2)
    expect((await fails('send_voice', {})).message).toBe('missing voice synthesis text')
    expect((await fails('send_voice', { text: '  ' })).message).toBe('missing voice synthesis text')
  })

  it('tries the speech programs in order, without a shell [MOR-47]', async () => {
    const dir = temporaryFolder()
    const PATH = programs(dir, 'pico2wave', 'espeak-ng', 'flite', 'opusenc')
    const { call } = await open({}, { PATH })
    await call('send_voice', { text: '--wave=/tmp/x $(touch y)', lang: 'de-AT' })
    await call('send_voice', { text: 'Привет' })
    await call('send_voice', { text: '漢字', lang: '' })
    const lines = readFileSync(join(dir, 'log'), 'utf8')
      .replaceAll(/[^|=\n]*\/speech-\w+\//g, '')
      .trim()
      .split('\n')
    expect(lines).toEqual([
      'pico2wave|--lang=de-DE|--wave=speech.wav|--|--wave=/tmp/x $(touch y)',
      'opusenc|--quiet|--bitrate|32|speech.wav|speech.ogg',
      'espeak-ng|-v|ru|-w|speech.wav|-f|text.txt',
      'opusenc|--quiet|--bitrate|32|speech.wav|speech.ogg',
      'espeak-ng|-v|cmn|-w|speech.wav|-f|text.txt',
      'opusenc|--quiet|--bitrate|32|speech.wav|speech.ogg',
    ])
  })

  it('says what to install if nothing can speak or convert [MOR-47]', async () => {
    const none = await open({}, { PATH: '/nowhere' })
    expect((await none.fails('send_voice', { text: 'Hello' })).message).toBe(
      'no local TTS engine found (install one of: pico2wave, espeak-ng, espeak, flite)',
    )
    const speaking = await open({}, { PATH: programs(temporaryFolder(), 'flite') })
    expect((await speaking.fails('send_voice', { text: 'Hello' })).message).toBe(
      'no audio converter found (install ffmpeg or opusenc)',
    )
  })

  it.each([
    ['こんにちは', 'ja'],
    ['漢字かな', 'ja'],
    ['你好', 'zh'],
    ['안녕', 'ko'],
    ['Привет', 'ru'],
    ['مرحبا', 'ar'],
    ['नमस्ते', 'hi'],
    ['Hello', 'en'],
  ])('detects %s as %s [MOR-47]', (text, lang) => {
    expect(languageOf(undefined, text)).toBe(lang)
    expect(languageOf('pt-BR', text)).toBe('pt')
  })

  const real = ['/usr/bin/espeak-ng', '/usr/bin/ffmpeg'].every((path) => existsSync(path))
  if (!real && process.env['CI'] === 'true' && process.platform === 'linux')
    throw new Error('espeak-ng and ffmpeg are not installed; these tests need them')

  it.runIf(real)('sends playable audio: Opus in Ogg', async () => {
    const { bot, call, cache } = await open()
    await call('send_voice', { text: 'The build is green.' })
    const file = join(cache, 'got.ogg')
    writeFileSync(file, bot.of('sendVoice')[0]?.files['voice']?.bytes ?? '')
    const seen = execFileSync(
      'ffprobe',
      ['-v', 'error', '-show_entries', 'stream=codec_name:format=duration', '-of', 'csv=p=0', file],
      { encoding: 'utf8' },
    )
    const [codec, seconds] = seen.trim().split('\n')
    expect(codec).toBe('opus')
    expect(Number(seconds)).toBeGreaterThan(0.5)
  })
})

describe('the adapter', () => {
  it('splits long texts at the end of a paragraph', () => {
    expect(splitText(`${'a'.repeat(3500)}\n\n${'b'.repeat(3500)}`)).toEqual(['a'.repeat(3500), 'b'.repeat(3500)])
    expect(splitText('short')).toEqual(['short'])
  })

  it('replies to a message, and knows its chats', async () => {
    const { bot, probe } = await open()
    const adapter = (method: string, ...args: readonly unknown[]) => probe('adapter', { method, args })
    expect(await adapter('send', '42', 'z'.repeat(5000), { reply_to: '7' })).toEqual({ message_ids: ['101', '102'] })
    const [first] = bot.of('sendMessage').map(({ params }) => params)
    expect(Object.keys(first ?? {}).sort()).toEqual(['chat_id', 'reply_parameters', 'text'])
    expect(await adapter('listServers')).toEqual([
      { id: '42', name: 'Ann', type: 'private' },
      { id: '-1001234567890', name: 'Ann', type: 'private' },
    ])
  })

  it.each([
    ['image/png', 'sendPhoto', 'photo'],
    ['audio/ogg', 'sendVoice', 'voice'],
    ['application/pdf', 'sendDocument', 'document'],
  ])('sends %s with the right type', async (mimetype, method, field) => {
    const { bot, probe } = await open()
    await probe('adapter', { method: 'sendFile', args: ['42', { data: 'bytes', filename: 'a', mimetype }] })
    expect(bot.of(method)[0]?.files[field]).toEqual({ name: 'a', type: mimetype, bytes: Buffer.from('bytes') })
  })
})

describe('the telegram adapter', () => {
  const LOOK = `export const name = 'look'
export const description = 'Looks at its adapters.'
export const run = async (_input, ctx) => ({
  own: ctx.adapter?.name ?? null,
  there: ctx.adapters_by_name.has('telegram'),
  same: ctx.adapter === ctx.adapters_by_name.get('telegram'),
  native: (await ctx.adapters_by_name.get('telegram')?.client?.call?.('getMe'))?.username ?? null,
  unknown: ctx.adapters_by_name.get('matrix') === undefined,
  said: ctx.adapter?.name === 'telegram' ? await ctx.adapter.send(ctx.channel_id, 'hi') : null,
})\n`

  it('belongs to calls from Telegram, and is available by name if a token is configured [CTX-08, CTX-19]', async () => {
    const bot = await botServer()
    const config = { token: TOKEN, base_url: bot.url, allowed_chat_ids: ['42'] }
    const served = async (modules: object) => callsOf(await talkTo(place({ modules }, { 'look.mjs': LOOK })))
    const there = await served({ telegram: { config } })
    const seen = async (call: typeof there, platform: string) =>
      answerOf(await call('look.look', {}, { toolctx: { platform, channel_id: '42' } }))
    expect(await seen(there, 'telegram')).toMatchObject({ own: 'telegram', there: true, same: true, unknown: true })
    expect(bot.of('sendMessage').map(({ params }) => [params['chat_id'], params['text']])).toEqual([['42', 'hi']])
    expect(await seen(there, 'discord')).toMatchObject({ own: null, there: true, said: null })
    expect(await seen(await served({}), 'telegram')).toMatchObject({ own: null, there: false, said: null })
    expect(bot.of('sendMessage')).toHaveLength(1)
  })
})

describe('incoming messages', () => {
  it('have the common message format, with their files [CTX-34]', async () => {
    const { ask, bot } = await open({ inbound: true })
    bot.stored.set('f1', Buffer.from('%PDF-1.7'))
    const document = { file_id: 'f1', file_size: 8, file_name: 'plan.pdf', mime_type: 'application/pdf' }
    const reply_to_message = message('first', { message_id: 499 })
    bot.update(
      { update_id: 1, message: message('hello', { reply_to_message }) },
      { update_id: 2, message: message('', { message_id: 501, text: undefined, caption: 'Look', document }) },
    )
    await vi.waitFor(async () => expect(await ask('messages', 'recent', '42')).toHaveLength(2), { timeout: 5_000 })
    const [newest, older]: readonly CachedMessage[] = await ask('messages', 'recent', '42')
    expect(older).toEqual({
      user_id: '7',
      user_name: 'ann',
      platform: 'telegram',
      channel_id: '42',
      text: 'hello',
      timestamp: 1_800_000_000_000,
      message_id: '500',
      reply_to_id: '499',
    })
    expect(newest).toMatchObject({ message_id: '501', text: expect.stringContaining('plan.pdf') })
  })

  it('can be read by a client that names the chat and platform', async () => {
    const { app, bot } = await open({ inbound: true }, {}, { context: { config: { enabled: true } } })
    bot.update({ update_id: 1, message: message('The train is late.') })
    const client = await connectTo(app, 'modern')
    const read = async (name: string, more = {}) => {
      const params = { name: `context__${name}`, arguments: { channel_id: '42', platform: 'telegram', ...more } }
      return answerOf(await client.callTool(params)).messages
    }
    await vi.waitFor(async () => expect(await read('conversation_get')).toHaveLength(1), { timeout: 5_000 })
    expect(await read('conversation_get')).toMatchObject([{ role: 'user', content: 'The train is late.' }])
    expect(await read('message_search', { query: 'train' })).toMatchObject([
      { text: 'The train is late.', platform: 'telegram', channel_id: '42' },
    ])
  })

  it('save their files where tools can read them', async () => {
    const { ask, bot, cache } = await open({ inbound: true })
    bot.stored.set('f1', Buffer.from('%PDF-1.7'))
    const document = { file_id: 'f1', file_size: 8, file_name: '../plan.pdf', mime_type: 'application/pdf' }
    bot.update({ update_id: 9, message: message('', { text: undefined, caption: 'Look', document }) })
    await vi.waitFor(async () => expect(await ask('messages', 'recent', '42')).toHaveLength(1), { timeout: 5_000 })
    expect((await ask('messages', 'recent', '42'))?.[0]?.text).toBe(
      'Look\n[file: file_cache_dir/telegram/42/500-plan.pdf]',
    )
    expect(readFileSync(join(cache, 'telegram/42/500-plan.pdf'), 'utf8')).toBe('%PDF-1.7')
  })

  it('save their files on a fresh installation too; the folder is created before the first request', async () => {
    const folder = join(temporaryFolder(), 'cache', 'files')
    const { ask, bot } = await open({ inbound: true, file_cache_dir: folder })
    bot.stored.set('f1', Buffer.from('%PDF-1.7'))
    const document = { file_id: 'f1', file_size: 8, file_name: 'plan.pdf', mime_type: 'application/pdf' }
    bot.update({ update_id: 9, message: message('', { text: undefined, caption: 'Look', document }) })
    await vi.waitFor(async () => expect(await ask('messages', 'recent', '42')).toHaveLength(1), { timeout: 5_000 })
    expect((await ask('messages', 'recent', '42'))[0].text).toBe(
      'Look\n[file: file_cache_dir/telegram/42/500-plan.pdf]',
    )
    expect(readFileSync(join(folder, 'telegram/42/500-plan.pdf'), 'utf8')).toBe('%PDF-1.7')
  })

  it('arrive without files if those cannot be stored; nothing is downloaded, and the log names the setting', async () => {
    const file = join(temporaryFolder(), 'a-file')
    writeFileSync(file, '')
    const { ask, bot, logged } = await open({ inbound: true, file_cache_dir: join(file, 'files') })
    bot.stored.set('f1', Buffer.from('%PDF-1.7'))
    const document = { file_id: 'f1', file_size: 8, file_name: 'plan.pdf', mime_type: 'application/pdf' }
    bot.update({ update_id: 9, message: message('', { text: undefined, caption: 'Look', document }) })
    await vi.waitFor(async () => expect(await ask('messages', 'recent', '42')).toHaveLength(1), { timeout: 5_000 })
    expect((await ask('messages', 'recent', '42'))[0].text).toBe('Look\n[file not saved: plan.pdf]')
    expect(bot.of('getFile')).toEqual([])
    expect(logged.join()).toContain('modules.telegram.config.file_cache_dir')
  })

  it('go to listeners first, which can stop them', async () => {
    const { ask, probe, bot, logged } = await open({ inbound: true })
    bot.update(
      { update_id: 1, message: message('blocked') },
      { update_id: 2, message: message('break', { message_id: 501 }) },
    )
    await vi.waitFor(async () => expect(await ask('messages', 'recent', '42')).toHaveLength(1), { timeout: 5_000 })
    expect((await ask('messages', 'recent', '42'))[0].text).toBe('break')
    expect(await probe('heard')).toEqual(['ann: blocked', 'ann: break'])
    expect(logged.join()).toContain('a listener to incoming messages failed')
    await probe('deafen')
    bot.update({ update_id: 3, message: message('blocked', { message_id: 502 }) })
    await vi.waitFor(async () => expect(await ask('messages', 'recent', '42')).toHaveLength(2), { timeout: 5_000 })
    expect(await probe('heard')).toHaveLength(2)
  })

  it('are tracked per bot: another bot starts from the beginning', async () => {
    const { ask, bot, dir } = await open({ inbound: true })
    bot.update({ update_id: 70, message: message('to the first') })
    await vi.waitFor(async () => expect(await ask('messages', 'recent', '42')).toHaveLength(1), { timeout: 5_000 })
    await vi.waitFor(() => expect(bot.of('getUpdates').at(-1)?.params['offset']).toBe(71), { timeout: 5_000 })
    const second = await botServer(OTHER_TOKEN)
    const config = { token: OTHER_TOKEN, base_url: second.url, allowed_chat_ids: ['42'], inbound: true }
    await startApp({ modules: { telegram: { config } } }, dir)
    await vi.waitFor(() => expect(second.of('getUpdates')[0]?.params['offset']).toBe(0), { timeout: 5_000 })
  })

  it('arrive again if Telegram repeats them, from the last processed one', async () => {
    const { ask, bot, logged } = await open({ inbound: true })
    bot.answer('getUpdates', 409, { ok: false, error_code: 409, description: 'Conflict: another getUpdates' })
    bot.update({ update_id: 1, message: message('first') })
    await vi.waitFor(async () => expect(await ask('messages', 'recent', '42')).toHaveLength(1), { timeout: 5_000 })
    bot.update({ update_id: 2, message: message('second', { message_id: 501 }) })
    await vi.waitFor(async () => expect(await ask('messages', 'recent', '42')).toHaveLength(2), { timeout: 8_000 })
    expect(logged.join()).toContain('messages from Telegram cannot be received')
  })
})

it('log no token at start', () => {
  const lines: string[] = []
  const log = createLog((line) => lines.push(line), 'debug')
  createBotApi(Config.parse({ token: TOKEN, config_file: '', state_dir: '' }), log)
  expect(lines).toEqual([])
})
