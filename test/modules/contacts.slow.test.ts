import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import { parseContacts } from '../../modules/_contact-files.ts'
import { uuidV7 } from '../../modules/contacts/envelope.ts'
import contacts, { contacts as contactsAt } from '../../modules/contacts/index.ts'
import { routeTo } from '../../modules/contacts/route.ts'
import { noServices } from '../../src/core/caller.ts'
import { ToolError } from '../../src/core/errors.ts'
import { type Answer, answerOf, startApp, type TestApp, temporaryFolder } from '../app.ts'
import { botServer, TOKEN as TELEGRAM_TOKEN } from '../bot-api.ts'
import { adapterSource, mailbox, TOKEN } from '../chat-platform.ts'
import { connectTo } from '../client.ts'
import { testContext } from '../context.ts'
import { keepsTheContract } from '../contract/module.ts'

keepsTheContract(contacts)

/** One section of a contact file. */
const section = (name: string, fields: Readonly<Record<string, string>>): string =>
  `## ${name}\n\`\`\`yaml\n${Object.entries(fields)
    .map(([key, value]) => `${key}: ${value}`)
    .join('\n')}\n\`\`\`\n`

const ANN = section('Ann Lee', { contact_id: 'tg:1001', kind: 'human', tg_private_chat_id: '1001' })

const V7 = '0192f0c4-7d1e-7abc-8def-0123456789ab'
const V4 = '0192f0c4-7d1e-4abc-8def-0123456789ab'
interface Rig {
  readonly app: TestApp['app']
  readonly client: Client
  /** The folder behind file_state_dir. */
  readonly state: string
  call(tool: string, input: object): Promise<Answer>
  send(input: object): Promise<Answer>
  /** The error of a rejected call. */
  refusal(input: object, tool?: string): Promise<string>
  file(name: string): string
}

/** The whole product with these contacts and a chat platform at `url`. */
async function rig(
  active: string,
  {
    url,
    config = {},
    modules = {},
    ...settings
  }: { url?: string; config?: object; modules?: object; [key: string]: unknown } = {},
): Promise<Rig> {
  const dir = temporaryFolder()
  const state = join(dir, 'state/files')
  mkdirSync(join(state, 'contacts'), { recursive: true })
  writeFileSync(join(state, 'contacts/ACTIVE.md'), active)
  mkdirSync(join(dir, 'modules'))
  if (url !== undefined) writeFileSync(join(dir, 'modules/telegram.mjs'), adapterSource(url))
  const { app } = await startApp(
    { exposure: { mode: 'direct' }, ...settings, modules: { contacts: { config }, ...modules } },
    dir,
  )
  const client = await connectTo(app)
  const ask = (tool: string, input: object) =>
    client.callTool({ name: `contacts__${tool}`, arguments: input as Record<string, unknown> })
  return {
    app,
    client,
    state,
    call: async (tool, input) => answerOf(await ask(tool, input)),
    send: async (input) => answerOf(await ask('contacts_send', input)).outcome,
    async refusal(input, tool = 'contacts_send') {
      const { isError, content } = (await ask(tool, input)) as Answer
      expect(isError).toBe(true)
      return content[0].text.replace(/^E_[A-Z_]+: /, '')
    },
    file: (name) => readFileSync(join(state, 'contacts', name), 'utf8'),
  }
}

const base64 = (envelope: object | string): string =>
  Buffer.from(typeof envelope === 'string' ? envelope : JSON.stringify(envelope)).toString('base64url')
const ENVELOPE = { message_id: 'msg_1', text: 'Hi', sent_at: '2026-01-02T03:04:05+01:00', session_id: V7 }

describe('contacts', () => {
  it('is available if there is a way to send messages, and otherwise names the setting', async () => {
    const without = await rig(ANN)
    const names = async ({ client }: Rig) => (await client.listTools()).tools.map(({ name }) => name)
    expect((await names(without)).filter((name) => name.startsWith('contacts__'))).toEqual([])
    expect(await without.refusal({ contact_id: 'tg:1001', message_text: 'Hi' })).toContain(
      'no delivery: configure modules.telegram, or set modules.contacts.config.peers to true',
    )
    expect(await without.refusal({}, 'contacts_list')).toContain('set modules.contacts.config.manage to true')
    const { url } = await mailbox()
    expect(await names(await rig(ANN, { url }))).toContain('contacts__contacts_send')
    expect(await names(await rig(ANN, { config: { peers: true } }))).toContain('contacts__contacts_send')
  })

  it('shares its files with the file tools, and has bare names [MOR-34]', async () => {
    const { url, got } = await mailbox()
    const { client, state } = await rig('', { url, modules: { filesystem: { config: { readonly: false } } } })
    const content = `# Contacts
<!--
## Nobody
\`\`\`yaml
contact_id: tg:1
tg_private_chat_id: 1
\`\`\`
-->
## Ann Lee
Met at the fair.
\`\`\`yaml
contact_id: tg:1001 # the number of her account
nickname: Annie
kind: human
tg_group_chat_ids:
  - -1009007199254740993
  - -1001234567890
topic_preferences: [maps, tea]
cooldown_until: null
\`\`\`
`
    const written = await client.callTool({
      name: 'filesystem__write_file',
      arguments: { path: 'file_state_dir/contacts/ACTIVE.md', content },
    })
    expect(written.isError).toBeFalsy()
    expect(readFileSync(join(state, 'contacts/ACTIVE.md'), 'utf8')).toBe(content)
    const input = { contact_id: 'tg:1001', message_text: 'Hello Ann.' }
    expect(answerOf(await client.callTool({ name: 'contacts_send', arguments: input })).outcome.accepted).toBe(true)
    // Numbers beyond 2^53 arrive unchanged.
    expect(got[0]?.body).toMatchObject({ chat_id: '-1009007199254740993', text: 'Hello Ann.' })
    const nobody = (await client.callTool({
      name: 'contacts_send',
      arguments: { ...input, contact_id: 'tg:1' },
    })) as Answer
    expect(nobody.content[0].text).toContain('contact not found: tg:1')
  })
})

describe('a message', () => {
  it('is validated with fixed wording [MOR-35]', async () => {
    const { url, got } = await mailbox()
    const { send, refusal } = await rig(ANN, { url })
    const to = { contact_id: 'tg:1001' }
    expect(await refusal({ message_text: 'x' })).toContain('missing required param: contact_id')
    expect(await refusal({ contact_id: '', message_text: 'x' })).toContain('missing required param: contact_id')
    expect(await refusal(to)).toContain('message_text or message_base64 is required')
    expect(await refusal({ ...to, message_text: ' ' })).toContain('message_text or message_base64 is required')
    for (const content_type of ['application/jsonl', 'text/plain', 'application/json2; charset=utf-8'])
      expect(await refusal({ ...to, message_text: 'x', content_type })).toContain(
        'content_type must be application/json envelope',
      )
    for (const session_id of [V4, 'x'])
      expect(await refusal({ ...to, message_text: 'x', session_id })).toContain('session_id must be uuid_v7')
    expect(await refusal({ ...to, message_text: 'x', topic: 'other' })).toContain('unknown parameter "topic"')
    expect(got).toEqual([])
    expect(await send({ ...to, message_text: 'x', content_type: 'application/json; charset=utf-8' })).toMatchObject({
      accepted: true,
    })
    // If both are given, the text is used.
    await send({ ...to, message_text: 'the text', message_base64: base64(ENVELOPE) })
    expect(got[1]?.body.text).toBe('the text')
  })

  it('as text gets its own envelope [MOR-36]', async () => {
    const { url, got } = await mailbox()
    const peer = section('Robot', { contact_id: 'maep:12D3KooW', kind: 'agent', maep_dial_address: `${url}/inbox` })
    const { send } = await rig(peer, { config: { peers: true }, services: { fetch: { allowPrivate: true } } })
    const outcome = await send({ contact_id: 'maep:12D3KooW', message_text: 'Hi', reply_to: 'msg_0' })
    expect(outcome).toEqual({
      contact_id: 'maep:12D3KooW',
      peer_id: 'maep:12D3KooW',
      item_id: expect.stringMatching(/^item_[0-9a-f-]{36}$/),
      idempotency_key: expect.stringMatching(/^maep:12D3KooW:msg_[0-9a-f-]{36}$/),
      accepted: true,
      deduped: false,
      sent_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    })
    expect(got[0]).toMatchObject({
      url: '/inbox',
      headers: {
        'content-type': 'application/json',
        'x-topic': 'chat.message',
        'idempotency-key': outcome.idempotency_key,
      },
      body: {
        message_id: expect.stringMatching(/^msg_[0-9a-f-]{36}$/),
        text: 'Hi',
        sent_at: outcome.sent_at,
        session_id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
        reply_to: 'msg_0',
      },
    })
  })

  it.each([
    ['message_base64 decode failed', 'not base64!'],
    ['message_base64 decode failed', Buffer.from([0xff, 0xfe]).toString('base64url')],
    ['message_base64 must be envelope json', base64('hello')],
    ['message_base64 must be envelope json', base64('[1]')],
    ['message envelope missing message_id', base64({ ...ENVELOPE, message_id: '' })],
    ['message envelope missing text', base64({ ...ENVELOPE, text: undefined })],
    ['message envelope missing sent_at', base64({ ...ENVELOPE, sent_at: undefined })],
    ['message envelope sent_at must be RFC3339', base64({ ...ENVELOPE, sent_at: '2026-01-02 03:04:05' })],
    ['message envelope sent_at must be RFC3339', base64({ ...ENVELOPE, sent_at: '2026-13-02T03:04:05Z' })],
    ['message envelope missing session_id', base64({ ...ENVELOPE, session_id: undefined })],
    ['message envelope session_id must be uuid_v7', base64({ ...ENVELOPE, session_id: V4 })],
  ])('may be an envelope, and is otherwise rejected: %s [MOR-36]', async (words, message_base64) => {
    const { url, got } = await mailbox()
    const { refusal } = await rig(ANN, { url })
    expect(await refusal({ contact_id: 'tg:1001', message_base64 })).toContain(words)
    expect(got).toEqual([])
  })

  it('as an envelope may have a separate conversation id, and is sent once [MOR-36, MOR-38]', async () => {
    const { url, got } = await mailbox()
    const { send } = await rig(ANN, { url })
    const input = {
      contact_id: 'tg:1001',
      message_base64: base64({ ...ENVELOPE, session_id: undefined }),
      session_id: V7,
    }
    const first = await send(input)
    expect(first).toMatchObject({
      accepted: true,
      deduped: false,
      idempotency_key: 'tg:1001:msg_1',
      sent_at: '2026-01-02T03:04:05+01:00',
    })
    expect(await send(input)).toMatchObject({ accepted: true, deduped: true, idempotency_key: 'tg:1001:msg_1' })
    expect(got).toHaveLength(1)
    expect(got[0]?.body).toEqual({
      chat_id: '1001',
      text: 'Hi',
      about: { message_id: 'msg_1', sent_at: '2026-01-02T03:04:05+01:00', session_id: V7 },
    })
  })

  it('has ids that begin with the time, as in RFC 9562', () => {
    // The example in appendix A.6 of the RFC has this time.
    const id = uuidV7(new Date('2022-02-22T19:22:22.000Z'))
    expect(id).toMatch(/^017f22e2-79b0-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(uuidV7(new Date('2022-02-22T19:22:22.001Z')) > id).toBe(true)
  })
})

describe('the route to a contact', () => {
  const both = { tg_private_chat_id: '1001', tg_group_chat_ids: '[-5, -1009007199254740993, 7]' }
  const groups = { tg_group_chat_ids: '[-5, -1009007199254740993, 0, 7]' }
  it.each([
    ['the private chat', both, undefined, 'tg:1001'],
    ['a group, where it is asked for', both, 'tg:-5', 'tg:-5'],
    ['the private chat, where another is asked for that is not theirs', both, 'tg:4242', 'tg:1001'],
    ['the lowest of the groups', groups, undefined, 'tg:-1009007199254740993'],
    ['the number in the id', {}, undefined, 'tg:77'],
    ['the peer, where there is no Telegram', { contact_id: 'x', maep_node_id: '12D3' }, undefined, 'maep:12D3'],
    ['nothing', { contact_id: 'x' }, undefined, 'unable to resolve delivery channel for contact_id=x'],
    [
      'nothing by a name alone',
      { contact_id: 'tg:@ann' },
      undefined,
      'unable to resolve delivery channel for contact_id=tg:@ann',
    ],
    ['nothing in a chat that is not theirs', groups, 'tg:4242', 'chat_id tg:4242 does not belong to tg:77'],
    ['nothing by half a number', both, 'tg:12x', 'invalid chat_id: tg:12x'],
    ['nothing by no number', both, 'tg:0', 'invalid chat_id: tg:0'],
    ['nothing by a name', both, 'tg:@ann', 'invalid chat_id: tg:@ann'],
    ['nothing by another platform', both, 'slack:C1', 'invalid chat_id: slack:C1'],
  ])('is %s [MOR-37]', async (_what, fields, chat, expected) => {
    const { sections } = await parseContacts(section('A', { contact_id: 'tg:77', ...fields }), 'active')
    const contact = sections[0]?.contact
    if (!contact) throw new Error('the test has no contact')
    const found = (): string => {
      try {
        return routeTo(contact, chat, new Set(['mcp', 'telegram']), true).peer_id
      } catch (error) {
        return (error as Error).message
      }
    }
    expect(found()).toBe(expected)
  })

  it('is found by user name, if it is unique [MOR-37]', async () => {
    const { url, got } = await mailbox()
    const { send, refusal } = await rig(
      [
        section('A', { contact_id: 'a', tg_username: 'Sam', tg_private_chat_id: '11' }),
        section('B', { contact_id: 'b', tg_username: 'sam' }),
        section('C', { contact_id: 'c', tg_username: 'kim', tg_private_chat_id: '21' }),
        section('D', { contact_id: 'd', tg_username: 'kim', tg_private_chat_id: '22' }),
        section('E', { contact_id: 'e', tg_username: 'lee' }),
      ].join('\n'),
      { url },
    )
    const to = (contact_id: string) => ({ contact_id, message_text: 'Hi' })
    expect(await send(to('tg:@sam'))).toMatchObject({ contact_id: 'a', peer_id: 'tg:11' })
    expect(got[0]?.body.chat_id).toBe('11')
    expect(await refusal(to('tg:@kim'))).toContain('tg:@kim matches several contacts: c or d')
    expect(await refusal(to('tg:@lee'))).toContain('unable to resolve delivery channel for contact_id=e')
    expect(await refusal(to('tg:@zoe'))).toContain(
      'contact not found: tg:@zoe. contacts_list shows the contact_id of each contact.',
    )
  })

  it('is found by the ids in to-do entries', async () => {
    const { url } = await mailbox()
    const { send, refusal } = await rig(
      [
        section('A', { contact_id: 'ann', tg_private_chat_id: '11', tg_group_chat_ids: '[-5]' }),
        section('B', { contact_id: 'b', tg_private_chat_id: '12' }),
        section('C', { contact_id: 'c', tg_private_chat_id: '12' }),
        section('D', { contact_id: 'd' }),
      ].join('\n'),
      { url },
    )
    expect(await send({ contact_id: 'tg:11', message_text: 'Hi' })).toMatchObject({
      contact_id: 'ann',
      peer_id: 'tg:11',
    })
    expect(await refusal({ contact_id: 'tg:12', message_text: 'Hi' })).toContain(
      'tg:12 matches several contacts: b or c',
    )
    // A group is several people.
    expect(await refusal({ contact_id: 'tg:-5', message_text: 'Hi' })).toContain('contact not found: tg:-5')
    expect(await refusal({ contact_id: 'tg:', message_text: 'Hi' })).toContain('contact not found: tg:')
  })

  it("uses another platform's adapter from a module", async () => {
    const { url, got } = await mailbox()
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    mkdirSync(join(dir, 'state/files/contacts'), { recursive: true })
    writeFileSync(join(dir, 'modules/slack.mjs'), adapterSource(url, 'slack'))
    writeFileSync(join(dir, 'state/files/contacts/ACTIVE.md'), section('Team', { contact_id: 'slack:C024BE91L' }))
    const { app } = await startApp({ exposure: { mode: 'direct' } }, dir)
    const input = { contact_id: 'slack:C024BE91L', message_text: 'Hi all' }
    const sent = await (await connectTo(app)).callTool({ name: 'contacts__contacts_send', arguments: input })
    expect(answerOf(sent).outcome).toMatchObject({ accepted: true, peer_id: 'slack:C024BE91L' })
    expect(got[0]?.body).toMatchObject({ chat_id: 'C024BE91L', text: 'Hi all' })
  })

  it('uses an outbox for agents without network, and fails without the setting', async () => {
    const robot = section('Robot', {
      contact_id: 'maep:12D3KooW',
      maep_dial_address: '/ip4/203.0.113.7/udp/4021/quic-v1/p2p/12D3KooW',
    })
    const { send, state } = await rig(robot, { config: { peers: true } })
    const { item_id } = await send({ contact_id: 'maep:12D3KooW', message_text: 'Hi', session_id: V7 })
    expect(readdirSync(join(state, 'contacts/outbox'))).toEqual([`${item_id}.json`])
    expect(JSON.parse(readFileSync(join(state, `contacts/outbox/${item_id}.json`), 'utf8'))).toMatchObject({
      topic: 'chat.message',
      peer_id: 'maep:12D3KooW',
      dial_address: '/ip4/203.0.113.7/udp/4021/quic-v1/p2p/12D3KooW',
      envelope: { text: 'Hi', session_id: V7 },
    })
    const { url } = await mailbox()
    const { refusal } = await rig(robot, { url })
    expect(await refusal({ contact_id: 'maep:12D3KooW', message_text: 'Hi' })).toContain(
      'modules.contacts.config.peers',
    )
  })

  it('never leads into the private network, whatever the file says', async () => {
    const { url, got } = await mailbox()
    const robot = section('Robot', { contact_id: 'maep:x', kind: 'agent', maep_dial_address: url })
    const { refusal, file } = await rig(robot, { config: { peers: true } })
    expect(await refusal({ contact_id: 'maep:x', message_text: 'Hi' })).toContain('services.fetch.allowPrivate')
    expect(got).toEqual([])
    expect(file('ACTIVE.md')).toBe(robot)
  })
})

describe('the outcome of sending', () => {
  it('is recorded in the file after success, without other changes [MOR-38]', async () => {
    const { url } = await mailbox()
    const active = `# Contacts\n<!-- mine -->\n\n${section('Bob', { contact_id: 'tg:5', nickname: 'B # not a comment' }).replace('```yaml\n', '```yaml\n# his account\n')}\n${ANN}\nthe end\n`
    const { send, file } = await rig(active, { url })
    await send({ contact_id: 'tg:5', message_text: 'Hi' })
    const after = file('ACTIVE.md')
    expect(after).toMatch(/\nlast_interaction_at: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n/)
    expect(after.replace(/last_interaction_at: .*\n/, '')).toBe(active)
  })

  it('is part of the answer after a failure, and starts a cooldown of 72 hours [MOR-38]', async () => {
    const { url, got } = await mailbox(() => ({
      status: 500,
      body: { ok: false, description: 'Internal Server Error' },
    }))
    const { send, refusal, file } = await rig(ANN, { url })
    const before = Date.now()
    const input = { contact_id: 'tg:1001', message_text: 'Hi' }
    expect(await send(input)).toMatchObject({
      contact_id: 'tg:1001',
      peer_id: 'tg:1001',
      accepted: false,
      deduped: false,
      error: 'Internal Server Error',
    })
    const until = /^cooldown_until: (\S+)$/m.exec(file('ACTIVE.md'))?.[1] ?? ''
    expect(Date.parse(until)).toBeGreaterThanOrEqual(before + 72 * 3_600_000)
    expect(file('ACTIVE.md')).not.toContain('last_interaction_at')
    expect(await refusal(input)).toContain(`tg:1001 could not be reached recently. No messages until ${until}`)
    expect(got).toHaveLength(1)
  })

  it('ends the cooldown when it has expired and a message arrives', async () => {
    const { url } = await mailbox()
    const { send, file } = await rig(
      section('Ann', { contact_id: 'tg:1001', cooldown_until: '2020-01-01T00:00:00Z' }),
      { url },
    )
    expect((await send({ contact_id: 'tg:1001', message_text: 'Hi' })).accepted).toBe(true)
    expect(file('ACTIVE.md')).not.toContain('cooldown_until')
    expect(file('ACTIVE.md')).toContain('last_interaction_at')
  })

  it('reveals no bot token from an error', async () => {
    const { url, close, got } = await mailbox((one) => ({
      status: 401,
      body: { ok: false, description: `Unauthorized: ${one.url}` },
    }))
    const { send, app } = await rig(`${ANN}\n${section('Bob', { contact_id: 'tg:5' })}`, { url })
    const refused = await send({ contact_id: 'tg:1001', message_text: 'Hi' })
    expect(got[0]?.url).toContain(TOKEN)
    expect(refused.error).toBe('Unauthorized: /bot<redacted>/sendMessage')
    close()
    const down = await send({ contact_id: 'tg:5', message_text: 'Hi' })
    expect(down.accepted).toBe(false)
    expect(down.error).toContain('bot<redacted>/sendMessage')
    expect(JSON.stringify([refused, down, app.server.counts('local')])).not.toContain('very-secret')
  })

  it("includes the platform's requested wait, to the second", async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'contacts'))
    writeFileSync(join(dir, 'contacts/ACTIVE.md'), ANN)
    let now = new Date('2026-01-02T03:04:05Z')
    let sent = 0
    const adapter = {
      name: 'telegram',
      client: null,
      listServers: async () => [],
      sendFile: async () => null,
      async send() {
        if (++sent === 1)
          throw new ToolError('Too Many Requests: retry after 30', { code: 'E_RATE_LIMITED', retryAfterMs: 30_000 })
      },
    }
    const adapters = { list: () => [adapter], get: () => adapter, current: null, add: () => () => undefined }
    const config = { peers: false, allow_humans: true, manage: false, cooldown_hours: 72, max_active: 150 }
    const ctx = testContext({
      config: { ...config, file_state_dir: dir },
      services: { ...noServices, adapters },
    })
    const send = async () =>
      await contactsAt(() => now).tools['contacts_send']?.run(
        { contact_id: 'tg:1001', message_text: 'Hi' },
        ctx as never,
      )
    const limited = { code: 'E_RATE_LIMITED', retryAfterMs: 30_000 }
    await expect(send()).rejects.toMatchObject({ ...limited, message: 'Too Many Requests: retry after 30' })
    expect(readFileSync(join(dir, 'contacts/ACTIVE.md'), 'utf8')).toContain('cooldown_until: 2026-01-02T03:04:35Z\n')
    await expect(send()).rejects.toMatchObject(limited)
    now = new Date('2026-01-02T03:04:34.999Z')
    await expect(send()).rejects.toMatchObject({ code: 'E_RATE_LIMITED', retryAfterMs: 1 })
    expect(sent).toBe(1)
    now = new Date('2026-01-02T03:04:35Z')
    expect(await send()).toMatchObject({ outcome: { accepted: true } })
    expect(sent).toBe(2)
  })

  it('is an error without a cooldown if the platform is not allowed', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'contacts'))
    writeFileSync(join(dir, 'contacts/ACTIVE.md'), ANN)
    const adapter = {
      name: 'telegram',
      client: null,
      listServers: async () => [],
      sendFile: async () => null,
      async send() {
        throw new ToolError('unauthorized chat_id: 1001', { code: 'E_DENIED_BY_POLICY' })
      },
    }
    const adapters = { list: () => [adapter], get: () => adapter, current: null, add: () => () => undefined }
    const config = { peers: false, allow_humans: true, manage: false, cooldown_hours: 72, max_active: 150 }
    const ctx = testContext({ config: { ...config, file_state_dir: dir }, services: { ...noServices, adapters } })
    const sent = contactsAt(() => new Date()).tools['contacts_send']?.run(
      { contact_id: 'tg:1001', message_text: 'Hi' },
      ctx as never,
    )
    await expect(sent).rejects.toMatchObject({ code: 'E_DENIED_BY_POLICY', message: 'unauthorized chat_id: 1001' })
    expect(readFileSync(join(dir, 'contacts/ACTIVE.md'), 'utf8')).toBe(ANN)
  })

  it('is a refusal for people if only agents are allowed', async () => {
    const { url, got } = await mailbox()
    const { refusal } = await rig(ANN, { url, config: { allow_humans: false } })
    expect(await refusal({ contact_id: 'tg:1001', message_text: 'Hi' })).toContain(
      'modules.contacts.config.allow_humans',
    )
    expect(got).toEqual([])
  })
})

describe('sending with the bundled telegram module', () => {
  const BOB = section('Bob', { contact_id: 'tg:2002', tg_private_chat_id: '2002' })
  const withBot = async (token = TELEGRAM_TOKEN) => {
    const bot = await botServer()
    const telegram = { token, base_url: bot.url, allowed_chat_ids: ['1001'] }
    return { bot, ...(await rig(`${ANN}\n${BOB}`, { modules: { telegram: { config: telegram } } })) }
  }
  const input = { contact_id: 'tg:1001', message_text: 'Hello *Ann* <b>' }

  it('delivers a message unchanged, as a reply if it answers one', async () => {
    const { bot, send } = await withBot()
    expect(await send(input)).toMatchObject({ accepted: true, peer_id: 'tg:1001' })
    await send({ ...input, reply_to: '77' })
    await send({ ...input, reply_to: 'msg_1' })
    const sent = { chat_id: '1001', text: 'Hello *Ann* <b>' }
    expect(bot.of('sendMessage').map(({ params }) => params)).toEqual([
      sent,
      { ...sent, reply_parameters: { message_id: 77 } },
      sent,
    ])
  })

  it('reports a failure in the outcome, and starts a cooldown [MOR-38]', async () => {
    const { bot, send, refusal, file } = await withBot()
    bot.answer('sendMessage', 500, { ok: false, error_code: 500, description: 'Internal Server Error' })
    expect(await send(input)).toMatchObject({
      accepted: false,
      error: 'Telegram refused bot<redacted>/sendMessage: 500 Internal Server Error',
    })
    expect(file('ACTIVE.md')).toMatch(/cooldown_until: \S+Z\n/)
    expect(await refusal(input)).toContain('No messages until')
    expect(bot.of('sendMessage')).toHaveLength(1)
  })

  it('rejects a chat that is not allowed, and records nothing', async () => {
    const { bot, refusal, file } = await withBot()
    expect(await refusal({ ...input, contact_id: 'tg:2002' })).toContain('unauthorized chat_id: 2002')
    expect(bot.calls).toEqual([])
    expect(file('ACTIVE.md')).toBe(`${ANN}\n${BOB}`)
  })

  it('reports a wrong token without revealing it', async () => {
    const { send } = await withBot('4242:another-secret-token-000')
    const { accepted, error } = await send(input)
    expect(accepted).toBe(false)
    expect(error).toContain('bot<redacted>/sendMessage: 401')
    expect(error).not.toContain('another-secret')
  })

  it('waits as long as requested before the next request', async () => {
    const { bot, refusal } = await withBot()
    const limited = { ok: false, error_code: 429, description: 'Too Many Requests', parameters: { retry_after: 30 } }
    bot.answer('sendMessage', 429, limited)
    expect(await refusal(input)).toContain('Telegram allows no requests for 30 s')
    expect(await refusal(input)).toContain('No messages until')
    expect(bot.of('sendMessage')).toHaveLength(1)
  })
})

describe('the contact list', () => {
  const active = `# Contacts\n\n${ANN}\n${section('Bob', { contact_id: 'tg:5', last_interaction_at: '2025-01-01T00:00:00Z' })}\n## Broken\n\`\`\`yaml\ncontact_id: [\n\`\`\`\n`

  it('is shown, with what could not be parsed', async () => {
    const { call, refusal } = await rig(active, { config: { manage: true } })
    expect(await call('contacts_list', {})).toEqual({
      count: 2,
      contacts: [
        { name: 'Ann Lee', contact_id: 'tg:1001', kind: 'human', status: 'active' },
        {
          name: 'Bob',
          contact_id: 'tg:5',
          kind: 'human',
          status: 'active',
          last_interaction_at: '2025-01-01T00:00:00Z',
        },
      ],
      problems: ['contacts/ACTIVE.md: the block of "Broken" is not YAML'],
    })
    expect(await call('contacts_get', { contact_id: 'tg:1001' })).toEqual({
      name: 'Ann Lee',
      status: 'active',
      contact_id: 'tg:1001',
      kind: 'human',
      tg_private_chat_id: '1001',
    })
    expect(await refusal({ contact_id: 'x' }, 'contacts_get')).toContain('contact not found: x')
  })

  it('accepts new contacts and changes, and makes room by the oldest conversation', async () => {
    const { call, file } = await rig(active, { config: { manage: true, max_active: 2 } })
    const zoe = {
      contact_id: 'tg:@zoe',
      name: 'Zoe\n## Evil',
      tg_private_chat_id: '9007199254740993',
      persona_brief: 'Says: "yes" # always\n```\n## Not a heading',
      topic_preferences: ['tea: green', '- maps'],
    }
    expect(await call('contacts_upsert', { ...zoe, last_interaction_at: undefined })).toEqual({
      created: true,
      moved_to_inactive: ['tg:1001'],
      contact: {
        name: 'Zoe ## Evil',
        status: 'active',
        contact_id: 'tg:@zoe',
        kind: 'human',
        tg_private_chat_id: '9007199254740993',
        persona_brief: 'Says: "yes" # always ``` ## Not a heading',
        topic_preferences: ['tea: green', '- maps'],
      },
    })
    expect(file('INACTIVE.md')).toBe(`# Inactive contacts\n\n${ANN}`)
    expect(file('ACTIVE.md')).toContain('## Broken')
    expect(await call('contacts_upsert', { contact_id: 'tg:5', nickname: 'Bobby' })).toMatchObject({
      created: false,
      contact: { name: 'Bob', nickname: 'Bobby', last_interaction_at: '2025-01-01T00:00:00Z' },
    })
    // Back again, and another contact leaves: Zoe is new and has no conversation.
    expect(await call('contacts_upsert', { contact_id: 'tg:1001', status: 'active', name: 'Ann' })).toMatchObject({
      created: false,
      moved_to_inactive: ['tg:@zoe'],
      contact: { name: 'Ann', status: 'active', tg_private_chat_id: '1001' },
    })
    expect(
      (await call('contacts_list', { status: 'all' })).contacts.map((one: Answer) => [one.contact_id, one.status]),
    ).toEqual([
      ['tg:5', 'active'],
      ['tg:1001', 'active'],
      ['tg:@zoe', 'inactive'],
    ])
  })

  it('loses nothing when ten are added at once', async () => {
    const { call } = await rig('', { config: { manage: true } })
    await Promise.all(Array.from({ length: 10 }, (_, n) => call('contacts_upsert', { contact_id: `tg:${n + 1}` })))
    expect((await call('contacts_list', {})).count).toBe(10)
  })
})
