import { expect, it, onTestFinished } from 'vitest'
import { cli, place, run } from '../../process.ts'
import { listenOnFreePort, oauthMetadata } from './oauth-servers.ts'

it('the built program says what to do when a server wants more rights', async () => {
  const { origin, close } = await listenOnFreePort((own) => (request, response) => {
    const json =
      request.url === '/token' ? { access_token: 'a', token_type: 'Bearer' } : oauthMetadata(own, request.url)
    if (json) return void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(json))
    if (request.headers.authorization === undefined) return void response.writeHead(401).end()
    response.writeHead(403, { 'www-authenticate': 'Bearer error="insufficient_scope"' }).end()
  })
  onTestFinished(close)
  const auth = { type: 'client-credentials', clientId: 'robot', clientSecret: 'a-secret-of-a-robot' }
  const { config, env } = place({ mcpServers: { web: { url: `${origin}/mcp`, auth } } })
  const { stdout } = await run(process.execPath, [cli, 'list', 'servers', '--config', config], { env })
  expect(stdout).toMatch(/it requires more rights: run `.* auth web`/)
})
