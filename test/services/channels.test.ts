import { describe, expect, it } from 'vitest'
import { noOrigin } from '../../src/core/caller.ts'
import type { Attachment, CachedMessage, IncomingMessage } from '../../src/core/service-types.ts'
import { createConversations } from '../../src/services/conversations.ts'
import { type CompareTexts, createMessages } from '../../src/services/message-store.ts'
import { createDocuments, type Documents } from '../../src/state/document-store.ts'
import { temporaryFolder } from '../app.ts'
import { createManualClock } from '../clock.ts'

const DAY_MS = 24 * 60 * 60_000
const here = { ...noOrigin, platform: 'chat', channelId: 'c1', userId: 'u1', userName: 'Ann' }

function documentsOf<Value>() {
  const dir = temporaryFolder()
  const known = new Map<string, Documents<Value>>()
  return (profile: string): Documents<Value> => {
    const made =
      known.get(profile) ??
      createDocuments<Value>({ dir: `${dir}/${profile}`, isValue: Array.isArray, onBroken: () => undefined })
    known.set(profile, made)
    return made
  }
}

describe('recent messages', () => {
  const start = (likeness?: CompareTexts) => {
    const clock = createManualClock(100 * DAY_MS)
    const messages = createMessages({ documents: documentsOf(), clock, ...(likeness && { likeness }) })
    return { clock, messages: messages({ profile: 'default' }, here), elsewhere: messages({ profile: 'guild' }, here) }
  }

  it('are newest first, and expire after ninety days [CTX-11]', async () => {
    const { clock, messages, elsewhere } = start()
    for (const text of ['one', 'two', 'three']) {
      await messages.record({ text })
      clock.pass(1_000)
    }
    expect((await messages.recent('c1', 2)).map(({ text }) => text)).toEqual(['three', 'two'])
    expect(await messages.recent('c2')).toEqual([])
    expect(await elsewhere.recent('c1')).toEqual([])
    clock.pass(90 * DAY_MS - 2_500)
    expect((await messages.recent('c1')).map(({ text }) => text)).toEqual(['three', 'two'])
    clock.pass(DAY_MS)
    expect(await messages.recent('c1')).toEqual([])
    expect(await messages.search('three')).toEqual([])
  })

  it('have the common message format', async () => {
    const { messages } = start()
    const message = {
      user_id: 'u2',
      user_name: 'Bob',
      platform: 'chat',
      channel_id: 'c1',
      text: 'hello',
      timestamp: 100 * DAY_MS,
      message_id: 'm1',
      reply_to_id: 'm0',
    }
    const attachment: Attachment = {
      data: 'x',
      mimetype: 'text/plain',
      filename: 'x.txt',
      source_url: 'https://x.org/x',
    }
    const incoming: IncomingMessage = { ...message, guild_id: 'g1', attachments: [attachment] }
    await messages.record(incoming)
    const [cached]: readonly CachedMessage[] = await messages.recent('c1')
    expect(cached).toEqual(message)
    await messages.record({ ...message, text: 'hello again' })
    expect((await messages.recent('c1')).map(({ text }) => text)).toEqual(['hello again'])
    const own = await messages.record({ text: 'mine' })
    expect(own).toMatchObject({ user_id: 'u1', user_name: 'Ann', platform: 'chat', channel_id: 'c1', reply_to_id: '' })
  })

  it('are found by words, and by meaning if there is a model', async () => {
    const { messages } = start()
    for (const text of ['the server room is cold', 'lunch at noon', 'who broke the server?'])
      await messages.record({ text })
    expect((await messages.search('broken SERVER who', 1)).map(({ text }) => text)).toEqual(['who broke the server?'])
    expect(await messages.search('nothing like it')).toEqual([])
    const like = start((_query, texts) => texts.map((text) => (text.includes('noon') ? 0.9 : 0)))
    for (const text of ['lunch at noon', 'other']) await like.messages.record({ text })
    expect((await like.messages.search('meal')).map(({ text }) => text)).toEqual(['lunch at noon'])
  })
})

describe('channels of another platform', () => {
  it('are used if the platform is named, and differ from channels of the same name here', async () => {
    const clock = createManualClock(100 * DAY_MS)
    const messages = createMessages({ documents: documentsOf(), clock })({ profile: 'default' }, here)
    await messages.record({ text: 'the key is under the mat' })
    await messages.record({ text: 'the key is in the drawer', platform: 'other' })
    const texts = async (channel?: string, platform?: string) =>
      (await messages.search('key', 5, channel, platform)).map(({ text }) => text).sort()
    expect(await texts('c1')).toEqual(['the key is under the mat'])
    expect(await texts('c1', 'other')).toEqual(['the key is in the drawer'])
    expect(await texts(undefined, 'other')).toEqual(['the key is in the drawer'])
    expect(await texts()).toEqual(['the key is in the drawer', 'the key is under the mat'])

    const talk = createConversations({ documents: documentsOf(), clock })({ profile: 'default' }, here)
    await talk.append('c1', { role: 'user', content: 'here', message_id: 'm1' })
    await talk.append('c1', { role: 'user', content: 'there', message_id: 'm1' }, 'other')
    await talk.append('c1', { role: 'user', content: 'there too', message_id: 'm2' }, 'other')
    await talk.update('c1', 'm1', { content: 'over there' }, 'other')
    expect(await talk.delete('c1', 'm2', 'other')).toBe(true)
    const contents = async (platform?: string) => (await talk.get('c1', 10, platform)).map(({ content }) => content)
    expect([await contents(), await contents('other')]).toEqual([['here'], ['over there']])
    expect(await talk.clear('c1', 'other')).toBe(1)
    expect([await contents(), await contents('other')]).toEqual([['here'], []])
  })
})

describe('conversations', () => {
  const start = () => {
    const conversations = createConversations({ documents: documentsOf(), clock: createManualClock(5) })
    return { here: conversations({ profile: 'default' }, here), elsewhere: conversations({ profile: 'guild' }, here) }
  }

  it('keep the last hundred entries of a channel [CTX-16]', async () => {
    const { here: own, elsewhere } = start()
    for (let n = 0; n < 101; n++) await own.append('c1', { role: 'user', content: `say ${n}` })
    const entries = await own.get('c1')
    expect(entries).toHaveLength(100)
    expect(entries[0]?.content).toBe('say 1')
    expect((await own.get('c1', 2)).map(({ content }) => content)).toEqual(['say 99', 'say 100'])
    expect(await elsewhere.get('c1')).toEqual([])
  })

  it('can be changed, marked and cleared', async () => {
    const { here: own } = start()
    const { message_id } = await own.append('c1', { role: 'assistant', content: 'old' })
    await own.append('c1', { role: 'user', content: 'second', message_id: 'm2' })
    expect(await own.update('c1', message_id, { content: 'new' })).toMatchObject({ content: 'new', role: 'assistant' })
    expect(await own.update('c1', 'nobody', { content: 'x' })).toBeNull()
    expect(await own.delete('c1', 'm2')).toBe(true)
    expect(await own.delete('c1', 'm2')).toBe(false)
    expect((await own.get('c1')).map(({ content }) => content)).toEqual(['new'])
    expect(await own.clear('c1')).toBe(1)
    expect(await own.get('c1')).toEqual([])
    await expect(async () => own.append('', { role: 'user', content: 'x' })).rejects.toMatchObject({
      code: 'E_VALIDATION',
    })
  })
})
