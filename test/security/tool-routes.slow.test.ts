import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Answer } from '../app.ts'
import { fuzz } from '../fuzz.ts'
import { withoutChangingValues } from './call-routes.ts'
import {
  type Entry,
  isOwnerVisible,
  type Layer,
  listedId,
  listVisibleTools,
  type OracleRules,
  type OracleTool,
  type ProfileLayer,
  shortOwnerName,
  verdictForModules,
  verdictOn,
} from './oracle.ts'
import { type Attempt, type AttemptedCall, ask, BESIDE, ROUTES, request } from './tool-routes.ts'
import { type Connection, FIXED, type RoutesApp, startAppWithRoutes } from './tool-routes-app.ts'

/** The same seed in each attempt: a real failure repeats, and one that a busy machine caused does not. */
const ATTEMPTS = { retry: 1 }
const WAYS = 8

const OWNERS = ['ward', 'zoo', 'rec', 'shop', 'shelf']
const ANIMALS = ['lion', 'peek', 'heron_call', 'glance', 'put', 'gnu']
const PATTERNS = [
  ...['*', 'ward.*', 'ward.peek', 'PEEK', 'glance', 'ward.glance', '*.wipe', 'ward__put', 'drop_in', '*e*'],
  ...['rec.*', 'mcp_rec.*', 'mcp_rec.get_page', 'rec__keep', 'stash', 'hoard', 'rec.erase', 'get_page', '*_page'],
  ...['zoo.*', 'zoo.lion', 'lion', 'ZOO__GNU', 'zoo.heron_*', 'shop.*', 'api_shop.order', 'shop__close', 'browse'],
]
const ACTIONS = ['peek', 'put', 'wipe', 'glance', 'drop_in', 'lion', 'gnu', 'get_page', 'keep', 'hoard', '*', 'p*']
const SWITCHES = ['ward.peek', 'peek', 'ward__put', 'ward.glance', 'rec.keep', 'mcp_rec.get_page', 'zoo.lion', 'lion']

const some = <T>(values: readonly T[], maxLength = 2) =>
  fc.array(fc.constantFrom(...values), { minLength: 1, maxLength })
const perhaps = <T>(arb: fc.Arbitrary<T>, oneIn: number) =>
  fc.oneof({ weight: oneIn - 1, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: arb })
const rarely = <T>(arb: fc.Arbitrary<T>) => perhaps(arb, 4)
const effect = fc.constantFrom('read' as const, 'write' as const, 'destructive' as const)
/** Removes undefined members. */
const bare = <T extends object>(value: T) =>
  Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>
  }

const entry: fc.Arbitrary<Entry> = fc.oneof(
  fc.constantFrom(...PATTERNS),
  fc
    .record({
      tools: perhaps(some(PATTERNS), 2),
      module: perhaps(fc.constantFrom(...OWNERS, 'mcp_rec', '*'), 2),
      actions: rarely(some(ACTIONS)),
      effects: rarely(fc.array(effect, { minLength: 1, maxLength: 2 })),
      roles: rarely(fc.constant<string[]>(['ops'])),
      profiles: rarely(some(['default', 'guests', 'g*'], 1)),
    })
    .map(bare)
    .filter((one) => Object.keys(one).length > 0),
)
const entries = rarely(fc.array(entry, { minLength: 1, maxLength: 2 }))
const constraint = fc
  .record({ allowed_actions: rarely(some(ACTIONS, 4)), blocked_actions: rarely(some(ACTIONS)) })
  .map(bare)
const layer = (owners: readonly string[]): fc.Arbitrary<Layer> =>
  fc
    .record({
      default: rarely(fc.constantFrom('auto' as const, 'ask' as const, 'block' as const)),
      maxEffect: rarely(effect),
      deny: entries,
      ask: entries,
      allow: entries,
      hidden: entries,
      constraints: rarely(
        fc.dictionary(fc.constantFrom(...owners), constraint, { minKeys: 1, maxKeys: 2, noNullPrototype: true }),
      ),
      off: rarely(some(SWITCHES)),
    })
    .map(bare)
const said: fc.Arbitrary<OracleRules> = fc.record({
  file: layer(['ward', 'zoo', 'mcp_rec']),
  profiles: fc.record({
    guests: fc
      .tuple(
        layer(['ward', 'zoo', 'rec', 'shop']),
        fc.record({
          use: rarely(some(['ward', 'zoo', 'rec', 'mcp_rec', 'sh*', 'mcp', '*'], 4)),
          without: rarely(some(OWNERS)),
          permissions: rarely(fc.constant<string[]>(['ops'])),
        }),
      )
      .map(([one, more]): ProfileLayer => bare({ ...one, ...more })),
  }),
})

/** Random tools for each run; they replace only earlier ones, so that there is no cycle. */
const zoo: fc.Arbitrary<readonly OracleTool[]> = fc
  .uniqueArray(
    fc.record({
      action: fc.constantFrom(...ANIMALS),
      aliases: fc.uniqueArray(fc.constantFrom('glance', 'peek', 'ward.put', 'zoo.lion', 'drop_in', 'roar', 'big cat'), {
        maxLength: 2,
      }),
      effect,
      permission: rarely(fc.constant('ops')),
      replaces: perhaps(fc.constantFrom('ward.peek', 'ward.wipe', 'mcp_rec.keep', 'rec.get_page', 'zoo.none'), 5),
    }),
    { maxLength: 4, selector: ({ action }) => action },
  )
  .map((all) =>
    all.map((one): OracleTool => bare({ ...one, id: `zoo.${one.action}`, owner: 'zoo', wire: `zoo__${one.action}` })),
  )

/** Spellings of a tool name. The first is the exact one. */
const SPELLINGS: ReadonlyArray<(thing: OracleTool) => string> = [
  ({ id }) => id,
  ({ wire }) => wire,
  ({ id }) => ` ${id.toUpperCase()}\n`,
  ({ id }) => id.replace('.', '__'),
  ({ id }) => id.replace('.', '::'),
  ({ id }) => id.replace('.', '/'),
  ({ id }) => id.replace('.', '_'),
  ({ owner, action }) => `${shortOwnerName(owner)}.${action}`,
  ({ action }) => action,
  ({ aliases: [first], action }) => first ?? action.toUpperCase(),
  ({ owner, aliases: [first], action }) => `${owner}.${first ?? action}`,
  ({ id }) => id.replaceAll(/[^a-z]/g, ''),
  ({ id }) => `context_builder.${id}`,
  ({ id }) => id.replaceAll(/[a-z]/g, (letter) => String.fromCodePoint(letter.charCodeAt(0) + 0xfee0)),
  ({ id }) => id.replaceAll('e', '\u0435').replaceAll('a', '\u0430'),
  ({ id }) => id.replaceAll('k', '\u212a'),
  ({ id }) => [...id].join('\u200b'),
  ({ id }) => `${id}\u0000`,
  ({ id }) => `__proto__.${id}`,
  () => 'constructor',
]

const META = ['execute_tool', 'run_parallel', 'background_run', 'watch_start', 'schedule_once'] as const

const PLANNING: ReadonlySet<string> = new Set(['watch_start', 'schedule_once', 'schedule_cron'])

interface Visit {
  readonly route: string
  readonly way: number
  readonly target: number
  readonly spelling: number
  readonly within: readonly ('ward.relay' | 'ward.chain')[]
  readonly meta: (typeof META)[number] | undefined
  readonly odd: Readonly<Record<string, unknown>>
}
const visit: fc.Arbitrary<Visit> = fc.record({
  route: fc.constantFrom(...Object.keys(ROUTES)),
  way: fc.nat(WAYS - 1),
  target: fc.nat(99),
  spelling: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 2, arbitrary: fc.nat(SPELLINGS.length - 1) }),
  within: fc.oneof(
    { weight: 4, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(fc.constantFrom('ward.relay' as const, 'ward.chain' as const), { maxLength: 3 }) },
  ),
  meta: perhaps(fc.constantFrom(...META), 8),
  odd: fc.oneof(
    { weight: 4, arbitrary: fc.constant({}) },
    {
      weight: 1,
      arbitrary: fc.dictionary(fc.constantFrom('a', 'name', 'params', 'constructor'), fc.jsonValue({ maxDepth: 2 }), {
        noNullPrototype: true,
      }),
    },
  ),
})
const scenario = fc.record({
  first: said,
  next: perhaps(said, 2),
  zoo,
  mode: fc.constantFrom('direct' as const, 'discovery' as const),
  visits: fc.array(visit, { minLength: 1, maxLength: 4 }),
  beside: fc.record({
    route: fc.constantFrom(...Object.keys(BESIDE)),
    way: fc.nat(WAYS - 1),
    owner: fc.constantFrom('rec' as const, 'shelf' as const),
    thing: fc.constantFrom('page', 'linked', 'other'),
  }),
  reading: fc.constantFrom('peek', 'badge'),
  looker: fc.nat(WAYS - 1),
  looked: fc.array(fc.nat(99), { maxLength: 4 }),
})

/** The request of an attempt, wrapped accordingly. */
function wishOf({ spelling, within, meta, odd }: Visit, thing: OracleTool): AttemptedCall {
  let wish: AttemptedCall = { name: SPELLINGS[spelling]?.(thing) ?? '', args: odd }
  for (const name of within) wish = { name, args: { name: wish.name, params: wish.args } }
  if (meta === undefined) return wish
  const { name, args } = wish
  if (meta === 'run_parallel') return { name: meta, args: { actions: [{ name, params: args }] } }
  return { name: meta, args: { name, params: args, ...(meta === 'schedule_once' ? { when: 'in 1m' } : {}) } }
}

describe('a denied tool', ATTEMPTS, () => {
  it('runs on no route under any name; an allowed tool runs, and exactly the visible tools can be called', async () => {
    const world = await startAppWithRoutes()
    let done = 0
    const tally: Record<string, { tried: number; ran: number; refused: number }> = {}
    const count = (route: string): { tried: number; ran: number; refused: number } =>
      (tally[route] ??= { tried: 0, ran: 0, refused: 0 })

    await fc.assert(
      fc.asyncProperty(scenario, async (run) => {
        done++
        expect(world.takeRuns(), 'nothing runs by itself').toEqual([])
        await world.applyRules(run.first, run.zoo, run.mode)
        await looksAlike(world, wayOf(world, run.looker), run.first, run.looked)
        await besides(world, run.beside, run.first, count)
        await reads(world, wayOf(world, run.looker), run.reading, run.first, count)

        const planned: Array<{ visit: Visit; begun: Attempt; thing: OracleTool; way: Connection }> = []
        for (const visit of run.visits) {
          const { route, way: at } = visit
          const things = world.tools()
          const thing = things[visit.target % things.length] as OracleTool
          const way = wayOf(world, at)
          count(route).tried++
          const wish = wishOf(visit, thing)
          const begun = await (ROUTES[route] as (typeof ROUTES)[string])(world, way, wish)
          // Work that was scheduled by this call runs later, also if its answer was lost.
          if (begun.fire === undefined && (PLANNING.has(route) || PLANNING.has(visit.meta ?? '')))
            await forgetPlans(way, JSON.stringify(planned.map((one) => one.begun.answer)))
          const ran = world.takeRuns()
          checkRan(world, ran, way, run.first, visit, thing)
          if (ran.includes(thing.id)) count(route).ran++
          if (begun.fire === undefined) {
            expectReached(world, ran, visit, thing, way, [run.first], begun.answer)
            const verdict = verdictOn(thing, way.oracleCaller, run.first, world.tools())
            if (!ran.includes(thing.id)) count(route).refused++
            if (verdict === 'gone' && thing.owner === 'zoo' && !isAlsoAnAlias(thing, run.zoo))
              await looksUnknown(world, run.zoo, visit, thing, way, begun.answer)
          } else if (route === 'queued') {
            // All slots are taken: other calls wait until they are free.
            if (run.next) await world.applyRules(run.next, run.zoo, run.mode)
            await begun.fire()
            const later = world.takeRuns()
            checkRan(world, later, way, run.next ?? run.first, visit, thing)
            expectReached(world, later, visit, thing, way, [run.first, run.next ?? run.first], begun.answer)
            count(route)[later.includes(thing.id) ? 'ran' : 'refused']++
            if (run.next) await world.applyRules(run.first, run.zoo, run.mode)
          } else {
            planned.push({ visit, begun, thing, way })
          }
        }

        const now = run.next ?? run.first
        if (run.next && planned.length > 0) await world.applyRules(run.next, run.zoo, run.mode)
        for (const [at, { visit, begun, thing, way }] of planned.entries()) {
          await begun.fire?.()
          const ran = world.takeRuns()
          // While one attempt waits, others may wait as well.
          const others = planned.slice(at)
          for (const id of ran)
            expect(
              others.some((one) => mayRun(world, id, one.way, now, one.visit)),
              `${id} ran at its time for ${others.map((one) => one.way.name).join(' or ')}`,
            ).toBe(true)
          if (planned.length === 1) expectReached(world, ran, visit, thing, way, [run.first, now], begun.answer)
          count(visit.route)[ran.includes(thing.id) ? 'ran' : 'refused']++
        }
        for (const { visit, way } of planned) if (PLANNING.has(visit.meta ?? '')) await forgetPlans(way, '')
      }),
      {
        ...fuzz(200),
        ...(process.env['PEGBOARD_FUZZ_PATH'] === undefined ? {} : { path: process.env['PEGBOARD_FUZZ_PATH'] }),
      },
    )
    if (process.env['PEGBOARD_FUZZ_TALLY']) process.stderr.write(`${JSON.stringify(tally, null, 1)}\n`)
    expect(done).toBeGreaterThan(0)
    // A short run need not cover every route.
    if (done >= 200)
      for (const route of [...Object.keys(ROUTES), ...Object.keys(BESIDE), 'readings']) {
        expect(count(route).ran, `${route} lets through what is allowed`).toBeGreaterThan(0)
        expect(count(route).refused, `${route} was tried with what is denied`).toBeGreaterThan(0)
      }
  }, 1_800_000)
})

/** @param kept names of the scheduled work of this run that stays */
async function forgetPlans({ client }: Connection, kept: string): Promise<void> {
  for (const { watcher_id } of (await ask(client, 'watch_list', {})).structuredContent.watchers)
    if (!kept.includes(watcher_id)) await ask(client, 'watch_stop', { watcher_id })
  for (const { job_id } of (await ask(client, 'schedule_list', {})).structuredContent.jobs)
    if (!kept.includes(job_id)) await ask(client, 'schedule_cancel', { job_id })
}

const wayOf = ({ connections }: RoutesApp, at: number): Connection => connections[at % connections.length] as Connection

/** Whether this caller may run a tool in this attempt. */
function mayRun(
  world: RoutesApp,
  id: string,
  { oracleCaller }: Connection,
  now: OracleRules,
  { within }: Visit,
): boolean {
  const thing = world.tools().find((one) => one.id === id)
  if (!thing) return false
  if (thing.internal) return within.length > 0 && verdictForModules(thing, oracleCaller, now) === 'runs'
  if (!listVisibleTools(world.tools(), oracleCaller, now).includes(thing)) return false
  return verdictOn(thing, oracleCaller, now, world.tools()) === 'runs'
}

function checkRan(
  world: RoutesApp,
  ran: readonly string[],
  way: Connection,
  now: OracleRules,
  visit: Visit,
  thing: OracleTool,
): void {
  for (const id of ran) expect(mayRun(world, id, way, now, visit), `${id} ran for ${way.name}`).toBe(true)
  // Calls from a read-only tool only reach read-only tools.
  const chained = visit.within.indexOf('ward.chain')
  if (chained !== -1 && ran.includes('ward.chain'))
    for (const id of ran.filter((one) => !one.startsWith('ward.')))
      expect(world.tools().find((one) => one.id === id)?.effect, `${id} ran for a tool that reads`).toBe('read')
  if (visit.route.startsWith('runConversation') && thing.id !== 'ward.wipe' && visit.spelling === 0)
    expect(ran, 'a call in a result is text').not.toContain('ward.wipe')
}

/** An allowed tool, called by its own name without a meta-tool, runs. */
function expectReached(
  world: RoutesApp,
  ran: readonly string[],
  { spelling, within, meta, odd, route }: Visit,
  thing: OracleTool,
  way: Connection,
  all: readonly OracleRules[],
  answer: unknown,
): void {
  if (spelling !== 0 || meta !== undefined || within.length > 2) return
  const needed = [thing, ...FIXED.filter(({ id }) => (within as readonly string[]).includes(id))]
  const runs = (one: OracleTool, now: OracleRules): boolean =>
    listVisibleTools(world.tools(), way.oracleCaller, now).includes(one) &&
    verdictOn(one, way.oracleCaller, now, world.tools()) === 'runs'
  if (!all.every((now) => needed.every((one) => runs(one, now)))) return
  if (within.includes('ward.chain') && (thing.effect !== 'read' || thing.unverifiedRead)) return
  // Their schema accepts no arguments.
  if (Object.keys(odd).length > 0) return
  // A session keeps the exposure that it began with.
  if (route === 'run_code' && way.era === 'legacy') return
  // It runs only as a task.
  if (route === 'tasks/result' && thing.id !== 'ward.slow') return
  // They require their own arguments.
  if (['ward.relay', 'ward.chain', 'ward.courier'].includes(thing.id)) return
  expect(ran, `${thing.id} through ${route} by ${way.name}: ${JSON.stringify(answer)}`).toContain(thing.id)
}

/** The name of a hidden tool never means another one; if the tool does not exist, the alias of another one counts. */
const isAlsoAnAlias = (thing: OracleTool, zoo: readonly OracleTool[]): boolean =>
  zoo.some((other) => other !== thing && other.aliases.some((alias) => [thing.action, thing.id].includes(alias)))

/** Earlier background calls of the same caller add notices to whichever answer comes next. */
const withoutNotices = (answer: Answer): Answer =>
  JSON.parse(JSON.stringify(answer), (_key, value) =>
    Array.isArray(value) ? value.filter((one) => one?._meta?.['pegboard/notice'] !== true) : value,
  )

/** The same attempt without such a tool. */
async function looksUnknown(
  world: RoutesApp,
  zoo: readonly OracleTool[],
  visit: Visit,
  thing: OracleTool,
  way: Connection,
  answer: unknown,
): Promise<void> {
  world.setRandomTools(zoo.filter((one) => one !== thing))
  const { answer: other } = await (ROUTES[visit.route] as (typeof ROUTES)[string])(world, way, wishOf(visit, thing))
  world.setRandomTools(zoo)
  world.takeRuns()
  expect(withoutChangingValues(withoutNotices(answer)), `${thing.id} through ${visit.route} by ${way.name}`).toBe(
    withoutChangingValues(withoutNotices(other)),
  )
}

const ours = ({ id }: { readonly id: string }): boolean => /^(ward|zoo|mcp_rec|api_shop)\./.test(id)

/** Compares lists, counts and schemas of one client with the tools that it can call. */
async function looksAlike(
  world: RoutesApp,
  way: Connection,
  now: OracleRules,
  looked: readonly number[],
): Promise<void> {
  const { client, oracleCaller, name } = way
  const visible = listVisibleTools(world.tools(), oracleCaller, now)
  const shown = visible.map((thing) => listedId(thing, oracleCaller, now)).sort()
  const all = (await ask(client, 'list_all_tools', {})).structuredContent
  expect(
    all.tools
      .map((one: Answer) => ({ id: one.name }))
      .filter(ours)
      .map(({ id }: Answer) => id)
      .sort(),
    name,
  ).toEqual(shown)

  const counts = (await ask(client, 'list_categories', {})).structuredContent.categories as Answer[]
  for (const owner of ['ward', 'zoo', 'mcp_rec', 'api_shop', 'mcp_shelf']) {
    const expected = visible.filter((thing) => thing.owner === owner).length
    const there = expected > 0 || (owner.startsWith('mcp_') && isOwnerVisible(owner, world.tools(), oracleCaller, now))
    expect(counts.find(({ id }) => id === owner)?.tool_count, `${owner} for ${name}`).toBe(there ? expected : undefined)
    const page = await ask(client, 'browse_category', { category: owner, page_size: 100 })
    expect(page.isError === true ? undefined : page.structuredContent.total_tools, `${owner} for ${name}`).toBe(
      there ? expected : undefined,
    )
  }
  const things = world.tools()
  for (const thing of new Set(looked.map((at) => things[at % things.length] as OracleTool))) {
    const { structuredContent: told } = await ask(client, 'get_tool', { name: thing.id })
    const found = await ask(client, 'search_tools', { query: thing.action, max_results: 20 })
    for (const hit of found.structuredContent.tools as Answer[])
      if (ours({ id: hit.name })) expect(shown, `found by ${name}`).toContain(hit.name)
    if (visible.includes(thing)) expect(told.name, name).toBe(listedId(thing, oracleCaller, now))
    else if (verdictOn(thing, oracleCaller, now, world.tools()) === 'gone' && told.name === undefined)
      expect(told.error.code, `${thing.id} for ${name}`).toBe('E_NOT_FOUND')
    else if (told.name !== undefined) expect(shown, `${thing.id} for ${name}`).toContain(told.name)
  }
  // With raw requests, because a client caches lists.
  const { tools } = await request(client, 'tools/list', {})
  const listed = (tools as Answer[])
    .map((one) => one.name)
    .filter((one) => /^(ward|zoo|rec|mcp_rec|shop|api_shop)__/.test(one))
  // A full list contains all tools; other lists contain none of them.
  if (listed.length > 0) expect(listed).toHaveLength(shown.length)
  const uris = (await request(client, 'resources/list', {})).resources.map(({ uri }: Answer) => uri)
  for (const owner of ['rec', 'shelf'])
    expect(uris.includes(`${owner}://page`), `${owner} for ${name}`).toBe(
      isOwnerVisible(`mcp_${owner}`, world.tools(), oracleCaller, now),
    )
  const wards = visible.filter(({ owner }) => owner === 'ward')
  for (const thing of ['peek', 'badge'])
    expect(uris.includes(`ward://${thing}`), `ward://${thing} for ${name}`).toBe(
      wards.some(({ action }) => action === thing),
    )
  const prompts = (await request(client, 'prompts/list', {})).prompts.map((one: Answer) => one.name)
  expect(prompts.includes('rec__hello'), name).toBe(isOwnerVisible('mcp_rec', world.tools(), oracleCaller, now))
  const told = JSON.stringify(await client.getPrompt({ name: 'system_prompt' }))
  expect(told.includes('the ward speaks'), name).toBe(wards.length > 0)
}

type Count = (route: string) => { tried: number; ran: number; refused: number }

/** Resources and prompts of servers are visible with their owner. */
async function besides(
  world: RoutesApp,
  { route, way: at, owner, thing }: { route: string; way: number; owner: 'rec' | 'shelf'; thing: string },
  now: OracleRules,
  count: Count,
): Promise<void> {
  const way = wayOf(world, at)
  count(route).tried++
  const answer = await BESIDE[route]?.(way, owner, thing)
  const reached = world.takeRuns().filter((one) => /^(rec|shelf) /.test(one))
  count(route)[reached.length > 0 ? 'ran' : 'refused']++
  if (reached.length > 0)
    expect(isOwnerVisible(`mcp_${owner}`, world.tools(), way.oracleCaller, now), `${reached} for ${way.name}`).toBe(
      true,
    )
  else if (
    route === 'resources/read' &&
    thing === 'page' &&
    isOwnerVisible(`mcp_${owner}`, world.tools(), way.oracleCaller, now)
  )
    expect(answer, `${owner}://page for ${way.name}`).toBe('reached')
}

/** A resource that is the result of a tool is visible with the tool. */
async function reads(world: RoutesApp, way: Connection, tool: string, now: OracleRules, count: Count): Promise<void> {
  const id = `ward.${tool}`
  const thing = FIXED.find((one) => one.id === id) as OracleTool
  const answer = await way.client.readResource({ uri: `ward://${tool}` }).catch((error: unknown) => error)
  const ran = world.takeRuns()
  const runs =
    listVisibleTools(world.tools(), way.oracleCaller, now).includes(thing) &&
    verdictOn(thing, way.oracleCaller, now, world.tools()) === 'runs'
  expect(ran, `ward://${tool} for ${way.name}: ${String(answer)}`).toEqual(runs ? [id] : [])
  count('readings')[runs ? 'ran' : 'refused']++
}
