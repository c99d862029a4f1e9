import { expect, it } from 'vitest'
import { isWanted, mostVerbose } from '../../src/core/log-levels.ts'
import { startApp } from '../app.ts'
import { connectTo } from '../client.ts'

const uri = 'doc://1'

/** Two clients at one server with a resource. */
async function two() {
  const { app } = await startApp({ exposure: { mode: 'direct' } })
  const asked: string[] = []
  app.catalog.set(
    { id: 'm', summary: 'm', origin: 'upstream', state: 'ready' },
    {
      tools: [],
      resources: [{ uri, entry: { uri, name: 'doc' } }],
      endpoints: {
        request: async (method) => {
          asked.push(method)
          return {}
        },
      },
    },
  )
  return { asked, ann: await connectTo(app, 'legacy'), bob: await connectTo(app, 'legacy') }
}

it("a client without subscriptions cannot end another's, and subscribing twice counts once", async () => {
  const { asked, ann, bob } = await two()
  await ann.subscribeResource({ uri })
  await ann.subscribeResource({ uri })
  await bob.unsubscribeResource({ uri })
  expect(asked).toEqual(['resources/subscribe'])
  await ann.unsubscribeResource({ uri })
  expect(asked).toEqual(['resources/subscribe', 'resources/unsubscribe'])
  await ann.close()
  await bob.close()
})

it('a client can subscribe to five hundred resources, each counted once, and to none with an overlong address', async () => {
  const { asked, ann, bob } = await two()
  await Promise.all([ann.subscribeResource({ uri }), ann.subscribeResource({ uri }), ann.subscribeResource({ uri })])
  expect(asked).toEqual(['resources/subscribe'])
  const tried = async (one: string) => await ann.subscribeResource({ uri: one }).catch((error) => error.code)
  expect(await tried(`doc://${'x'.repeat(2_000)}`)).toBe(-32602)
  for (let n = 2; n <= 500; n++) await ann.subscribeResource({ uri: `doc://${n}` })
  expect(await tried('doc://501')).toBe(-32602)
  await bob.subscribeResource({ uri: 'doc://501' })
  expect(asked).toHaveLength(501)
  await ann.close()
  await bob.close()
})

it('a server gets the most verbose level of all sessions, and each session gets its own', () => {
  expect(mostVerbose(['error', 'debug', 'alert'])).toBe('debug')
  expect(mostVerbose([])).toBeUndefined()
  expect(isWanted({ level: 'info' }, 'error')).toBe(false)
  expect(isWanted({ level: 'error' }, 'error')).toBe(true)
  expect(isWanted({ level: 'made up' }, 'error')).toBe(true)
})
