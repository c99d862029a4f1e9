import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import filesystem from '../../modules/filesystem/index.ts'
import hello from '../../modules/hello.ts'
import mcp from '../../modules/mcp/index.ts'
import { toSchema } from '../../src/core/schema.ts'
import { cli, place, talkTo } from '../process.ts'
import { listening } from '../upstream/oauth/rig.ts'

const dist = join(dirname(cli), '..')
const packs = new Map(
  ['start', 'config', 'zod', 'rest'].map((name) => [name, readFileSync(join(dist, `${name}.cjs`), 'latin1')]),
)
const OURS = /^(start|config|zod|rest):/

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
    'bullmq',
    'ioredis',
    'mysql2',
    'node:crypto',
    'node:dns/promises',
    'pg',
    'undici',
  ])
  const require = createRequire(join(dist, 'start.cjs'))
  // Whoever keeps the state in Redis, or asks such a database, installs these.
  for (const name of foreign.filter((one) => !['bullmq', 'ioredis', 'mysql2', 'pg'].includes(one))) {
    const at = name.startsWith('node:') ? name : pathToFileURL(require.resolve(name)).href
    expect(Object.keys(await import(at)).length).toBeGreaterThan(0)
  }
})

it('what the scripts ask of each other is there, and no file is in two of them', () => {
  const asked = [...packs.values()].flatMap((text) =>
    [...text.matchAll(/"((?:start|config|zod|rest):[^"]+)"/g)].map(([, id]) => String(id)),
  )
  expect(asked).toContain('rest:src/cli/list.ts')
  expect(asked).toContain('start:src/core/errors.ts')
  for (const id of new Set(asked)) {
    const [pack = '', file = ''] = id.split(/:(.*)/)
    expect(packs.get(pack), id).toContain(`"${file}":()=>`)
    for (const [other, text] of packs) if (other !== pack) expect(text, `${id} in ${other}`).not.toContain(`"${file}"(`)
  }
})

it('the schemas of the bundled modules say in the build what they say in their sources', async () => {
  const jsonOf = (schema: unknown): unknown => schema && toSchema(schema).json
  for (const [name, module] of Object.entries({ filesystem, hello, mcp })) {
    const built = ((await import(pathToFileURL(join(dist, `modules/${name}.js`)).href)) as { default: typeof module })
      .default
    expect(jsonOf(built.config), name).toEqual(jsonOf(module.config))
    expect(Object.keys(built.tools)).toEqual(Object.keys(module.tools))
    for (const [tool, { input, output }] of Object.entries(module.tools)) {
      expect(jsonOf(built.tools[tool]?.input), `${name}.${tool}`).toEqual(jsonOf(input))
      expect(jsonOf(built.tools[tool]?.output), `${name}.${tool}`).toEqual(jsonOf(output))
      for (const value of [
        {},
        { path: 'a' },
        { path: 1 },
        { name: '' },
        { names: ['Ada'] },
        { pattern: 'x', limit: 0 },
      ])
        if (input) expect(toSchema(built.tools[tool]?.input).parse(value)).toEqual(toSchema(input).parse(value))
    }
    for (const value of module.config ? [{}, { root: '/a' }, { roots: [] }, { readonyl: true }] : [])
      expect(toSchema(built.config).parse(value)).toEqual(toSchema(module.config).parse(value))
  }
})

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
