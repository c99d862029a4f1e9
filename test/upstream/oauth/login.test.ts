import { generateKeyPairSync } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createTokenStore } from '../../../src/upstream/oauth/token-store.ts'
import { until, withServers } from '../host.ts'
import { logInLikePerson, loginAt, type OAuthServers, withOAuthServers } from './oauth-servers.ts'

const login = 'it requires a login: run `pegboard auth web`'

/** Runs the server of a rig as `web` for a test. */
const served = (
  { server, store }: OAuthServers,
  test: Parameters<typeof withServers>[1],
  entry: object = {},
  wait = true,
): Promise<void> => withServers({ web: { url: server.url, ...entry } }, test, { tokens: async () => store, wait })

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'no error',
    (error: { code?: string; message: string }) => `${error.code}: ${error.message}`,
  )

describe('a login in the browser', () => {
  it('registers a client, gets tokens, and the server is used with them', () =>
    withOAuthServers(async (rig) => {
      const grant = await rig.login()
      expect(grant.tokens?.refresh_token).toBeTypeOf('string')
      expect(rig.authorizationServer.count('POST /reg')).toBe(1)
      await served(rig, async ({ text, upstreams }) => {
        expect(await text('mcp_web.who')).toBe('alice')
        expect(upstreams.status()).toMatchObject([{ state: 'ready' }])
      })
    }))

  it('stores the tokens in a private file', () =>
    withOAuthServers(async ({ dir, login }) => {
      const grant = await login()
      const [file = '', ...others] = readdirSync(dir)
      expect(others).toEqual([])
      expect(statSync(dir).mode & 0o777).toBe(0o700)
      expect(statSync(join(dir, file)).mode & 0o777).toBe(0o600)
      expect(readFileSync(join(dir, file), 'utf8')).toContain(grant.tokens?.access_token)
    }))

  it('reuses its client if its port is free, and registers again after an unfinished login', () =>
    withOAuthServers(async ({ authorizationServer, login }) => {
      await login()
      await login()
      expect(authorizationServer.count('POST /reg')).toBe(1)
      const given = login(undefined, { open: undefined, paste: async () => 'http://127.0.0.1/callback?code=x' })
      expect(await codeOf(given)).toBe('E_AUTH_FAILED: This is not the redirect address of this login.')
      await login()
      expect(authorizationServer.count('POST /reg')).toBe(2)
    }))

  it('sends a client metadata document where the authorization server supports it', () => {
    const document = 'https://client.example/pegboard.json'
    return withOAuthServers(
      async (rig) => {
        await rig.login({ clientMetadataUrl: document })
        expect(rig.authorizationServer.count('POST /reg')).toBe(0)
        await served(rig, async ({ text }) => expect(await text('mcp_web.who')).toBe('alice'))
      },
      {
        document: {
          client_id: document,
          client_name: 'Pegboard',
          redirect_uris: ['http://127.0.0.1/callback/<issuer>'],
          application_type: 'native',
          grant_types: ['authorization_code', 'refresh_token'],
          response_types: ['code'],
          token_endpoint_auth_method: 'none',
        },
      },
    )
  })

  it('replaces a login whose keyring is unavailable', () =>
    withOAuthServers(async ({ server, dir, store, login }) => {
      const entries = new Map<string, string>()
      const keyring = {
        get: async (name: string) => entries.get(name),
        set: async (name: string, secret: string) => void entries.set(name, secret),
        delete: async (name: string) => void entries.delete(name),
      }
      const key = { server: 'web', url: server.url }
      const kept = createTokenStore(dir, keyring)
      await loginAt(server.url, kept)
      expect(entries.size).toBeGreaterThan(0)
      await expect(store.read(key)).rejects.toMatchObject({ code: 'E_UPSTREAM_UNAVAILABLE' })
      const grant = await login()
      expect(await store.read(key)).toEqual(grant)
      expect(await kept.read(key)).toEqual(grant)
    }))

  it('sends a secret to no other authorization server if the keyring is unavailable', () =>
    withOAuthServers(async ({ authorizationServer, server, dir, store, login }) => {
      const key = { server: 'web', url: server.url }
      const discovery = { authorizationServerUrl: 'https://as.example' }
      const keyring = { get: async () => undefined, set: async () => undefined, delete: async () => undefined }
      await createTokenStore(dir, keyring).write(key, {
        tokens: { access_token: 'a', token_type: 'Bearer', issuer: 'https://as.example' },
        discovery,
      })
      await expect(store.read(key)).rejects.toMatchObject({ code: 'E_UPSTREAM_UNAVAILABLE' })
      expect(await codeOf(login({ clientId: 'known', clientSecret: 'hush' }))).toBe(
        'E_AUTH_FAILED: web names another authorization server than the one its client is for.',
      )
      expect(authorizationServer.count('POST /token')).toBe(0)
    }))

  it('uses a client registered in advance, with its secret', () =>
    withOAuthServers(
      async (rig) => {
        await rig.login({ clientId: 'known', clientSecret: 'hush' })
        expect(rig.authorizationServer.count('POST /reg')).toBe(0)
        await served(rig, async ({ text }) => expect(await text('mcp_web.who')).toBe('alice'), {
          auth: { clientId: 'known', clientSecret: 'hush' },
        })
      },
      {
        registration: false,
        clients: [
          {
            client_id: 'known',
            client_secret: 'hush',
            redirect_uris: ['http://127.0.0.1/callback/<issuer>'],
            application_type: 'native',
            grant_types: ['authorization_code', 'refresh_token'],
            token_endpoint_auth_method: 'client_secret_basic',
          },
        ],
      },
    ))

  it('says what to do if registration is not possible', () =>
    withOAuthServers(
      async ({ login }) =>
        expect(await codeOf(login())).toBe(
          'E_AUTH_FAILED: Cannot log in to web: it does not register new clients; register one there and set mcpServers.web.auth.clientId.',
        ),
      { registration: false },
    ))

  it('accepts a pasted address if the browser cannot return, and asks again for a wrong one', () =>
    withOAuthServers(async ({ login }) => {
      let shown = ''
      let ended = ''
      const warned: string[] = []
      const grant = await login(undefined, {
        open: undefined,
        show: (url) => {
          shown = url
        },
        warn: (message) => void warned.push(message),
        paste: async () => {
          // A single wrong address is only a warning.
          if (warned.length === 0) return 'http://127.0.0.1/somewhere'
          // No server listens at the final address of this browser.
          const elsewhere = await logInLikePerson(shown).catch((error: unknown) => error as { url: string })
          ended = (elsewhere as { url: string }).url
          return `  ${ended}\n`
        },
      })
      expect(ended).toMatch(/\/callback\/[^?]+\?code=/)
      expect(warned).toEqual([
        expect.stringMatching(/^This is not the redirect address of this login\. Paste the whole/),
      ])
      expect(grant.tokens?.access_token).toBeTypeOf('string')
    }))

  it('answers a redirect with another state and keeps waiting', () =>
    withOAuthServers(async ({ login }) => {
      const answers: number[] = []
      const grant = await login(undefined, {
        async open(url) {
          const redirect = new URL(new URL(url).searchParams.get('redirect_uri') ?? '')
          redirect.search = '?code=stolen&state=guessed'
          answers.push((await fetch(redirect)).status)
          answers.push((await logInLikePerson(url)).status)
        },
      })
      expect(answers).toEqual([400, 200])
      expect(grant.tokens?.access_token).toBeTypeOf('string')
    }))

  it('rejects an answer that names another authorization server', () =>
    withOAuthServers(async ({ authorizationServer, login }) => {
      const forged = login(undefined, {
        async open(url) {
          const { searchParams } = new URL(url)
          const redirect = new URL(searchParams.get('redirect_uri') ?? '')
          redirect.search = String(
            new URLSearchParams({ code: 'x', state: searchParams.get('state') ?? '', iss: 'https://evil.example' }),
          )
          await fetch(redirect)
        },
      })
      expect(await codeOf(forged)).toBe(
        'E_AUTH_FAILED: The response is from another authorization server than expected.',
      )
      expect(authorizationServer.count('POST /token')).toBe(0)
    }))

  it('sends a secret only to its authorization server', () =>
    withOAuthServers(async ({ authorizationServer, login }) => {
      const elsewhere = login({ clientId: 'known', clientSecret: 'hush', issuer: 'https://as.example' })
      expect(await codeOf(elsewhere)).toBe(
        'E_AUTH_FAILED: web names another authorization server than the one its client is for.',
      )
      expect(authorizationServer.count('POST /token')).toBe(0)
    }))
})

describe('a client without a person', () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const client = (more: object) => ({
    client_id: 'robot',
    redirect_uris: [],
    response_types: [],
    grant_types: ['client_credentials'],
    ...more,
  })
  it.each([
    ['client_secret_basic', { clientSecret: 'hush' }, { client_secret: 'hush' }],
    [
      'client_secret_post',
      { clientSecret: 'hush', tokenEndpointAuth: 'client_secret_post' },
      { client_secret: 'hush' },
    ],
    [
      'private_key_jwt',
      { privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }) },
      { jwks: { keys: [publicKey.export({ format: 'jwk' })] } },
    ],
  ])('proves itself with %s', (method, ours, theirs) =>
    withOAuthServers(
      (rig) =>
        served(rig, async ({ text }) => expect(await text('mcp_web.who')).toBe('robot'), {
          auth: { type: 'client-credentials', clientId: 'robot', scopes: 'read', ...ours },
        }),
      { clients: [client({ token_endpoint_auth_method: method, ...theirs })] },
    ),
  )

  it('that is rejected reports it, and tries again only at the next attempt', () =>
    withOAuthServers(
      (rig) =>
        served(
          rig,
          async ({ upstreams }) => {
            await until(() => upstreams.status()[0]?.state === 'failing')
            expect(upstreams.status()[0]?.reason).toMatch(/^Cannot log in to web: .*invalid_client/)
          },
          { auth: { type: 'client-credentials', clientId: 'robot', clientSecret: 'wrong', scopes: 'read' } },
          false,
        ),
      { clients: [client({ client_secret: 'hush' })] },
    ))
})

describe('a server that requires a login', () => {
  it('is failing, names the command to run, and connects as soon as it was run', () =>
    withOAuthServers((rig) =>
      served(
        rig,
        async ({ upstreams, text }) => {
          await until(() => upstreams.status()[0]?.state === 'failing')
          expect(upstreams.status()[0]?.reason).toBe(login)
          const before = rig.server.tokens.length
          expect(before).toBeLessThanOrEqual(2)
          await rig.login()
          await until(() => upstreams.status()[0]?.state === 'ready')
          expect(await text('mcp_web.who')).toBe('alice')
        },
        {},
        false,
      ),
    ))

  it('never opens a browser and does not retry in a loop', () =>
    withOAuthServers((rig) =>
      served(
        rig,
        async ({ upstreams }) => {
          await until(() => upstreams.status()[0]?.state === 'failing')
          const before = rig.server.tokens.length
          await Promise.allSettled(Array.from({ length: 50 }, () => upstreams.refresh('web')))
          expect(rig.server.tokens.length - before).toBeLessThanOrEqual(3)
          expect(rig.authorizationServer.requests).toEqual([])
        },
        {},
        false,
      ),
    ))

  it('is not logged in to with auth none, or with its own header', () =>
    withOAuthServers(async (rig) => {
      await rig.login()
      for (const [entry, reason] of [
        [{ auth: { type: 'none' } }, 'it requires authorization (HTTP 401)'],
        [{ headers: { authorization: 'Bearer own' } }, 'it rejects the value of mcpServers.web.headers (HTTP 401)'],
      ] as const) {
        await served(
          rig,
          async ({ upstreams }) => {
            await until(() => upstreams.status()[0]?.state === 'failing')
            expect(upstreams.status()[0]?.reason).toBe(reason)
          },
          entry,
          false,
        )
      }
    }))
})

describe('many 401 responses', () => {
  it('to a hundred calls refresh the tokens once, and each call is repeated once', () =>
    withOAuthServers(async (rig) => {
      const first = await rig.login()
      await served(rig, async ({ text }) => {
        rig.server.refused.add(first.tokens?.access_token ?? '')
        const [requests, renewals] = [rig.server.tokens.length, rig.authorizationServer.count('POST /token')]
        const answers = await Promise.all(Array.from({ length: 100 }, () => text('mcp_web.who')))
        expect(new Set(answers)).toEqual(new Set(['alice']))
        expect(rig.authorizationServer.count('POST /token') - renewals).toBe(1)
        expect(rig.server.tokens.length - requests).toBeLessThanOrEqual(200)
      })
    }))

  it('with a revoked refresh token fail fast, ask once, and a login fixes the running server', () =>
    withOAuthServers(async (rig) => {
      const first = await rig.login()
      await served(rig, async ({ call, text, upstreams }) => {
        const refresh = await rig.authorizationServer.provider.RefreshToken.find(first.tokens?.refresh_token ?? '')
        await refresh?.destroy()
        rig.server.refused.add(first.tokens?.access_token ?? '')
        const renewals = rig.authorizationServer.count('POST /token')
        const failures = await Promise.all(Array.from({ length: 100 }, () => codeOf(call('mcp_web.who'))))
        expect(new Set(failures)).toEqual(new Set([`E_AUTH_REQUIRED: web: ${login}.`]))
        expect(rig.authorizationServer.count('POST /token') - renewals).toBe(1)
        expect(upstreams.status()).toMatchObject([{ state: 'failing', reason: login }])
        const requests = rig.server.tokens.length
        await Promise.all(Array.from({ length: 100 }, () => codeOf(call('mcp_web.who'))))
        expect(rig.server.tokens.length - requests).toBeLessThanOrEqual(100)
        expect(rig.authorizationServer.count('POST /token') - renewals).toBe(1)
        await rig.login()
        await until(() => upstreams.status()[0]?.state === 'ready')
        expect(await text('mcp_web.who')).toBe('alice')
      })
    }))

  it('by mistake of the server are over when the server accepts the token', () =>
    withOAuthServers(async (rig) => {
      await rig.login()
      await served(rig, async ({ call, text, upstreams }) => {
        rig.server.refuseAll = true
        expect(await codeOf(call('mcp_web.who'))).toBe(`E_AUTH_REQUIRED: web: ${login}.`)
        rig.server.refuseAll = false
        let answer = ''
        const end = Date.now() + 10_000
        while (answer === '' && Date.now() < end) {
          await new Promise((resolve) => setTimeout(resolve, 50))
          answer = await text('mcp_web.who').catch(() => '')
        }
        expect(answer).toBe('alice')
        expect(upstreams.status()).toMatchObject([{ state: 'ready' }])
      })
    }))
})

describe('a missing scope', () => {
  it('fails only that call, and is requested at the next login', () =>
    withOAuthServers(async (rig) => {
      await rig.login()
      await served(rig, async ({ call, text, upstreams }) => {
        expect(await codeOf(call('mcp_web.write'))).toBe(
          'E_AUTH_REQUIRED: web: it requires the scope "write": run `pegboard auth web`.',
        )
        expect(upstreams.status()).toMatchObject([{ state: 'ready' }])
        expect(await text('mcp_web.who')).toBe('alice')
        let asked = ''
        await rig.login(undefined, {
          async open(url) {
            asked = new URL(url).searchParams.get('scope') ?? ''
            await logInLikePerson(url)
          },
        })
        expect(asked.split(' ')).toEqual(expect.arrayContaining(['read', 'write']))
        expect(await text('mcp_web.write')).toBe('alice')
      })
    }))
})

describe('login requests', () => {
  it("contain the entry's headers only for the server itself", () =>
    withOAuthServers(async (rig) => {
      await rig.login()
      await served(
        rig,
        async ({ text }) => {
          await text('mcp_web.who')
          expect(rig.server.headers.at(-1)?.['x-key']).toBe('k')
        },
        { headers: { 'x-key': 'k' } },
      )
    }))

  it('log no token', () =>
    withOAuthServers(async (rig) => {
      const grant = await rig.login()
      await served(rig, async ({ text, logged }) => {
        await text('mcp_web.who')
        const lines = JSON.stringify(logged)
        expect(lines).not.toContain(grant.tokens?.access_token)
        expect(lines).not.toContain(grant.tokens?.refresh_token)
      })
    }))
})
