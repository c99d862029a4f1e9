import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire, isBuiltin } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import type { ToolModule } from '../../src/core/module.ts'
import { describeSwitchedOff } from '../../src/loader/switched-off.ts'
import { cli, place, talkTo } from '../process.ts'
import { listenOnFreePort } from '../upstream/oauth/oauth-servers.ts'

const dist = join(dirname(cli), '..')
const chunks = ['pegboard', 'libraries', 'modules'].map((name) => join(dist, `${name}.cjs`))
/** Optional packages that users install, and ajv, which occurs in code that the SDK could generate. */
const OPTIONAL = /^(?:ajv.*|bullmq|ioredis|libsql|mysql2|pg|@napi-rs\/keyring|@opentelemetry\/.*)$/

it('every external import of the chunks exists', async () => {
  const names = new Set(
    chunks.flatMap((file) =>
      [...readFileSync(file, 'latin1').matchAll(/\b(?:require|import)\("([^"\s]+)"\)/g)].map(([, name]) =>
        String(name),
      ),
    ),
  )
  const foreign = [...names].filter((name) => !isBuiltin(name) && !OPTIONAL.test(name)).sort()
  expect(foreign).toEqual(['./libraries.cjs', './load.cjs', './loader/amaro.cjs', './pegboard.cjs', 'undici'])
  const require = createRequire(join(dist, 'load.cjs'))
  const { load, loadModule, ...loader } = require('./load.cjs')
  const modules = [load().modules, await loadModule('hello'), await loadModule('shell')]
  for (const exported of [load(), ...modules, loader, require('./loader/amaro.cjs'), require('undici')])
    expect(Object.keys(exported).length).toBeGreaterThan(0)
})

const sources = join(import.meta.dirname, '../../modules')
const NAMES = readdirSync(sources)
  .filter((name) => !name.startsWith('_'))
  .map((name) => name.replace('.ts', ''))

it.each(NAMES)('%s has the same description in the build as in its sources', async (name) => {
  const source = name === 'hello' ? 'hello.ts' : `${name}/index.ts`
  const { default: module } = (await import(pathToFileURL(join(sources, source)).href)) as { default: ToolModule }
  const written = JSON.parse(readFileSync(join(dist, 'modules/switched-off.json'), 'utf8')) as Record<string, unknown>
  const described = describeSwitchedOff(module)
  expect(written[name]).toEqual(described && JSON.parse(JSON.stringify(described)))
})

it('imports a module when a reloaded configuration enables it', async () => {
  const here = place()
  const talking = await talkTo(here)
  const names = async (id: number): Promise<string[]> => {
    talking.send({ id, method: 'tools/list', params: {} })
    const { result } = (await talking.answer(id)) as { result: { tools: { name: string }[] } }
    return result.tools.map((tool) => tool.name)
  }
  expect(await names(1)).not.toContain('archives__external_archives')
  writeFileSync(here.config, JSON.stringify({ modules: { archives: { config: { enabled: true } } } }))
  let id = 1
  await expect.poll(() => names(++id), { timeout: 15_000 }).toContain('archives__external_archives')
}, 30_000)

it('a client that stops its first server during a token refresh is still logged in with its second one', async () => {
  let asked = 0
  const tokens: string[] = []
  const { origin, close } = await listenOnFreePort((own) => (request, response) => {
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
    // The first request is never answered, because its process is killed meanwhile.
    if (request.url === '/token') return ++asked > 1 && answer({ access_token: 'robots', token_type: 'Bearer' })
    tokens.push(String(request.headers.authorization))
    response.writeHead(404).end()
  })
  try {
    const auth = { type: 'client-credentials', clientId: 'robot', clientSecret: 'hush' }
    const here = place({ mcpServers: { web: { url: `${origin}/mcp`, start: 'eager', auth } } })
    const options = { ...here, env: { ...here.env, PEGBOARD_KEYRING: 'off' } }
    const first = await talkTo(options)
    await expect.poll(() => asked).toBe(1)
    const ended = once(first.child, 'exit')
    first.child.kill('SIGKILL')
    await ended
    await talkTo(options)
    await expect.poll(() => tokens[0]).toBe('Bearer robots')
  } finally {
    close()
  }
}, 30_000)
