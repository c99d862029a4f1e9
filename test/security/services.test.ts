import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import type { Caller } from '../../src/core/caller.ts'
import { localCaller } from '../../src/core/caller.ts'
import { startApp, temporaryFolder } from '../app.ts'

vi.setConfig({ testTimeout: 60_000 })

const anything = `{ type: 'object', properties: {}, additionalProperties: true }`

/** A module called `id` that runs the code of a function with its services. */
const meddler = (id: string, more = ''): string => `
const AsyncFunction = (async () => undefined).constructor
export default {
  name: '${id}',
  description: 'Does what it is told with its services.',
  tools: {
    does: {
      description: 'Runs code on the services of this module.',
      effect: 'write',
      input: ${anything},
      run: async ({ code }, ctx) => ({ value: (await new AsyncFunction('services', 'ctx', code)(ctx.services, ctx)) ?? null }),
    },
  },
  ${more}
}`

async function app(modules: Readonly<Record<string, string>>, settings: object = {}) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  for (const [name, text] of Object.entries(modules)) writeFileSync(join(dir, 'modules', `${name}.mjs`), text)
  const made = await startApp({ exposure: { mode: 'direct' }, ...settings }, dir)
  const as = async (module: string, code: string, caller: Partial<Caller> = {}): Promise<unknown> => {
    const result = await made.app.call({
      name: `${module}.does`,
      input: { code },
      caller: { ...localCaller, ...caller },
    })
    return (result as { readonly value: { readonly value: unknown } }).value.value
  }
  return { ...made, dir, as }
}

test("a module's changes to a value from a store have no effect until it stores the value", async () => {
  const { as } = await app({ one: meddler('one'), two: meddler('two') })
  await as('one', `await services.kv.shared.set('list', [{ a: 1 }])`)
  await as('one', `await services.kv.shared.rpush('queue', { a: 1 }, { a: 2 })`)
  await as(
    'two',
    `(await services.kv.shared.get('list')).push('mine'); (await services.kv.shared.get('list'))[0].a = 'mine'`,
  )
  await as('two', `(await services.kv.shared.lrange('queue', 0, -1)).forEach((one) => { one.a = 'mine' })`)
  await as('two', `await services.kv.shared.update('list', (old) => { old.push('mine'); return { result: 0 } })`)
  await as(
    'two',
    `await services.kv.shared.update('list', (old) => { old.push('mine'); throw new Error('no') }).catch(() => 0)`,
  )
  expect(await as('one', `return await services.kv.shared.get('list')`)).toEqual([{ a: 1 }])
  expect(await as('one', `return await services.kv.shared.lrange('queue', 0, -1)`)).toEqual([{ a: 1 }, { a: 2 }])
  await as('one', `const list = await services.kv.get('own') ?? []; list.push(1); await services.kv.set('own', list)`)
  expect(await as('one', `return await services.kv.get('own')`)).toEqual([1])
})

test("a module's changes to messages and facts that it read have no effect on the stored ones", async () => {
  const { as } = await app({ one: meddler('one'), two: meddler('two') })
  await as('one', `await services.conversations.append('c', { role: 'user', content: 'said' })`)
  await as('one', `await services.messages.record({ text: 'said', channel_id: 'c' })`)
  await as('one', `await services.memory.graph.addEntity({ name: 'Ada', observations: ['known'] })`)
  await as('two', `(await services.conversations.get('c'))[0].content = 'mine'`)
  await as('two', `for (const one of await services.messages.recent('c')) one.text = 'mine'`)
  await as('two', `for (const one of await services.messages.search('said', 5, 'c')) one.text = 'mine'`)
  await as('two', `(await services.memory.graph.query('Ada')).entities[0].observations.push('mine')`)
  expect(await as('one', `return (await services.conversations.get('c'))[0].content`)).toBe('said')
  expect(await as('one', `return (await services.messages.recent('c'))[0].text`)).toBe('said')
  expect(await as('one', `return (await services.memory.graph.query('Ada')).entities[0].observations`)).toEqual([
    'known',
  ])
})

test('no key leaves the store of a module, and no principal or profile leaves its memory', async () => {
  const { as } = await app({ one: meddler('one'), two: meddler('two') }, { profiles: { work: {} } })
  await as('one', `await services.kv.set('secret', 'of one')`)
  const keys = [
    'secret',
    '../one/secret',
    'one:secret',
    ':shared',
    '__proto__',
    'one\\0secret',
    '../../kv',
    'default\\nsecret',
  ]
  for (const key of keys) expect(await as('two', `return await services.kv.get(${JSON.stringify(key)})`)).toBeNull()
  expect(await as('two', `return [...(await services.kv.keys('')), ...(await services.kv.shared.keys(''))]`)).toEqual(
    [],
  )
  expect(await as('one', `return await services.kv.get('secret')`, { profile: 'work' })).toBeNull()
  await as(
    'one',
    `await services.memory.graph.addEntity({ name: 'Ada' }); await services.memory.facts.add('Ada is here')`,
  )
  for (const caller of [
    { principal: 'eve' },
    { principal: 'local ' },
    { principal: 'local\\0' },
    { profile: 'work' },
  ]) {
    expect(await as('two', `return (await services.memory.graph.query('')).entities`, caller)).toEqual([])
    expect(await as('two', `return await services.memory.facts.list()`, caller)).toEqual([])
  }
})

test('listeners and adapters of a module are removed with it, even if it does not remove them', async () => {
  const hears = `start({ services }) {
    services.incoming.hear(async () => { await services.kv.shared.incr('heard') })
    services.adapters.add({ name: 'chat', send: async () => ({}), sendFile: async () => ({}), listServers: async () => [], client: {} })
  },`
  const { app: made, as } = await app({ ear: meddler('ear', hears), one: meddler('one') })
  const message = { platform: 'chat', channel_id: 'c', message_id: 'm', user_id: 'u', user_name: 'U', text: 'hi' }
  const receive = `await services.incoming.receive({ ...${JSON.stringify(message)}, timestamp: 1, reply_to_id: '', guild_id: '', attachments: [] })`
  for (let times = 1; times <= 3; times++) {
    await as('one', receive)
    expect(await as('one', `return await services.kv.shared.get('heard')`)).toBe(times)
    await as('one', `await services.registry.reload()`, { roles: ['admin'] })
    expect(made.failed()).toEqual([])
    expect(await as('one', `return services.adapters.list().map(({ name }) => name)`)).toEqual(['mcp', 'chat'])
  }
})
