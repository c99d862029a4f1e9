import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text as readText } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { run } from '../../src/cli/run-command.ts'
import { logInLikePerson, startAuthorizationServer, startProtectedServer } from '../upstream/oauth/oauth-servers.ts'
import { folder, terminal } from './terminal.ts'

/** A folder with a configuration of these servers, and a scripted browser. */
async function withPerson(
  servers: (url: string) => object,
  test: (at: {
    pegboard(...argv: string[]): Promise<{ code: number; out: string; err: string }>
    opened: string[]
    dir: string
  }) => Promise<void>,
): Promise<void> {
  const as = await startAuthorizationServer()
  const server = await startProtectedServer(as, { scope: 'read' })
  const opened: string[] = []
  const person = createServer(async (request, response) => {
    const url = await readText(request)
    opened.push(url)
    response.end()
    await logInLikePerson(url)
  })
  await new Promise<void>((resolve) => person.listen(0, '127.0.0.1', resolve))
  const { dir, remove } = folder({ 'mcp.config.json': { mcpServers: servers(server.url) } })
  const browser = join(dir, 'browser')
  const tell = `http://127.0.0.1:${(person.address() as AddressInfo).port}`
  writeFileSync(browser, `#!${process.execPath}\nfetch('${tell}', { method: 'POST', body: process.argv[2] })\n`)
  chmodSync(browser, 0o755)
  try {
    await test({
      opened,
      dir,
      async pegboard(...argv) {
        const { io, out, err } = terminal(dir)
        const env = { ...io.env, BROWSER: browser, PEGBOARD_KEYRING: 'off' }
        const code = await run([...argv, '--config', join(dir, 'mcp.config.json')], { ...io, env })
        return { code, out: out(), err: err() }
      },
    })
  } finally {
    remove()
    person.closeAllConnections()
    person.close()
    as.close()
    server.close()
  }
}

const remote = (url: string) => ({
  web: { url },
  each: { url, auth: { perPrincipal: true } },
  never: { url, auth: { type: 'none' } },
  local: { command: 'node' },
})

describe('pegboard auth', () => {
  it('logs in through the browser, shows the login without tokens, and logs out', () =>
    withPerson(remote, async ({ pegboard, opened }) => {
      const first = await pegboard('auth', 'web')
      expect(first).toMatchObject({
        code: 0,
        out: 'Logged in to web, renewed by itself. The tokens are in a file only you can read.\n',
      })
      expect(first.err).toContain(`Log in to web here:\n\n  ${opened[0]}\n`)
      const listed = await pegboard('auth', '--json')
      expect(JSON.parse(listed.out)).toMatchObject([
        { server: 'web', state: 'logged in', renews: true },
        { server: 'each', principal: 'local', state: 'not logged in' },
        { server: 'never', state: 'not logged in' },
      ])
      expect(Object.keys(JSON.parse(listed.out)[0]).sort()).toEqual([
        'expires_at',
        'renews',
        'scope',
        'server',
        'state',
      ])
      expect((await pegboard('auth')).out).toMatch(/^web +logged in +renewed by itself\n/)
      expect(await pegboard('auth', 'web', '--logout')).toMatchObject({ code: 0, out: 'Logged out of web.\n' })
      expect(await pegboard('auth', 'web', '--logout')).toMatchObject({ out: 'There was no login at web.\n' })
      expect(JSON.parse((await pegboard('auth', '--json')).out)[0]).toEqual({ server: 'web', state: 'not logged in' })
      expect((await pegboard('auth')).out).toMatch(/^web +not logged in; has not asked for a login$/m)
    }))

  it('logs in one principal of a server with a login for each principal', () =>
    withPerson(remote, async ({ pegboard }) => {
      expect(await pegboard('auth', 'each', '--principal', 'ann', '--json')).toMatchObject({ code: 0 })
      const state = async (principal: string) =>
        JSON.parse((await pegboard('auth', '--json', '--principal', principal)).out)[1]
      expect(await state('ann')).toMatchObject({ principal: 'ann', state: 'logged in' })
      expect(await state('bob')).toMatchObject({ principal: 'bob', state: 'not logged in' })
    }))

  it('lists the logins of all principals, and warns about a principal that no token has', () =>
    withPerson(remote, async ({ pegboard, dir }) => {
      const listed = async () =>
        JSON.parse((await pegboard('auth', '--json')).out)
          .filter(({ server }: { server: string }) => server === 'each')
          .map(({ principal, state }: Record<string, string>) => [principal, state])
      expect(await listed()).toEqual([['local', 'not logged in']])
      const file = join(dir, 'mcp.config.json')
      const settings = JSON.parse(readFileSync(file, 'utf8'))
      const http = { tokens: [{ token: 'a-token-of-ann-in-the-file', principal: 'ann' }] }
      writeFileSync(file, JSON.stringify({ ...settings, server: { http } }))
      await pegboard('token', 'create', 'bob')
      const warned = async (principal: string) =>
        /^pegboard: warning: .*/m.exec((await pegboard('auth', 'each', '--principal', principal)).err)?.[0]
      expect(await warned('ann')).toBeUndefined()
      expect(await warned('bob')).toBeUndefined()
      expect(await warned('local')).toBeUndefined()
      expect(await warned('anm')).toBe('pegboard: warning: no token has the principal "anm"; did you mean "ann"?')
      expect(await warned('anm')).toBeUndefined()
      expect(await listed()).toEqual(['ann', 'bob', 'local', 'anm'].map((name) => [name, 'logged in']))
    }))

  it('shows a login whose tokens cannot be read, and replaces it', () =>
    withPerson(remote, async ({ pegboard, dir }) => {
      await pegboard('auth', 'web')
      const folder = join(dir, '.state/auth')
      const [file = ''] = readdirSync(folder).map((name) => join(folder, name))
      const { tokens: _in_the_keyring, clients: _too, ...open } = JSON.parse(readFileSync(file, 'utf8'))
      writeFileSync(file, JSON.stringify({ ...open, keyring: { name: 'gone', pieces: 1 } }))
      const reason = 'its tokens cannot be read: they are in the keyring of this system, which is not available'
      const listed = JSON.parse((await pegboard('auth', '--json')).out)
      expect(listed[0]).toEqual({ server: 'web', state: 'cannot be read', reason })
      expect(listed).toHaveLength(3)
      expect((await pegboard('auth')).out).toMatch(new RegExp(`^web +cannot be read +${reason}$`, 'm'))
      expect(await pegboard('auth', 'web')).toMatchObject({ code: 0 })
      expect((await pegboard('auth')).out).toMatch(/^web +logged in +renewed by itself\n/)
    }))

  it('is suggested by a call to a server that needs a login', () =>
    withPerson(
      (url) => ({ web: { url } }),
      async ({ pegboard }) => {
        const { code, err } = await pegboard('call', 'mcp_web.who')
        expect(code).toBe(1)
        expect(err).toMatch(
          /^pegboard: E_AUTH_REQUIRED: mcp_web: it requires a login: run `pegboard --config \S+mcp\.config\.json auth web`\./,
        )
      },
    ))

  it('is not suggested by a call to a server that rejects a configured key', () =>
    withPerson(
      (url) => ({ web: { url, headers: { Authorization: 'Bearer of-last-year' } } }),
      async ({ pegboard }) => {
        const { code, err } = await pegboard('call', 'mcp_web.who')
        expect(code).toBe(1)
        expect(err).toBe(
          'pegboard: E_AUTH_REQUIRED: mcp_web: it rejects the value of mcpServers.web.headers (HTTP 401). ' +
            'The operator must correct this key.\n',
        )
      },
    ))

  it.each([
    [['wbe'], 'there is no server "wbe"; did you mean "web"?'],
    [['somewhere'], 'there is no server "somewhere"; remote servers: '],
    [
      ['local'],
      'local is a local program, and only remote servers have logins; put its keys into mcpServers.local.env',
    ],
    [['never'], 'never needs no login: mcpServers.never.auth.type is none'],
    [
      ['web', '--principal', 'ann'],
      'web has one login for all principals; set mcpServers.web.auth.perPrincipal to true for separate logins',
    ],
    [['web', '--timeout', '0'], '--timeout takes a whole number from 1 to 3600, not "0"'],
  ])('%j is rejected: %s', (argv, why) =>
    withPerson(remote, async ({ pegboard, opened }) => {
      const { code, err } = await pegboard('auth', ...argv)
      expect(code).toBe(2)
      expect(err).toContain(why)
      expect(opened).toEqual([])
    }),
  )

  it('with --no-browser opens nothing and reads the final address of the browser', () =>
    withPerson(remote, async ({ pegboard, opened }) => {
      // The terminal of the tests has no user: the end of its input ends the login.
      const pending = pegboard('auth', 'web', '--no-browser', '--timeout', '1')
      expect(await pending).toMatchObject({ code: 1 })
      expect((await pending).err).toContain('Paste the address of the page the browser shows after the login')
      expect((await pending).err).toContain('E_AUTH_FAILED: Nobody logged in within 1 s.')
      expect(opened).toEqual([])
    }))
})
