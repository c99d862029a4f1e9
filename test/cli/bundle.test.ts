import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import { localCaller, noServices, type Services } from '../../src/core/context.ts'
import type { ToolModule } from '../../src/core/module.ts'
import { defaultProfile } from '../../src/core/profile.ts'
import { toSchema } from '../../src/core/schema.ts'
import { cli, place, talkTo } from '../process.ts'
import { listening } from '../upstream/oauth/rig.ts'

const dist = join(dirname(cli), '..')
/** Without the ends of lines that the build has put in, within strings too. */
const packs = new Map(
  ['start', 'later', 'config', 'modules', 'zod', 'rest'].map((name) => [
    name,
    readFileSync(join(dist, `${name}.cjs`), 'latin1').replaceAll(/\\?\n/g, ''),
  ]),
)
const OURS = /^(start|later|config|modules|zod|rest):/

it('what the scripts load from outside themselves is there', async () => {
  const names = new Set(
    [...packs.values()].flatMap((text) =>
      [...text.matchAll(/bundleImport\("([^"]+)"\)/g)].map(([, name]) => String(name)),
    ),
  )
  const foreign = [...names].filter((name) => !OURS.test(name)).sort()
  expect(foreign).toEqual([
    './loader/amaro.cjs',
    '@napi-rs/keyring',
    '@opentelemetry/api',
    '@opentelemetry/exporter-metrics-otlp-http',
    '@opentelemetry/exporter-trace-otlp-http',
    '@opentelemetry/resources',
    '@opentelemetry/sdk-metrics',
    '@opentelemetry/sdk-trace-base',
    'bullmq',
    'ioredis',
    'mysql2',
    'node:crypto',
    'node:dns/promises',
    'node:perf_hooks',
    'pg',
    'undici',
  ])
  const require = createRequire(join(dist, 'start.cjs'))
  // Whoever keeps the state in Redis, asks such a database, or exports what is observed, installs these.
  for (const name of foreign.filter((one) => !/^(?:bullmq|ioredis|mysql2|pg|@opentelemetry\/.*)$/.test(one))) {
    const at = name.startsWith('node:') ? name : pathToFileURL(require.resolve(name)).href
    expect(Object.keys(await import(at)).length).toBeGreaterThan(0)
  }
})

it('what the scripts ask of each other is there, and no file is in two of them', () => {
  const asked = [...packs.values()].flatMap((text) =>
    [...text.matchAll(/"((?:start|later|config|modules|zod|rest):[^"]+)"/g)].map(([, id]) => String(id)),
  )
  expect(asked).toContain('rest:src/cli/list.ts')
  expect(asked).toContain('start:src/core/errors.ts')
  expect(asked).toContain('later:src/search/index.ts')
  for (const id of new Set(asked)) {
    const [pack = '', file = ''] = id.split(/:(.*)/)
    expect(packs.get(pack), id).toContain(`"${file}":()=>`)
    for (const [other, text] of packs) if (other !== pack) expect(text, `${id} in ${other}`).not.toContain(`"${file}"(`)
  }
})

const sources = join(import.meta.dirname, '../../modules')
const NAMES = readdirSync(sources)
  .filter((name) => !name.startsWith('_'))
  .map((name) => name.replace('.ts', ''))

/** A bundled module as its sources and as the build have it, whose code is not read yet. */
async function bothOf(name: string): Promise<{ readonly module: ToolModule; readonly built: ToolModule }> {
  const source = name === 'hello' ? 'hello.ts' : `${name}/index.ts`
  const files = [join(sources, source), join(dist, `modules/${name}.js`)].map((file) => pathToFileURL(file).href)
  const [module, built] = (await Promise.all(files.map((url) => import(url)))) as { readonly default: ToolModule }[]
  return { module: module?.default as ToolModule, built: built?.default as ToolModule }
}

it.each(NAMES)('%s says in the build what it says in its sources, before its code is read', async (name) => {
  const { module, built } = await bothOf(name)
  const plain = (given: object): unknown =>
    JSON.parse(JSON.stringify({ ...given, tools: undefined, config: undefined, input: undefined, output: undefined }))
  const functions = (given: object): string[] =>
    Object.entries(given).flatMap(([key, value]) =>
      typeof value === 'function' && !/put$|config/.test(key) ? [key] : [],
    )
  expect(plain(built)).toEqual(plain(module))
  expect(functions(built).sort()).toEqual(functions(module).sort())
  const parsed = toSchema(module.config ?? {}).parse({})
  const config = parsed.ok ? parsed.value : {}
  const list = (...names: string[]) => ({ list: () => names.map((one) => ({ name: one })) })
  const there = { adapters: list('mcp'), processes: {} }
  const worlds = [
    { ...there, servers: list() },
    { ...there, servers: list('a', 'b') },
  ].map((services) => ({ ...noServices, ...services }) as unknown as Services)
  const view = { config, caller: localCaller, profile: defaultProfile, nameOf: () => undefined }
  expect(built.enabled?.(view)).toBe(module.enabled?.(view))
  for (const [action, tool] of Object.entries(module.tools)) {
    const stand = built.tools[action]
    expect(plain({ ...stand, context: undefined }), action).toEqual(plain({ ...tool, context: undefined }))
    expect(functions(stand ?? {}).sort(), action).toEqual(functions(tool).sort())
    expect(stand?.context === true || (stand?.run.length ?? 0) >= 2, action).toBe(
      tool.context === true || tool.run.length >= 2,
    )
    for (const services of worlds)
      expect(stand?.available?.({ ...view, services }), action).toBe(tool.available?.({ ...view, services }))
  }
})

it.each(NAMES)('the schemas of %s say in the build what they say in its sources', async (name) => {
  const jsonOf = (schema: unknown): unknown => schema && toSchema(schema).json
  const { module, built } = await bothOf(name)
  expect(jsonOf(built.config), name).toEqual(jsonOf(module.config))
  expect(Object.keys(built.tools)).toEqual(Object.keys(module.tools))
  for (const [tool, { input, output }] of Object.entries(module.tools)) {
    expect(jsonOf(built.tools[tool]?.input), `${name}.${tool}`).toEqual(jsonOf(input))
    expect(jsonOf(built.tools[tool]?.output), `${name}.${tool}`).toEqual(jsonOf(output))
    for (const value of [{}, { path: 'a' }, { path: 1 }, { name: '' }, { names: ['Ada'] }, { pattern: 'x', limit: 0 }])
      if (input) expect(toSchema(built.tools[tool]?.input).parse(value)).toEqual(toSchema(input).parse(value))
  }
  for (const value of module.config ? [{}, { root: '/a' }, { roots: [] }, { readonyl: true }] : [])
    expect(toSchema(built.config).parse(value)).toEqual(toSchema(module.config).parse(value))
})

const TELL = `const vm = require('node:vm')
vm.Script = class extends vm.Script {
  constructor(code, options) {
    super(code, options)
    process.stderr.write('evaluates ' + options?.filename + '\\n')
  }
}`

/** Starts it and lists; tells which scripts it evaluates. */
async function talkIn(here: ReturnType<typeof place>) {
  writeFileSync(join(here.dir, 'tell.cjs'), TELL)
  const talking = await talkTo({
    ...here,
    env: { ...here.env, NODE_OPTIONS: `--require ${join(here.dir, 'tell.cjs')}` },
  })
  talking.send({ id: 1, method: 'tools/list', params: {} })
  const { result } = (await talking.answer(1)) as { result: { tools: { name: string }[] } }
  const names = result.tools.map((tool) => tool.name)
  const evaluated = () => [...new Set(talking.stderr().match(/(?<=evaluates .*)\w+(?=\.cjs)/g))].sort()
  return { ...talking, names, evaluated }
}

it('reads what it does not need for a first list after that, servers known or not', async () => {
  const fake = join(import.meta.dirname, '../../bench/fake-upstream.mjs')
  const args = [fake, '--name', 'shop', '--server', '0', '--tools', '3']
  const here = place({ mcpServers: { shop: { command: process.execPath, args, deny: ['nothing_*'] } } })
  const manifests = join(here.dir, 'state/manifests')
  for (const isKnown of [false, true]) {
    const talking = await talkIn(here)
    await expect.poll(talking.evaluated, { timeout: 15_000 }).toContain('later')
    const told = talking.stderr()
    expect(told).toContain('serves on stdio')
    expect(told.indexOf('serves on stdio')).toBeLessThan(told.indexOf('later.cjs'))
    if (!isKnown)
      await expect.poll(() => existsSync(manifests) && readdirSync(manifests), { timeout: 15_000 }).not.toEqual([])
    const ended = once(talking.child, 'exit')
    talking.child.stdin?.end()
    await ended
  }
}, 60_000)

it('reads the code of no module until a tool is called, or a setting switches one on', async () => {
  const talk = (settings: Record<string, unknown>) => talkIn(place(settings))
  const plain = await talk({ mcpServers: { gone: { command: 'no-such-program' } } })
  expect(plain.names).toContain('hello__say_hello')
  expect(plain.names).toContain('mcp__list_servers')
  expect(plain.evaluated()).toContain('start')
  expect(plain.evaluated()).not.toContain('modules')
  plain.send({ id: 2, method: 'tools/call', params: { name: 'hello__say_hello', arguments: { name: 'Ada' } } })
  expect(await plain.answer(2)).toMatchObject({ result: { structuredContent: { message: 'Hello, Ada!' } } })
  await expect.poll(plain.evaluated).toContain('modules')

  const switched = await talk({ modules: { archives: { config: { enabled: true } } } })
  expect(switched.names).toContain('archives__external_archives')
  expect(switched.evaluated()).toContain('modules')
}, 60_000)

it('a client that ends its first server while that one gets a token has its second one logged in at once', async () => {
  let asked = 0
  const tokens: string[] = []
  const { origin, close } = await listening((own) => (request, response) => {
    const answer = (body: object): void => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
    if (request.url === '/.well-known/oauth-protected-resource/mcp')
      return answer({ resource: `${own}/mcp`, authorization_servers: [own] })
    if (request.url === '/.well-known/oauth-authorization-server')
      return answer({
        issuer: own,
        authorization_endpoint: `${own}/authorize`,
        token_endpoint: `${own}/token`,
        response_types_supported: ['code'],
        grant_types_supported: ['client_credentials'],
      })
    // The first is never answered: its process is killed meanwhile.
    if (request.url === '/token') return ++asked > 1 && answer({ access_token: 'robots', token_type: 'Bearer' })
    tokens.push(String(request.headers.authorization))
    response.writeHead(404).end()
  })
  try {
    const auth = { type: 'client-credentials', clientId: 'robot', clientSecret: 'hush' }
    const here = place({ mcpServers: { web: { url: `${origin}/mcp`, start: 'eager', auth } } })
    const options = { ...here, env: { ...here.env, PEGBOARD_KEYRING: 'off' } }
    const first = await talkTo(options)
    await expect.poll(() => asked, { timeout: 10_000 }).toBe(1)
    const ended = once(first.child, 'exit')
    first.child.kill('SIGKILL')
    await ended
    await talkTo(options)
    await expect.poll(() => tokens[0], { timeout: 8_000 }).toBe('Bearer robots')
  } finally {
    close()
  }
}, 30_000)
