import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { connectOverHttp } from '../client.ts'
import { cli, place, run, serveHttp } from '../process.ts'

const pegboard = async (at: ReturnType<typeof place>, ...args: string[]) =>
  run(process.execPath, [cli, ...args, '--config', at.config], { env: at.env })

it('pegboard ui prints a link that opens the page of the running server once', async () => {
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

it('later lists the planned work of the running server, and stops it', async () => {
  const at = place({ execution: { watchers: true, scheduler: true } })
  await expect(pegboard(at, 'later')).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('No server with a page is running'),
  })
  const served = await serveHttp(at)
  expect((await pegboard(at, 'later')).stdout).toBe('No background task, watcher or schedule exists.\n')
  const client = await connectOverHttp(served.url, served.token)
  const job = { name: 'hello.say_hello', params: { name: 'Ada' }, when: 'in 1h', label: 'greeting' }
  await client.callTool({ name: 'schedule_once', arguments: job })

  const rows = JSON.parse((await pegboard(at, 'later', '--json')).stdout)
  expect(rows).toEqual([
    {
      kind: 'schedule',
      id: expect.any(String),
      owner: 'local',
      what: 'greeting',
      tool: 'hello.say_hello',
      state: 'once',
      stoppable: true,
      next_at: expect.stringMatching(/^\d{4}-.*Z$/),
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
    },
  ])
  const [{ id }] = rows
  expect((await pegboard(at, 'later')).stdout).toMatch(
    new RegExp(
      `^ID +KIND +OWNER +WHAT +TOOL +STATE +NEXT\n${id} +schedule +local +greeting +hello.say_hello +once +20`,
    ),
  )
  await expect(pegboard(at, 'later', 'stop', 'none')).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('E_NOT_FOUND: Nothing with the id "none" is planned.'),
  })
  await expect(pegboard(at, 'later', 'stop')).rejects.toMatchObject({ code: 2 })
  expect((await pegboard(at, 'later', 'stop', id)).stdout).toBe('Stopped: the schedule "greeting" of local.\n')
  expect(JSON.parse((await pegboard(at, 'later', '--json')).stdout)).toEqual([])
})

it('applies a switch of the page at once, tells connected clients, and takes it back with undo', async () => {
  const at = place({ exposure: { mode: 'direct' } })
  const served = await serveHttp(at)
  const { url, key } = JSON.parse(readFileSync(join(at.dir, 'state/page.json'), 'utf8'))
  const client = await connectOverHttp(served.url, served.token)
  let changes = 0
  client.fallbackNotificationHandler = async ({ method }) => {
    if (method === 'notifications/tools/list_changed') changes++
  }
  const names = async () => (await client.listTools()).tools.map(({ name }) => name)
  expect(await names()).toContain('hello__say_hello')

  const answer = await fetch(`${url}/ui/api/switch`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'x-pegboard-page': '1' },
    body: JSON.stringify({ names: ['hello.say_hello'], to: 'disabled' }),
  })
  expect([answer.status, await answer.json()]).toEqual([200, { undo: expect.any(String) }])
  await expect.poll(() => changes, { timeout: 60_000 }).toBeGreaterThan(0)
  expect(await names()).not.toContain('hello__say_hello')
  expect(await client.callTool({ name: 'hello__say_hello', arguments: {} })).toMatchObject({
    isError: true,
    structuredContent: { error: { code: 'E_TOOL_DISABLED' } },
  })

  const before = changes
  await pegboard(at, 'undo')
  await expect.poll(() => changes, { timeout: 60_000 }).toBeGreaterThan(before)
  expect(await names()).toContain('hello__say_hello')
})
