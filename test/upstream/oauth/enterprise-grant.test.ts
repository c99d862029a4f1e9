import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { createSite } from '../../../src/upstream/oauth/auth-site.ts'
import { clientCredentials } from '../../../src/upstream/oauth/token-refresh.ts'
import type { HttpTarget } from '../../../src/upstream/upstream-settings.ts'
import { settingsOf } from '../host.ts'
import { listenOnFreePort, oauthMetadata, withFolder } from './oauth-servers.ts'

interface Company {
  readonly idp: Array<Record<string, string>>
  readonly as: Array<Record<string, string>>
  readonly secrets: Array<string | undefined>
  refused: boolean
  token(): Promise<string | undefined>
}

/** An identity provider, an authorization server and the metadata of an MCP server, for one test. */
async function company(idp: object, test: (company: Company) => Promise<void>): Promise<void> {
  const seen: { idp: Company['idp']; as: Company['as']; secrets: Company['secrets'] } = { idp: [], as: [], secrets: [] }
  const state = { refused: false }
  const { origin, close } = await listenOnFreePort((own) => async (request, response) => {
    const answer = (body: object, status = 200): void =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const form = Object.fromEntries(new URLSearchParams(Buffer.concat(chunks).toString()))
    const said = oauthMetadata(own, request.url, { token_endpoint_auth_methods_supported: ['client_secret_basic'] })
    if (said) return answer(said)
    switch (request.url) {
      case '/idp':
        seen.idp.push(form)
        if (state.refused) return answer({ told: form['subject_token'] }, 500)
        return answer({
          access_token: 'the-grant',
          issued_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
          token_type: 'N_A',
        })
      case '/token':
        seen.as.push(form)
        seen.secrets.push(request.headers.authorization)
        return answer({ access_token: 'the-token', token_type: 'Bearer', expires_in: 60 })
      default:
        return answer({}, 404)
    }
  })
  const auth = {
    type: 'enterprise',
    clientId: 'pegboard',
    clientSecret: 'hush',
    scopes: 'read',
    idp: { tokenEndpoint: `${origin}/idp`, clientId: 'at-idp', ...idp },
  }
  const settings = settingsOf({ web: { url: `${origin}/mcp`, auth } })['web']
  if (!settings) throw new Error('no settings')
  try {
    await test(
      Object.assign(state, seen, {
        async token() {
          const site = await createSite('web', settings, settings.target as HttpTarget)
          try {
            return (await clientCredentials(site, undefined, systemClock)).tokens?.access_token
          } finally {
            await site.close()
          }
        },
      }),
    )
  } finally {
    close()
  }
}

it('an ID token is exchanged for a grant for one authorization server and resource, and that for a token', () =>
  company({ idToken: 'who-i-am', clientSecret: 'idp-hush' }, async ({ token, idp, as, secrets }) => {
    expect(await token()).toBe('the-token')
    const own = String(idp[0]?.['audience'])
    expect(idp).toEqual([
      {
        grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
        requested_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
        audience: own,
        resource: `${own}/mcp`,
        subject_token: 'who-i-am',
        subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
        client_id: 'at-idp',
        client_secret: 'idp-hush',
        scope: 'read',
      },
    ])
    expect(as).toEqual([
      {
        grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
        assertion: 'the-grant',
        scope: 'read',
        resource: `${own}/mcp`,
      },
    ])
    expect(secrets).toEqual([`Basic ${Buffer.from('pegboard:hush').toString('base64')}`])
  }))

it('an ID token in a file is read at each use, and a missing file is reported without its path', () =>
  withFolder(async (dir) => {
    const idTokenFile = join(dir, 'id-token')
    await company({ idTokenFile }, async ({ token, idp }) => {
      await expect(token()).rejects.toThrow('web: the file with the ID token cannot be read.')
      for (const one of ['first', 'second']) {
        writeFileSync(idTokenFile, `${one}\n`)
        await token()
      }
      expect(idp.map((form) => form['subject_token'])).toEqual(['first', 'second'])
    })
  }))

it("an identity provider's rejection gives no grant, and its response is not revealed", () =>
  company({ idToken: 'who-i-am' }, async (company) => {
    company.refused = true
    await expect(company.token()).rejects.toThrow('web: the identity provider gave no grant.')
    expect(company.as).toEqual([])
  }))
