import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { answerOf, temporaryFolder } from '../app.ts'
import { serve } from '../modules/web-servers.ts'
import { PNG } from '../picture-servers.ts'
import { startAppWithClient } from './app-with-client.ts'
import { connectWithToken, startHttpApp } from './http-app.ts'

const ANN = 'the-token-that-ann-comes-with'
const EVE = 'the-token-that-eve-comes-with'
const tokens = [
  { token: ANN, principal: 'ann' },
  { token: EVE, principal: 'eve' },
]

type Who = Awaited<ReturnType<typeof connectWithToken>>
const call = (who: Who, name: string, input: object = {}) => who.callTool({ name, arguments: { ...input } })

/** The whole product with editable pictures, and the folder that stores them. */
async function pictures(settings: Record<string, unknown> = {}, http: Record<string, unknown> = { tokens }) {
  const dir = temporaryFolder()
  const cache = join(dir, 'cache')
  mkdirSync(cache)
  const base_url = await serve((_request, answer) => answer.setHeader('content-type', 'image/png').end(PNG))
  const image = { type: 'custom', base_url, workflow_supports: { img2img: true } }
  const modules = { media: { config: { file_cache_dir: cache, image } } }
  return { server: await startHttpApp(http, { ...settings, modules }, { dir }), cache }
}

test('a guessed path does not reach a picture of another principal', async () => {
  const { server } = await pictures()
  const [ann, eve] = [await connectWithToken(server.url, ANN), await connectWithToken(server.url, EVE)]
  const made = answerOf(await call(ann, 'media__generate_image', { prompt: 'mine' }))
  expect(made.media_id).toBe('media_1')
  for (const name of ['ann', 'ann\n', 'ann\ndefault', 'default\nann'])
    for (const digest of ['hex', 'base64url'] as const)
      for (const length of [16, 24]) {
        const folder = createHash('sha256').update(name).digest(digest).slice(0, length)
        for (const path of [`media/${folder}/media_1.png`, `media/${folder}/x/../media_1.png`])
          expect(await call(eve, 'media__add_media', { path }), path).toMatchObject({ isError: true })
      }
  // Her own pictures are at the documented path.
  expect(answerOf(await call(ann, 'media__add_media', { path: made.path }))).toMatchObject({ bytes: PNG.length })
  expect(answerOf(await call(eve, 'media__list_media')).media).toEqual([])
}, 120_000)

test('pictures of one principal in two profiles are stored separately', async () => {
  const both = [
    { token: ANN, principal: 'ann', profile: 'work' },
    { token: EVE, principal: 'ann', profile: 'home' },
  ]
  const { server, cache } = await pictures({ profiles: { work: {}, home: {} } }, { tokens: both })
  const [work, home] = [await connectWithToken(server.url, ANN), await connectWithToken(server.url, EVE)]
  const one = answerOf(await call(work, 'media__generate_image', { prompt: 'at work' }))
  const other = answerOf(await call(home, 'media__generate_image', { prompt: 'at home' }))
  expect([one.media_id, other.media_id]).toEqual(['media_1', 'media_1'])
  expect(other.path).not.toBe(one.path)
  expect(readdirSync(join(cache, 'media'))).toHaveLength(2)
}, 120_000)

test('data of one principal gets the same answers for others as data that never existed', async () => {
  const modules = { memory: { config: { enabled: true } }, relay: { config: { enabled: true, users: ['ann', 'eve'] } } }
  const server = await startHttpApp({ tokens }, { modules })
  const [ann, eve] = [await connectWithToken(server.url, ANN), await connectWithToken(server.url, EVE)]
  const { fact_id } = answerOf(await call(ann, 'memory__remember', { content: 'My door has the number 4711.' }))
  const { task_id } = answerOf(await call(ann, 'memory__task_create', { subject: 'Call 4711' }))
  await call(ann, 'memory__set_goal', { goal: 'Goal 4711' })
  await call(ann, 'memory__kg_add_entity', { name: 'Door', observations: ['4711'] })
  await call(eve, 'relay__relay_message', { recipient: 'ann', text: 'for ann alone' })
  for (const [tool, key, id] of [
    ['memory__forget', 'fact_id', fact_id],
    ['memory__task_update', 'task_id', task_id],
  ] as const) {
    const never = String(id).replaceAll(/./g, (digit) => (digit === 'f' ? '0' : 'f'))
    const [theirs, none] = await Promise.all([id, never].map((one) => call(eve, tool, { [key]: one })))
    expect(JSON.stringify(theirs?.content).replaceAll(id, 'ID')).toBe(
      JSON.stringify(none?.content).replaceAll(never, 'ID'),
    )
  }
  for (const [tool, input] of [
    ['memory__recall', {}],
    ['memory__get_facts', {}],
    ['memory__kg_query', { query: 'door' }],
    ['memory__kg_query', { entity: 'Door', depth: 5 }],
  ] as const)
    expect(JSON.stringify(await call(eve, tool, input)), tool).not.toContain('4711')
  expect(await call(eve, 'relay__relay_deliver', { nick: 'ann' })).toMatchObject({ isError: true })
  expect(await call(eve, 'relay__relay_opt_out', { nick: 'ann' })).toMatchObject({ isError: true })
  expect(JSON.stringify(await call(ann, 'memory__recall'))).toContain('for ann alone')
}, 120_000)

test('a token gives access to no channel unless requests are trusted and it has the role', async () => {
  const BOT = 'the-token-that-a-bot-comes-with'
  const bot = { token: BOT, principal: 'bot', roles: ['bot'] }
  const modules = { context: { config: { enabled: true, channel_roles: ['bot'] } } }
  const place = { channel_id: '42', platform: 'telegram' }
  const claim = { name: 'context__conversation_get', arguments: {}, _meta: { toolctx: place } } as never
  for (const [trustMeta, seen] of [
    ['origin', [false, true]],
    ['none', [false, false]],
  ] as const) {
    const server = await startHttpApp({ tokens: [...tokens, bot] }, { modules, server: { trustMeta } })
    const input = { ...place, content: 'for chat 42' }
    await server.app.call({ name: 'context.conversation_append', input, caller: localCaller })
    const read: boolean[] = []
    for (const token of [EVE, BOT]) {
      const who = await connectWithToken(server.url, token)
      const named = await call(who, 'context__conversation_get', place)
      expect([trustMeta, JSON.stringify(named).includes('for chat 42')]).toEqual([trustMeta, false])
      read.push(JSON.stringify(await who.callTool(claim)).includes('for chat 42'))
    }
    expect([trustMeta, read]).toEqual([trustMeta, seen])
  }
}, 120_000)

test('one principal cannot fill the task store for the others', async () => {
  const modules = { memory: { config: { enabled: true } } }
  const MAL = 'the-token-that-mal-comes-with'
  const server = await startHttpApp({ tokens: [...tokens, { token: MAL, principal: 'mal' }] }, { modules })
  const ann = await connectWithToken(server.url, ANN)
  const task = { subject: '漢'.repeat(200), description: '漢'.repeat(4_000) }
  for (const token of [EVE, MAL]) {
    const who = await connectWithToken(server.url, token)
    let refused: unknown
    for (let count = 0; count < 400 && !refused; count++) {
      const answer = await call(who, 'memory__task_create', task)
      if (answer.isError) refused = answer
    }
    expect(JSON.stringify(refused)).toContain('E_TOO_LARGE')
  }
  for (let count = 0; count < 10; count++)
    expect(
      answerOf(await call(ann, 'memory__task_create', { subject: 'Mine', description: 'x'.repeat(4_000) })),
    ).toMatchObject({
      status: 'pending',
    })
}, 120_000)

test('pictures without a valid id are deleted', async () => {
  const { server, cache } = await pictures()
  const ann = await connectWithToken(server.url, ANN)
  const draw = async () => answerOf(await call(ann, 'media__generate_image', { prompt: 'mine' })).path
  const files = (await Promise.all([draw(), draw()])).map((path) => join(cache, path.replace('file_cache_dir/', '')))
  const [old = '', young = ''] = files
  const week = Date.now() / 1_000 - 8 * 24 * 60 * 60
  utimesSync(old, week, week)
  await draw()
  expect([existsSync(old), existsSync(young)]).toEqual([false, true])
}, 120_000)

test('a name that opens a comment hides no contact, and is rejected', async () => {
  const dir = temporaryFolder()
  const { call, fails } = await startAppWithClient({ contacts: { config: { manage: true } } }, { dir })
  for (const contact_id of ['tg:1', 'tg:2', 'tg:3']) await call('contacts.contacts_upsert', { contact_id, name: 'One' })
  expect(await fails('contacts.contacts_upsert', { contact_id: 'tg:1', name: 'x <!-- y' })).toMatchObject({
    code: 'E_VALIDATION',
  })
  expect(await fails('contacts.contacts_upsert', { contact_id: '<!--' })).toMatchObject({ code: 'E_VALIDATION' })
  expect((await call('contacts.contacts_list')).contacts).toHaveLength(3)
}, 120_000)

test('notes on a contact never become another contact', async () => {
  const { call } = await startAppWithClient({ contacts: { config: { manage: true } } })
  const evil = 'a\n```\n\n## Bank\n```yaml\ncontact_id: tg:666\n```\n'
  const texts = [
    evil,
    `\r${evil}`,
    `\u2028${evil}`,
    ' \n```\n## X',
    '```',
    '"\n```\n',
    "'\n```\n## X",
    '- a\n```',
    '|\n```\n## X\n',
  ]
  for (const text of texts) {
    await call('contacts.contacts_upsert', {
      contact_id: 'tg:1',
      name: text.slice(0, 100),
      persona_brief: text,
      topic_preferences: [text.slice(0, 100), text.slice(0, 50)],
    })
    const { contacts, problems } = await call('contacts.contacts_list', { status: 'all' })
    expect([contacts.map(({ contact_id }: { contact_id: string }) => contact_id), problems]).toEqual([
      ['tg:1'],
      undefined,
    ])
  }
}, 120_000)

test('a contact is added to a list of thousands within its call', async () => {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'state/files/contacts'), { recursive: true })
  const active = join(dir, 'state/files/contacts/ACTIVE.md')
  writeFileSync(
    active,
    Array.from({ length: 2_000 }, (_, at) => `## P${at}\n\`\`\`yaml\ncontact_id: tg:${at + 1}\n\`\`\`\n`).join('\n'),
  )
  const settings = { execution: { maxResultTokens: 0 } }
  const { call } = await startAppWithClient({ contacts: { config: { manage: true } } }, { dir, settings })
  const { moved_to_inactive } = await call('contacts.contacts_upsert', { contact_id: 'tg:9999', name: 'New' })
  expect(moved_to_inactive).toHaveLength(1_851)
  expect((await call('contacts.contacts_list')).count).toBe(150)
  expect((await call('contacts.contacts_list', { status: 'inactive' })).count).toBe(1_851)
}, 300_000)

test('a contact file with endless nesting is reported, and the others stay', async () => {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'state/files/contacts'), { recursive: true })
  writeFileSync(
    join(dir, 'state/files/contacts/ACTIVE.md'),
    `## A\n\`\`\`yaml\ncontact_id: tg:1\n\`\`\`\n## B\n\`\`\`yaml\ncontact_id: ${'['.repeat(200_000)}\n\`\`\`\n`,
  )
  const { call } = await startAppWithClient({ contacts: { config: { manage: true } } }, { dir })
  expect(await call('contacts.contacts_list')).toMatchObject({
    count: 1,
    problems: ['contacts/ACTIVE.md: the block of "B" is not YAML'],
  })
}, 120_000)

test('a message id that is not valid in a header does not start a cooldown for the contact', async () => {
  const dir = temporaryFolder()
  const heard: unknown[] = []
  const url = await serve((request, answer) => {
    heard.push(request.headers['idempotency-key'])
    answer.end()
  })
  mkdirSync(join(dir, 'state/files/contacts'), { recursive: true })
  const file = join(dir, 'state/files/contacts/ACTIVE.md')
  writeFileSync(file, `## A\n\`\`\`yaml\ncontact_id: maep:ключ\nkind: agent\nmaep_dial_address: ${url}/in\n\`\`\`\n`)
  const settings = { services: { fetch: { allowPrivate: true } } }
  const { call, fails } = await startAppWithClient({ contacts: { config: { peers: true } } }, { dir, settings })
  const whole = (message_id: string) =>
    Buffer.from(
      JSON.stringify({
        message_id,
        text: 'Hi',
        sent_at: '2026-01-01T00:00:00Z',
        session_id: '0192f0c4-7d1e-7abc-8def-0123456789ab',
      }),
    ).toString('base64url')
  const send = (message_id: string) => ({ contact_id: 'maep:ключ', message_base64: whole(message_id) })
  expect(await fails('contacts.contacts_send', send('x'.repeat(600)))).toMatchObject({ code: 'E_VALIDATION' })
  for (const message_id of ['a\nx-evil: 1', '\ud800'])
    expect((await call('contacts.contacts_send', send(message_id))).outcome).toMatchObject({ accepted: true })
  expect(readFileSync(file, 'utf8')).not.toContain('cooldown_until')
  const { outcome } = await call('contacts.contacts_send', { contact_id: 'maep:ключ', message_text: 'Hi' })
  expect(outcome).toMatchObject({ accepted: true })
  expect(heard).toEqual([
    'maep:%D0%BA%D0%BB%D1%8E%D1%87:a%0Ax-evil:%201',
    'maep:%D0%BA%D0%BB%D1%8E%D1%87:%EF%BF%BD',
    expect.stringMatching(/^maep:%D0%BA%D0%BB%D1%8E%D1%87:msg_[0-9a-f-]{36}$/),
  ])
}, 120_000)
