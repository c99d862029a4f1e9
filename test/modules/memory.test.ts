import { randomUUID } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import memory from '../../modules/memory/index.ts'
import { type Caller, localCaller, noOrigin } from '../../src/core/caller.ts'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { keepsTheContract } from '../contract/module.ts'
import { redisUrl } from '../redis.ts'

keepsTheContract(memory)

type Json = Record<string, unknown>

const ALL = ['facts', 'tasks', 'graph', 'threadweave']

async function open(config: Json = {}, more: Json = {}, dir = temporaryFolder()) {
  const { app } = await startApp(
    { modules: { memory: { config: { enabled: true, parts: ALL, ...config } } }, ...more },
    dir,
  )
  const call = async (action: string, input: unknown = {}, caller: Caller = localCaller): Promise<Answer> =>
    ((await app.call({ name: `memory.${action}`, input, caller })) as Answer).value
  return { app, dir, call }
}
const who = (principal: string, more: Partial<Caller> = {}): Caller => ({ ...localCaller, principal, ...more })

describe('the module memory', () => {
  it('is disabled by default, part by part, and names the setting', async () => {
    const { app } = await startApp({})
    const { hidden } = app.view(localCaller)
    expect(hidden.get('memory.remember')?.reason).toBe('set modules.memory.config.enabled to true')
    const some = await startApp({ modules: { memory: { config: { enabled: true, parts: ['facts'] } } } })
    const view = some.app.view(localCaller)
    expect(view.tools.flatMap(({ tool }) => (tool.module === 'memory' ? [tool.id] : []))).toEqual([
      'memory.remember',
      'memory.recall',
      'memory.forget',
      'memory.get_facts',
    ])
    expect(view.hidden.get('memory.kg_query')?.reason).toBe('add "graph" to modules.memory.config.parts')
    const off = await startApp({ modules: { memory: { config: { enabled: true } } }, services: { memory: false } })
    expect(off.app.view(localCaller).hidden.get('memory.kg_query')?.reason).toBe('set services.memory to true')
  })
})

describe('facts', () => {
  it('are kept across sessions, found by words, and forgotten', async () => {
    const dir = temporaryFolder()
    const { app, call } = await open({}, {}, dir)
    const first = await call('remember', { content: 'Ada prefers answers in French.' })
    expect(first).toEqual({
      fact_id: expect.any(String),
      content: 'Ada prefers answers in French.',
      since: expect.any(String),
      total: 1,
    })
    expect(await call('remember', { content: 'Ada prefers answers in French.' })).toMatchObject({ total: 1 })
    await call('remember', { content: 'The French office is closed.' })
    await call('remember', { content: 'Bob plays chess.' })
    await app.stop()
    const later = await open({}, {}, dir)
    const contents = async (input: Json) =>
      (await later.call('recall', input)).facts.map(({ content }: Answer) => content)
    expect(await contents({ query: 'French answers' })).toEqual([
      'Ada prefers answers in French.',
      'The French office is closed.',
    ])
    expect(await contents({ limit: 1 })).toEqual(['Bob plays chess.'])
    expect(await contents({ query: 'football' })).toEqual([])
    expect((await later.call('get_facts')).total).toBe(3)
    expect(await later.call('forget', { fact_id: first.fact_id })).toEqual({ fact_id: first.fact_id, forgotten: true })
    await expect(later.call('forget', { fact_id: first.fact_id })).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
    expect((await later.call('get_facts')).total).toBe(2)
    for (const content of ['', ' ', 'x'.repeat(2_001)])
      await expect(later.call('remember', { content })).rejects.toMatchObject({ code: 'E_VALIDATION' })
  })

  it('are shared with the scheduler, and private to their principal', async () => {
    const { app, call } = await open({}, { execution: { watchers: true, scheduler: true } })
    const client = await connectTo(app)
    await client.callTool({ name: 'remember', arguments: { content: 'From the scheduler.' } })
    expect((await call('get_facts')).facts).toMatchObject([{ content: 'From the scheduler.' }])
    await call('remember', { content: 'From the module.' })
    const { facts } = answerOf(await client.callTool({ name: 'remember', arguments: {} }))
    expect(facts.map(({ content }: Answer) => content)).toEqual(['From the scheduler.', 'From the module.'])
    expect((await call('get_facts', {}, who('ada'))).total).toBe(0)
    expect((await call('get_facts', {}, who('local', { profile: 'default' }))).total).toBe(2)
  })
})

describe('goal and tasks', () => {
  it('are kept until they are done, and shown by recall', async () => {
    const { call } = await open()
    expect(await call('set_goal', { goal: 'Ship version 2.' })).toEqual({ goal: 'Ship version 2.', before: null })
    const task = await call('task_create', { subject: 'Changelog', description: 'Since 1.4.' })
    expect(task).toEqual({
      task_id: expect.any(String),
      subject: 'Changelog',
      description: 'Since 1.4.',
      status: 'pending',
    })
    const { task_id } = await call('task_create', { subject: 'Release' })
    expect(await call('task_update', { task_id, status: 'in_progress' })).toMatchObject({ status: 'in_progress' })
    expect(await call('recall')).toMatchObject({
      goal: 'Ship version 2.',
      tasks: [task, { task_id, subject: 'Release', status: 'in_progress' }],
    })
    await call('task_update', { task_id, status: 'done' })
    expect((await call('recall')).tasks).toEqual([task])
    expect(await call('task_update', { task_id })).toMatchObject({ status: 'done' })
    expect(await call('set_goal', { goal: '' })).toEqual({ goal: null, before: 'Ship version 2.' })
    expect(await call('recall', {}, who('ada'))).toMatchObject({ goal: null, tasks: [] })
    await expect(call('task_update', { task_id, status: 'done' }, who('ada'))).rejects.toMatchObject({
      code: 'E_NOT_FOUND',
    })
    await expect(call('task_update', { task_id, status: 'lost' })).rejects.toMatchObject({ code: 'E_VALIDATION' })
  })

  it('are limited to two hundred; a finished one makes room', async () => {
    const { call } = await open()
    const ids: string[] = []
    for (let index = 0; index < 200; index++)
      ids.push((await call('task_create', { subject: `Task ${index}` })).task_id)
    await expect(call('task_create', { subject: 'One more' })).rejects.toMatchObject({ code: 'E_TOO_LARGE' })
    await call('task_update', { task_id: ids[100], status: 'cancelled' })
    await call('task_create', { subject: 'One more' })
    await expect(call('task_update', { task_id: ids[100] })).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
  })
})

describe('the knowledge graph', () => {
  it('can be extended and queried [CTX-12]', async () => {
    const { call } = await open()
    await call('kg_add_entity', { name: 'Ada', type: 'person', observations: ['Lives in Bergen.'] })
    expect(await call('kg_add_relation', { from: 'Ada', relation: 'works_on', to: 'Pegboard' })).toEqual({
      from: 'Ada',
      relation: 'works_on',
      to: 'Pegboard',
      added: true,
    })
    expect(await call('kg_query', { query: 'bergen' })).toEqual({
      entities: [{ name: 'Ada', type: 'person', observations: ['Lives in Bergen.'] }],
      relations: [{ from: 'Ada', relation: 'works_on', to: 'Pegboard' }],
    })
    expect((await call('kg_query', { entity: 'pegboard' })).entities.map(({ name }: Answer) => name)).toEqual([
      'Ada',
      'Pegboard',
    ])
    expect((await call('kg_query', { query: 'bergen' }, who('bob'))).entities).toEqual([])
  })

  it('is null for tools if disabled, and usable if enabled [CTX-12]', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(
      join(dir, 'modules/flat.mjs'),
      `export const name = 'flat'
      export const description = 'Uses the graph where there is one.'
      export const run = async (_input, ctx) => {
        if (ctx.kg_manager === null) return { graph: null, weave: ctx.threadweave }
        await ctx.kg_manager.add_entity({ name: 'Flat' })
        return { graph: await ctx.kg_manager.query('flat'), weave: Object.keys(ctx.threadweave) }
      }`,
    )
    const run = async (services: Json): Promise<Answer> => {
      const { app } = await open({}, { services }, dir)
      const { value } = (await app.call({ name: 'flat.flat', input: {}, caller: localCaller })) as Answer
      await app.stop()
      return value
    }
    expect(await run({ memory: false })).toEqual({ graph: null, weave: null })
    expect(await run({})).toEqual({
      graph: { entities: [{ name: 'Flat', type: '', observations: [] }], relations: [] },
      weave: ['vault_dna', 'read_dna', 'weave', 'unweave', 'shadow_get', 'shadow_set'],
    })
  })
})

describe.skipIf(redisUrl === undefined)('several servers with one Redis', () => {
  it('share their knowledge, and lose nothing that both add', async () => {
    const state = { url: String(redisUrl), prefix: `pegboard-test-${randomUUID()}` }
    const [one, other] = [await open({}, { state }), await open({}, { state })]
    const names = Array.from({ length: 10 }, (_, index) => `Thing ${index}`)
    await Promise.all(names.map((name, index) => (index % 2 ? one : other).call('kg_add_entity', { name })))
    expect((await one.call('kg_query', { limit: 50 })).entities).toHaveLength(10)
    await one.call('remember', { content: 'The release is on Friday.' })
    const { task_id } = await one.call('task_create', { subject: 'Release' })
    expect(await other.call('recall', { query: 'release' })).toMatchObject({
      facts: [{ content: 'The release is on Friday.' }],
      tasks: [{ task_id, subject: 'Release' }],
    })
  })
})

describe('threadweave', () => {
  const at = (channelId: string, guildId: string, categoryId?: string): Caller =>
    who('ada', {
      origin: {
        ...noOrigin,
        platform: 'discord',
        channelId,
        guildId,
        userId: 'u1',
        ...(categoryId === undefined ? {} : { categoryId }),
      },
    })
  const admin = (caller: Caller): Caller => ({ ...caller, principal: 'root', roles: ['admin'] })

  it('is visible in all channels of its guild, and in no other guild [CTX-14]', async () => {
    const { call } = await open()
    await call('vault_dna', { title: 'House rules', content: 'Be kind.' }, admin(at('c1', 'g1')))
    expect(await call('weave', { dna_id: 'House rules', scope: 'guild' }, admin(at('c1', 'g1')))).toEqual({
      dna_id: 'House rules',
      scope: 'guild',
      scope_id: 'g1',
      woven: true,
    })
    const seen = async (caller: Caller) =>
      (await call('read_dna', {}, caller)).strands.map(({ title, content }: Answer) => [title, content])
    expect(await seen(at('c1', 'g1'))).toEqual([['House rules', 'Be kind.']])
    expect(await seen(at('c2', 'g1'))).toEqual([['House rules', 'Be kind.']])
    expect(await seen(at('c3', 'g2'))).toEqual([])
    await expect(call('read_dna', { dna_id: 'House rules' }, at('c3', 'g2'))).rejects.toMatchObject({
      code: 'E_NOT_FOUND',
    })
    await call('unweave', { dna_id: 'House rules', scope: 'guild' }, admin(at('c1', 'g1')))
    expect(await seen(at('c1', 'g1'))).toEqual([])
  })

  it('is visible to admins only where it is attached; they can attach it from anywhere', async () => {
    const { call } = await open({ parts: ['threadweave'] }, { profiles: { default: { flags: { admin: true } } } })
    const titles = async (caller: Caller) =>
      (await call('read_dna', {}, caller)).strands.map(({ title }: Answer) => title)
    await call('vault_dna', { title: 'Staff rota', content: 'Ada, Bob.' }, at('c1', 'g1'))
    await call('weave', { dna_id: 'Staff rota', scope: 'guild' }, at('c1', 'g1'))
    for (const elsewhere of [at('c3', 'g2'), admin(at('c3', 'g2')), localCaller]) {
      expect(await titles(elsewhere)).toEqual([])
      await expect(call('read_dna', { dna_id: 'Staff rota' }, elsewhere)).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
    }
    expect(await titles(admin(at('c2', 'g1')))).toEqual(['Staff rota'])
    await expect(call('weave', { dna_id: 'rota' }, at('c3', 'g2'))).rejects.toMatchObject({
      code: 'E_NOT_FOUND',
      hint: 'The vault has: Staff rota.',
    })
    await call('weave', { dna_id: 'Staff rota', scope_id: 'c3' }, localCaller)
    expect(await titles(at('c3', 'g2'))).toEqual(['Staff rota'])
  })

  it('is visible in one channel, or in the channels of a category [CTX-14]', async () => {
    const { call } = await open()
    const root = admin(at('c1', 'g1', 'k1'))
    for (const [title, scope] of [
      ['here', 'channel'],
      ['around', 'category'],
    ]) {
      await call('vault_dna', { title, content: 'x' }, root)
      await call('weave', { dna_id: title, scope }, root)
    }
    const titles = async (caller: Caller) =>
      (await call('read_dna', {}, caller)).strands.map(({ title }: Answer) => title)
    expect(await titles(at('c1', 'g1', 'k1'))).toEqual(['here', 'around'])
    expect(await titles(at('c2', 'g1', 'k1'))).toEqual(['around'])
    expect(await titles(at('c2', 'g1', 'k2'))).toEqual([])
    await expect(call('weave', { dna_id: 'here', scope: 'category' }, admin(at('c1', 'g1')))).rejects.toMatchObject({
      message: 'The category is unknown.',
    })
  })

  it('has no writing tools for others; notes can be read by the user they are about [CTX-14]', async () => {
    const { app, call } = await open()
    const ada = at('c1', 'g1')
    const { hidden } = app.view(ada)
    for (const action of ['vault_dna', 'weave', 'unweave', 'shadow_set'])
      expect(hidden.get(`memory.${action}`)?.reason).toBe('for admins: the flag "admin" of the profile')
    await expect(call('vault_dna', { title: 'a', content: 'b' }, ada)).rejects.toMatchObject({ code: 'E_TOOL_HIDDEN' })
    await call('shadow_set', { user_id: 'u1', content: 'Prefers short answers.' }, admin(ada))
    expect(await call('shadow_get', {}, ada)).toEqual({ user_id: 'u1', content: 'Prefers short answers.' })
    await expect(call('shadow_get', { user_id: 'u2' }, ada)).rejects.toMatchObject({ code: 'E_DENIED_BY_POLICY' })
  })
})

describe('an assistant asked again a week later', () => {
  it('knows what was agreed, and who is who', async () => {
    const dir = temporaryFolder()
    const session = async () => {
      const { app } = await open({ parts: ['facts', 'tasks', 'graph'] }, { exposure: { mode: 'discovery' } }, dir)
      const client = await connectTo(app, 'modern')
      const run = async (name: string, params: Json) =>
        answerOf(await client.callTool({ name: 'execute_tool', arguments: { name: `memory.${name}`, params } })).data
      return { app, client, run }
    }
    const first = await session()
    const { tools } = answerOf(
      await first.client.callTool({ name: 'search_tools', arguments: { query: 'keep in mind what the user prefers' } }),
    )
    expect(tools[0].name).toBe('memory.remember')
    await first.run('remember', { content: 'The user wants British spelling.' })
    await first.run('set_goal', { goal: 'Publish the handbook.' })
    const { task_id } = await first.run('task_create', { subject: 'Ask Cleo for the cover' })
    await first.run('kg_add_relation', { from: 'Cleo', relation: 'draws', to: 'handbook cover' })
    await first.client.close()
    await first.app.stop()

    const second = await session()
    expect(await second.run('recall', { query: 'spelling' })).toMatchObject({
      facts: [{ content: 'The user wants British spelling.' }],
      goal: 'Publish the handbook.',
      tasks: [{ task_id, subject: 'Ask Cleo for the cover', status: 'pending' }],
    })
    expect((await second.run('kg_query', { entity: 'Cleo' })).relations).toEqual([
      { from: 'Cleo', relation: 'draws', to: 'handbook cover' },
    ])
    expect(await second.run('task_update', { task_id, status: 'done' })).toMatchObject({ status: 'done' })
    expect((await second.run('recall', {})).tasks).toEqual([])
  })
})
