import { describe, expect, it } from 'vitest'
import { localCaller } from '../../../src/core/context.ts'
import { defaultProfile } from '../../../src/core/profile.ts'
import { noRelay } from '../../../src/core/tool.ts'
import { testContext } from '../../context.ts'
import { type Rig as Served, until, withServers } from '../host.ts'
import { type Rig, withRig } from './rig.ts'

const auth = { perPrincipal: true }
const callerOf = (principal: string) => ({ ...localCaller, principal })

/** Calls `who` as a principal, and gives the account whose token was used. */
async function who({ tool }: Served, principal: string): Promise<string> {
  const result = await tool('mcp_web.who').run({}, testContext({ caller: callerOf(principal) }), noRelay)
  return JSON.stringify(result)
}

const served = ({ server, store }: Rig, test: (served: Served) => Promise<void>): Promise<void> =>
  withServers({ web: { url: server.url, auth } }, test, { tokens: async () => store, wait: false })

describe('a server where every principal logs in for itself', () => {
  it('is called with the tokens of whoever calls, and hidden from those without [UPS-22]', () =>
    withRig(async (rig) => {
      await rig.login(auth, {}, 'ann')
      await rig.login(auth, {}, 'bob')
      await served(rig, async (host) => {
        await until(() => host.upstreams.status()[0]?.state === 'ready')
        expect(await who(host, 'ann')).toContain('"ann"')
        expect(await who(host, 'bob')).toContain('"bob"')
        const answers = await Promise.all(['ann', 'bob', 'ann', 'bob'].map((name) => who(host, name)))
        expect(answers.map((answer) => /ann|bob/.exec(answer)?.[0])).toEqual(['ann', 'bob', 'ann', 'bob'])
        expect(host.tool('mcp_web.who').available(callerOf('ann'), defaultProfile)).toBe(true)
        expect(host.tool('mcp_web.who').available(callerOf('eve'), defaultProfile)).toBe(
          'run `pegboard auth web --principal eve`',
        )
        await expect(who(host, 'eve')).rejects.toMatchObject({ code: 'E_AUTH_REQUIRED' })
      })
    }))

  it('shows its tools to someone as soon as they are logged in', () =>
    withRig(async (rig) => {
      await rig.login(auth, {}, 'ann')
      await served(rig, async (host) => {
        await until(() => host.upstreams.status()[0]?.state === 'ready')
        await rig.login(auth, {}, 'bob')
        await until(() => host.tool('mcp_web.who').available(callerOf('bob'), defaultProfile) === true)
        expect(await who(host, 'bob')).toContain('"bob"')
      })
    }))

  it('lists no resources, and reads those it is asked for with the login of whoever asks', () =>
    withRig(
      async (rig) => {
        await rig.login(auth, {}, 'ann')
        await rig.login(auth, {}, 'bob')
        await served(rig, async (host) => {
          await until(() => host.upstreams.status()[0]?.state === 'ready')
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
          // Nobody's login, or one shared by all, will not do.
          await expect(read({})).rejects.toMatchObject({ code: -32601 })
          await expect(read({ principal: 'ann' }, 'resources/subscribe')).rejects.toMatchObject({ code: -32601 })
          await expect(read({ principal: 'ann' }, 'tasks/get')).rejects.toMatchObject({ code: -32601 })
        })
      },
      { resource: { readable: true } },
    ))

  it('says how to log in while nobody is', () =>
    withRig((rig) =>
      served(rig, async (host) => {
        await until(() => host.upstreams.status()[0]?.state === 'failing')
        expect(host.upstreams.status()[0]?.reason).toBe('it wants a login: run `pegboard auth web --principal local`')
        await rig.login(auth, {}, 'bob')
        await until(() => host.upstreams.status()[0]?.state === 'ready')
        expect(await who(host, 'bob')).toContain('"bob"')
      }),
    ))

  it.each([
    ['private', 2],
    ['public', 1],
  ])(
    'whose lists are %s is asked for as many as it takes, and nobody sees those of another [UPS-22]',
    (cacheScope, lists) =>
      withRig(
        async (rig) => {
          await rig.login(auth, {}, 'ann')
          await rig.login(auth, {}, 'bob')
          await served(rig, async (host) => {
            await until(() => host.upstreams.status()[0]?.state === 'ready')
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
