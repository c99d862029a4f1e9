import { describe, expect, it } from 'vitest'
import { localCaller } from '../../../src/core/caller.ts'
import { defaultProfile } from '../../../src/core/profile.ts'
import { noRelay } from '../../../src/core/tool.ts'
import { answerOf } from '../../app.ts'
import { callTool } from '../../client.ts'
import { testContext } from '../../context.ts'
import { connectWithToken, startHttpApp } from '../../security/http-app.ts'
import { TOKEN } from '../../server/echo.ts'
import { type Rig as Served, until, withServers } from '../host.ts'
import { type OAuthServers, withOAuthServers } from './oauth-servers.ts'

const auth = { perPrincipal: true }
const callerOf = (principal: string) => ({ ...localCaller, principal })

/** Calls `who` as a principal, and returns the account of the used token. */
async function who({ tool }: Served, principal: string): Promise<string> {
  const result = await tool('mcp_web.who').run({}, testContext({ caller: callerOf(principal) }), noRelay)
  return JSON.stringify(result)
}

const served = ({ server, store }: OAuthServers, test: (served: Served) => Promise<void>): Promise<void> =>
  withServers({ web: { url: server.url, auth } }, test, { tokens: async () => store, wait: false })

const ready = ({ upstreams }: Served) => until(() => upstreams.status()[0]?.state === 'ready')

/** Logs in while Pegboard runs, and checks that the principal can call the tool. */
async function logInAndCall(rig: OAuthServers, host: Served, principal: string): Promise<void> {
  await rig.login(auth, {}, principal)
  await ready(host)
  await until(() => host.tool('mcp_web.who').available(callerOf(principal), defaultProfile) === true)
  expect(await who(host, principal)).toContain(`"${principal}"`)
}

describe('a server with a login for each principal', () => {
  it("is called with the caller's tokens, and hidden from callers without [UPS-22]", () =>
    withOAuthServers(async (rig) => {
      await rig.login(auth, {}, 'ann')
      await rig.login(auth, {}, 'bob')
      await served(rig, async (host) => {
        await ready(host)
        expect(await who(host, 'ann')).toContain('"ann"')
        expect(await who(host, 'bob')).toContain('"bob"')
        const answers = await Promise.all(['ann', 'bob', 'ann', 'bob'].map((name) => who(host, name)))
        expect(answers.map((answer) => /ann|bob/.exec(answer)?.[0])).toEqual(['ann', 'bob', 'ann', 'bob'])
        expect(host.tool('mcp_web.who').available(callerOf('ann'), defaultProfile)).toBe(true)
        expect(host.tool('mcp_web.who').available(callerOf('eve'), defaultProfile)).toBe(
          'run `pegboard auth web --principal eve`',
        )
        expect(host.tool('mcp_web.who').available(callerOf('oauth:$(id)'), defaultProfile)).toBe(
          "run `pegboard auth web --principal 'oauth:$(id)'`",
        )
        await expect(who(host, 'eve')).rejects.toMatchObject({ code: 'E_AUTH_REQUIRED' })
      })
    }))

  it('shows its tools as soon as someone is logged in', () =>
    withOAuthServers(async (rig) => {
      await rig.login(auth, {}, 'ann')
      await served(rig, async (host) => {
        await ready(host)
        await logInAndCall(rig, host, 'bob')
      })
    }))

  it("lists no resources, and reads them with the caller's login", () =>
    withOAuthServers(
      async (rig) => {
        await rig.login(auth, {}, 'ann')
        await rig.login(auth, {}, 'bob')
        await served(rig, async (host) => {
          await ready(host)
          const owner = host.catalog.snapshot().owners.get('mcp_web')
          expect(owner?.resources).toEqual([])
          const read = (relay: object, method = 'resources/read'): Promise<unknown> | undefined =>
            owner?.endpoints?.request(
              method,
              { uri: 'file:///own' },
              { ...noRelay, ...relay },
              AbortSignal.timeout(10_000),
            )
          for (const principal of ['bob', 'ann'])
            expect(await read({ principal })).toMatchObject({ contents: [{ uri: 'file:///own', text: principal }] })
          await expect(read({ principal: 'eve' })).rejects.toMatchObject({ code: 'E_AUTH_REQUIRED' })
          // A missing or shared login is rejected.
          await expect(read({})).rejects.toMatchObject({ code: -32601 })
          await expect(read({ principal: 'ann' }, 'resources/subscribe')).rejects.toMatchObject({ code: -32601 })
          await expect(read({ principal: 'ann' }, 'tasks/get')).rejects.toMatchObject({ code: -32601 })
        })
      },
      { resource: { readable: true } },
    ))

  it('names the login of the caller while nobody is logged in', () =>
    withOAuthServers(async (rig) => {
      const token = 'a-token-for-bob-and-nobody-else'
      const server = await startHttpApp(
        { tokens: [{ token, principal: 'bob' }] },
        { mcpServers: { web: { url: rig.server.url, auth } }, modules: { mcp: { enabled: true } } },
      )
      await until(() => server.app.upstreams.status()[0]?.state === 'failing')
      const login = (principal: string) => `it requires a login: run \`pegboard auth web --principal ${principal}\``
      const seen = async (principal: string, as: string) => {
        const of = await connectWithToken(server.url, as)
        const answer = await callTool(of, { name: 'web__who', arguments: {} })
        const { categories } = answerOf(await of.callTool({ name: 'list_categories', arguments: {} }))
        const { servers } = answerOf(await of.callTool({ name: 'mcp__list_servers', arguments: {} }))
        expect([answer.structuredContent.error, categories, servers]).toEqual([
          expect.objectContaining({ code: 'E_AUTH_REQUIRED', message: `mcp_web: ${login(principal)}.` }),
          expect.arrayContaining([expect.objectContaining({ id: 'mcp_web', reason: login(principal) })]),
          [expect.objectContaining({ id: 'web', reason: login(principal) })],
        ])
      }
      await seen('bob', token)
      await seen('local', TOKEN)
    }))

  it('says how to log in while no principal is logged in', () =>
    withOAuthServers((rig) =>
      served(rig, async (host) => {
        await until(() => host.upstreams.status()[0]?.state === 'failing')
        expect(host.upstreams.status()[0]?.reason).toBe('it requires a login: run `pegboard auth web --principal NAME`')
        await logInAndCall(rig, host, 'bob')
      }),
    ))

  it.each([
    ['private', 2],
    ['public', 1],
  ])(
    'with %s lists is asked as often as needed, and no principal sees the list of another [UPS-22]',
    (cacheScope, lists) =>
      withOAuthServers(
        async (rig) => {
          await rig.login(auth, {}, 'ann')
          await rig.login(auth, {}, 'bob')
          await served(rig, async (host) => {
            await ready(host)
            expect(host.tool('mcp_web.who').available(callerOf('ann'), defaultProfile)).toBe(true)
            await until(() => host.tool('mcp_web.who').available(callerOf('bob'), defaultProfile) === true)
            expect(host.tool('mcp_web.who').available(callerOf('eve'), defaultProfile)).not.toBe(true)
            expect(host.tool('mcp_web.secret').available(callerOf('ann'), defaultProfile)).toBe(true)
            expect(host.tool('mcp_web.secret').available(callerOf('bob'), defaultProfile) === true).toBe(
              cacheScope === 'public',
            )
            expect(rig.server.lists()).toBe(lists)
          })
        },
        { resource: { cacheScope } },
      ),
  )
})
