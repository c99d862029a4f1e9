import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import { cli, place, talkTo } from '../process.ts'
import { listening } from '../upstream/oauth/rig.ts'

const bundle = join(dirname(cli), '../bundle.cjs')

it('what the bundle loads from outside itself is there', async () => {
  const names = [...readFileSync(bundle, 'latin1').matchAll(/bundleImport\("([^"]+)"\)/g)].map(([, name]) =>
    String(name),
  )
  expect([...new Set(names)].sort()).toEqual([
    './loader/amaro.cjs',
    '@napi-rs/keyring',
    'node:crypto',
    'node:dns/promises',
    'undici',
  ])
  const require = createRequire(bundle)
  for (const name of new Set(names)) {
    const at = name.startsWith('node:') ? name : pathToFileURL(require.resolve(name)).href
    expect(Object.keys(await import(at)).length).toBeGreaterThan(0)
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
