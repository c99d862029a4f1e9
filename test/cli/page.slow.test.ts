import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { cli, place, run, serveHttp } from '../process.ts'

const pegboard = async (at: ReturnType<typeof place>, ...args: string[]) =>
  run(process.execPath, [cli, ...args, '--config', at.config], { env: at.env })

it('serve prints a link that opens the page, and pegboard ui makes another', async () => {
  const at = place()
  const served = await serveHttp(at)
  const file = join(at.dir, 'state/page.json')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const { url, key } = JSON.parse(readFileSync(file, 'utf8'))
  expect(`${url}/mcp`).toBe(served.url)
  expect(key).toHaveLength(43)
  const { stdout } = await pegboard(at, 'ui', '--print')
  expect(stdout.trim()).toMatch(new RegExp(`^${url}/ui#[\\w-]{43}$`))
  const logIn = () =>
    fetch(`${url}/ui/api/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-pegboard-page': '1' },
      body: JSON.stringify({ code: stdout.trim().split('#')[1] }),
    })
  expect((await logIn()).status).toBe(200)
  expect((await logIn()).status).toBe(401)
  served.child.kill('SIGTERM')
  await served.ended
  await expect(pegboard(at, 'ui', '--print')).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/No server with a page is running .* serve --http\. /),
  })
})

it('top prints the state of the running server', async () => {
  const at = place({ mcpServers: { broken: { command: 'no-such-program' } } })
  await serveHttp(at)
  const { stdout } = await pegboard(at, 'top', '--once')
  expect(stdout).toMatch(/^Pegboard \d+\.\d+\.\d+ at http:\/\/127\.0\.0\.1:\d+\n/)
  expect(stdout).toMatch(/^mcp_broken +\w+ +0 +0/m)
  const seen = JSON.parse((await pegboard(at, 'top', '--json')).stdout)
  expect(seen.overview.servers).toBe(1)
})

it('has no page and no file with server.http.page: false, or on an address of the network', async () => {
  const at = place({ server: { http: { page: false } } })
  const served = await serveHttp(at)
  const { origin } = new URL(served.url)
  for (const path of ['/ui', '/']) expect((await fetch(`${origin}${path}`)).status).toBe(404)
  await expect(pegboard(at, 'ui')).rejects.toMatchObject({ code: 1 })
})
