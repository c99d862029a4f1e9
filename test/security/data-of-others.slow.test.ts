import { expect, test } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { answerOf } from '../app.ts'
import { ANN, connectWithToken, EVE, startHttpApp, TOKENS_OF_TWO as tokens } from './http-app.ts'

type Who = Awaited<ReturnType<typeof connectWithToken>>
const call = (who: Who, name: string, input: object = {}) => who.callTool({ name, arguments: { ...input } })

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
