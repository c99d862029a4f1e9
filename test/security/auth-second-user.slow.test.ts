import { chmodSync, chownSync, mkdirSync, readdirSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createTokenStore } from '../../src/upstream/oauth/token-store.ts'
import { servers, startApp, temporaryFolder } from '../app.ts'
import { pegboard } from '../cli/terminal.ts'
import { cli, place, run, serveHttp } from '../process.ts'
import {
  logInLikePerson,
  loginAt,
  startAuthorizationServer,
  startProtectedServer,
  withOAuthServers,
} from '../upstream/oauth/oauth-servers.ts'

const POSIX = process.platform !== 'win32'
const ROOT = process.getuid?.() === 0
const MODULE = `export default { name: 'mine', description: 'x', tools: { a: { description: 'x', run: () => 'ran' } } }`

/** The error of a server that refuses to start. */
const refusal = (config: string, env: Record<string, string | undefined>, ...flags: string[]): Promise<string> =>
  run(process.execPath, [cli, 'serve', '--http', '--port', '0', ...flags, '--config', config], { env }).then(
    () => 'it served',
    (error: { stderr: string }) => error.stderr,
  )

describe.runIf(POSIX)('files that another user of the machine can write', () => {
  it('prevent serving over HTTP: configuration folder, modules folder and lock file', async () => {
    const here = place({}, { 'mine.mjs': MODULE })
    const lock = join(here.dir, 'pegboard.lock.json')
    writeFileSync(lock, '{}')
    for (const [path, mode, what] of [
      [here.dir, 0o777, 'The configuration file'],
      [join(here.dir, 'modules'), 0o777, 'The modules folder'],
      [lock, 0o666, 'The lock file'],
    ] as const) {
      const before = statSync(path).mode
      chmodSync(path, mode)
      expect(await refusal(here.config, here.env)).toMatch(
        new RegExp(`E_CONFIG_WRITABLE: ${what} is not safe .*chmod o-w`),
      )
      chmodSync(path, before)
    }
    writeFileSync(lock, '{"version":1,"servers":{}}')
    chmodSync(lock, 0o666)
    await serveHttp(here, '0', ['--insecure-permissions'])
  })

  it('prevent running a module, however it is loaded', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(join(dir, 'modules/mine.mjs'), MODULE)
    chmodSync(join(dir, 'modules/mine.mjs'), 0o666)
    const { app } = await startApp({}, dir)
    expect(app.failed()).toEqual([
      expect.objectContaining({
        file: 'mine.mjs',
        error: expect.stringContaining('every user of this machine can write it'),
      }),
    ])
    expect(app.catalog.snapshot().byId.has('mine.a')).toBe(false)
  })

  it('prevent starting a server if they are its program or env file', async () => {
    const dir = temporaryFolder()
    writeFileSync(join(dir, 'server.mjs'), '')
    chmodSync(join(dir, 'server.mjs'), 0o666)
    writeFileSync(join(dir, 'env.txt'), 'A=b')
    chmodSync(join(dir, 'env.txt'), 0o666)
    const { app } = await startApp(
      {
        mcpServers: {
          program: { command: 'node', args: ['server.mjs'], start: 'eager' },
          secret: { ...servers.everything, envFile: 'env.txt', start: 'eager' },
        },
      },
      dir,
    )
    await app.settled(10_000)
    const reasons = Object.fromEntries(app.upstreams.status().map(({ id, reason }) => [id, reason]))
    expect(reasons['program']).toMatch(/^server\.mjs is not safe to run: every user of this machine can write it/)
    expect(reasons['secret']).toMatch(/^its envFile is not safe to use: every user of this machine can write it/)
  })

  it.runIf(ROOT)('prevent using a module or a token that another user owns', async () => {
    const here = place({}, { 'mine.mjs': MODULE })
    chownSync(join(here.dir, 'modules/mine.mjs'), 12_345, 12_345)
    mkdirSync(join(here.dir, 'state'))
    writeFileSync(join(here.dir, 'state/token'), `${'planted'.repeat(6)}\n`, { mode: 0o644 })
    chownSync(join(here.dir, 'state/token'), 12_345, 12_345)
    expect(await refusal(here.config, here.env)).toMatch(/E_CONFIG_AUTH: .*it belongs to another user \(12345\)/)
    const { out } = await pegboard(here.dir, 'list', 'modules', '--config', here.config)
    expect(out).toMatch(/mine\.mjs +failed .*it is not safe to run: it belongs to another user \(12345\)/)
  })
})

describe.runIf(POSIX)('AUTH-15', () => {
  it('AUTH-15: Pegboard makes a readable token file private, and rejects one that others can write or that is a link', async () => {
    const here = place()
    const token = join(here.dir, 'state/token')
    const first = await serveHttp(here)
    first.child.kill()
    await first.ended
    chmodSync(token, 0o644)
    const again = await serveHttp(here)
    expect(again.token).toBe(first.token)
    expect(statSync(token).mode & 0o777).toBe(0o600)
    again.child.kill()
    await again.ended
    chmodSync(token, 0o666)
    expect(await refusal(here.config, here.env)).toMatch(/E_CONFIG_AUTH: .*every user of this machine can write it/)
    chmodSync(token, 0o600)
    renameSync(token, join(here.dir, 'elsewhere'))
    symlinkSync(join(here.dir, 'elsewhere'), token)
    expect(await refusal(here.config, here.env)).toMatch(/E_CONFIG_AUTH: .*it is not a regular file/)
  })

  it('AUTH-15: Pegboard makes login tokens private when it reads them, and never reads them through a link', () =>
    withOAuthServers(async ({ dir, server, store, login }) => {
      await login()
      const key = { server: 'web', url: server.url }
      const file = join(dir, String(readdirSync(dir).find((one) => one.endsWith('.json'))))
      chmodSync(file, 0o644)
      expect((await store.read(key))?.tokens?.access_token).toBeTypeOf('string')
      expect(statSync(file).mode & 0o777).toBe(0o600)
      chmodSync(file, 0o666)
      await expect(store.read(key)).rejects.toThrow('every user of this machine can write it')
      chmodSync(file, 0o600)
      renameSync(file, join(dir, 'moved'))
      symlinkSync(join(dir, 'moved'), file)
      await expect(store.read(key)).rejects.toThrow('is a symbolic link')
    }))

  it('AUTH-15: after a change of the authorization server, Pegboard registers a new client and never sends the old tokens there', async () => {
    const [one, other] = [await startAuthorizationServer(), await startAuthorizationServer()]
    const metadata: Record<string, unknown> = {}
    const server = await startProtectedServer(one, { metadata, scope: 'read' })
    const store = createTokenStore(temporaryFolder(), undefined)
    onTestFinished(() => [one, other, server].forEach((each) => void each.close()))
    const login = () =>
      loginAt(server.url, store, {}, { open: async (url: string) => void (await logInLikePerson(url)) })
    const before = await login()
    metadata['authorization_servers'] = [other.origin]
    const sent: string[] = []
    type Seen = { readonly req: { readonly url?: string }; readonly oidc?: { readonly params?: object } }
    const spied = other.provider as unknown as {
      use(look: (ctx: Seen, next: () => Promise<void>) => Promise<void>): void
    }
    spied.use(async (ctx, next) => {
      await next()
      sent.push(JSON.stringify([ctx.req.url, ctx.oidc?.params ?? {}]))
    })
    const after = await login()
    expect(other.count('POST /reg')).toBe(1)
    expect(after.tokens?.access_token).not.toBe(before.tokens?.access_token)
    expect(other.count('POST /token')).toBe(1)
    for (const token of [before.tokens?.refresh_token, before.tokens?.access_token])
      expect(sent.join()).not.toContain(String(token))
  })
})
