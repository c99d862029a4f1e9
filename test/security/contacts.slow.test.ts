import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { serve } from '../modules/web-servers.ts'
import { startAppWithClient } from './app-with-client.ts'

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
