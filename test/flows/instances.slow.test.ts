import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { connectWithToken, startHttpApp } from '../security/http-app.ts'
import { soonest } from '../security/lag.ts'
import { TOKEN } from '../server/echo.ts'
import { alive, scripted, until } from '../upstream/host.ts'

const ANN = 'a-token-that-is-ann-alone'
const BOB = 'a-token-that-is-bob-alone'
const tokens = [
  { token: ANN, principal: 'ann' },
  { token: BOB, principal: 'bob' },
]
const fixture = join(import.meta.dirname, '../fixtures/upstreams/pages.mjs')
const plain = (...args: string[]) => ({ command: process.execPath, args: [fixture, ...args] })

/** The fixture at the path of an npm package of a browser server. */
function installed() {
  const folder = join(temporaryFolder(), 'node_modules/@playwright/mcp')
  mkdirSync(folder, { recursive: true })
  cpSync(fixture, join(folder, 'cli.mjs'))
  return { command: process.execPath, args: [join(folder, 'cli.mjs')] }
}

const text = async (one: Client, tool: string, args = {}): Promise<string> => {
  const result = (await one.callTool({ name: `web__${tool}`, arguments: args })) as Answer
  return result.content[0].text
}

const served = (entry: object, http = {}) => startHttpApp({ tokens, ...http }, { mcpServers: { web: entry } })
const status = ({ app }: Awaited<ReturnType<typeof served>>) => app.upstreams.status()[0]

it('a known browser server runs once for each session, so that clients do not share a page', async () => {
  const server = await served(installed())
  const [ann, bob] = [
    await connectWithToken(server.url, ANN, 'legacy'),
    await connectWithToken(server.url, BOB, 'legacy'),
  ]
  await text(ann, 'navigate', { url: 'https://ann.example/private' })
  await text(bob, 'navigate', { url: 'https://bob.example' })
  expect(await text(ann, 'snapshot')).toBe('https://ann.example/private')
  expect(await text(bob, 'snapshot')).toBe('https://bob.example')
  const read = async (one: Client) => (await one.readResource({ uri: 'page://now' })).contents[0]
  expect(await read(ann)).toMatchObject({ text: 'https://ann.example/private' })
  expect(await read(bob)).toMatchObject({ text: 'https://bob.example' })
  expect(status(server)).toMatchObject({ instance: 'session', instances: 2, tools: 3 })
  expect((await ann.listTools()).tools).toEqual((await bob.listTools()).tools)
})

it('it runs once for each principal where clients have no sessions', async () => {
  const server = await served(installed())
  const [ann, bob] = [
    await connectWithToken(server.url, ANN, 'modern'),
    await connectWithToken(server.url, BOB, 'modern'),
  ]
  await text(ann, 'navigate', { url: 'https://ann.example/private' })
  expect(await text(bob, 'snapshot')).toBe('about:blank')
  expect(await text(ann, 'snapshot')).toBe('https://ann.example/private')
  expect(await text(await connectWithToken(server.url, ANN, 'modern'), 'snapshot')).toBe('https://ann.example/private')
})

it("a session's instances stop when the session ends, including the first process", async () => {
  const server = await served(installed())
  const [ann, bob] = [
    await connectWithToken(server.url, ANN, 'legacy'),
    await connectWithToken(server.url, BOB, 'legacy'),
  ]
  const [first, second] = [Number(await text(ann, 'pid')), Number(await text(bob, 'pid'))]
  expect(first).not.toBe(second)
  for (const [one, pid] of [
    [ann, first],
    [bob, second],
  ] as const) {
    await (one.transport as unknown as { terminateSession(): Promise<void> }).terminateSession()
    await until(() => !alive(pid))
  }
  // Nobody gets the page of an ended session.
  const next = await connectWithToken(server.url, TOKEN, 'legacy')
  expect(await text(next, 'snapshot')).toBe('about:blank')
})

it('other servers are shared, and any server if the operator says so', async () => {
  const server = await served(plain())
  const [ann, bob] = [
    await connectWithToken(server.url, ANN, 'legacy'),
    await connectWithToken(server.url, BOB, 'modern'),
  ]
  await text(ann, 'navigate', { url: 'https://shared.example' })
  expect(await text(bob, 'snapshot')).toBe('https://shared.example')
  expect(status(server)).toMatchObject({ instance: 'shared' })
  const told = await served({ ...installed(), instance: 'shared' })
  const [carl, dora] = [
    await connectWithToken(told.url, ANN, 'legacy'),
    await connectWithToken(told.url, BOB, 'legacy'),
  ]
  await text(carl, 'navigate', { url: 'https://shared.example' })
  expect(await text(dora, 'snapshot')).toBe('https://shared.example')
})

it('each principal has one instance with "principal"', async () => {
  const server = await served({ ...plain(), instance: 'principal' })
  const [one, other] = [
    await connectWithToken(server.url, ANN, 'legacy'),
    await connectWithToken(server.url, ANN, 'legacy'),
  ]
  await text(one, 'navigate', { url: 'https://ann.example' })
  expect(await text(other, 'snapshot')).toBe('https://ann.example')
  expect(await text(await connectWithToken(server.url, BOB, 'legacy'), 'snapshot')).toBe('about:blank')
})

it('more instances than the limit are rejected, with the name of the setting', async () => {
  const server = await served({ ...installed(), maxInstancesPerPrincipal: 1, maxInstances: 3 })
  const call = async (token: string) => {
    const one = await connectWithToken(server.url, token, 'legacy')
    const { isError, structuredContent } = (await one.callTool({ name: 'web__pid', arguments: {} })) as Answer
    return { isError: isError === true, error: structuredContent?.error }
  }
  expect((await call(BOB)).isError).toBe(false)
  expect((await call(ANN)).isError).toBe(false)
  expect(await call(ANN)).toMatchObject({
    error: { code: 'E_OVERLOADED', hint: expect.stringContaining('mcpServers.web.maxInstancesPerPrincipal') },
  })
  expect((await call(TOKEN)).isError).toBe(false)
  expect(await call(BOB)).toMatchObject({
    error: { code: 'E_OVERLOADED', hint: expect.stringContaining('mcpServers.web.maxInstances.') },
  })
})

it('an instance that is unused for idleStopMs is stopped', async () => {
  const server = await served({ ...installed(), idleStopMs: 300 })
  const [ann, bob] = [
    await connectWithToken(server.url, ANN, 'legacy'),
    await connectWithToken(server.url, BOB, 'legacy'),
  ]
  const pids = [Number(await text(ann, 'pid')), Number(await text(bob, 'pid'))]
  await until(() => !pids.some(alive))
  expect(status(server)?.instances).toBe(0)
  expect(Number(await text(ann, 'pid'))).not.toBe(pids[0])
})

it('the first result after that warns that the state is gone, if the server keeps state', async () => {
  const results = async (entry: object) => {
    const server = await served({ ...entry, idleStopMs: 300 })
    const [ann, bob] = [
      await connectWithToken(server.url, ANN, 'legacy'),
      await connectWithToken(server.url, BOB, 'legacy'),
    ]
    const call = async (one: Client): Promise<string> =>
      JSON.stringify((await one.callTool({ name: 'web__snapshot' })).content)
    for (const one of [ann, bob]) expect(await call(one)).not.toContain('Warning')
    await until(() => !status(server)?.instances && status(server)?.state !== 'ready')
    const [annAgain, bobAgain] = [await call(ann), await call(bob)]
    expect(await call(await connectWithToken(server.url, TOKEN, 'legacy'))).not.toContain('Warning')
    return [annAgain, bobAgain]
  }
  for (const text of await results(installed())) expect(text).toContain('Warning: web was stopped because it was idle')
  for (const text of await results(plain())) expect(text).not.toContain('Warning')
})

it('changes and log messages of an instance go to its own session only', async () => {
  const server = await served(installed())
  const [ann, bob] = [
    await connectWithToken(server.url, ANN, 'legacy'),
    await connectWithToken(server.url, BOB, 'legacy'),
  ]
  const heard: string[] = []
  for (const [name, one] of [
    ['ann', ann],
    ['bob', bob],
  ] as const) {
    one.setNotificationHandler('notifications/message', ({ params }) => void heard.push(`${name}: ${params.data}`))
    one.setNotificationHandler('notifications/resources/updated', () => void heard.push(`${name}: changed`))
    await one.setLoggingLevel('debug')
    await expect.poll(async () => JSON.stringify(await one.listResources())).toContain('page://now')
    await one.subscribeResource({ uri: 'page://now' })
    await text(one, 'pid')
  }
  await text(ann, 'navigate', { url: 'https://ann.example/1' })
  await text(bob, 'navigate', { url: 'https://bob.example/1' })
  await until(() => heard.length >= 4)
  await sleep(100)
  expect(heard.sort()).toEqual([
    'ann: at https://ann.example/1',
    'ann: changed',
    'bob: at https://bob.example/1',
    'bob: changed',
  ])
})

it('the one client of stdio uses one process', async () => {
  const { app } = await startApp({ exposure: { mode: 'direct' }, mcpServers: { web: installed() } })
  const one = await connectTo(app)
  await text(one, 'navigate', { url: 'https://one.example' })
  expect(await text(one, 'snapshot')).toBe('https://one.example')
  expect(app.upstreams.status()[0]).toMatchObject({ instance: 'session', instances: 1 })
})

describe('a 2025-era server that sends requests', () => {
  const asks = () => ({ ...scripted(), start: 'eager' })
  const form = { capabilities: { elicitation: { form: {} } } }
  const wait = (one: Client) => text(one, 'wait', { ms: 1_000 })
  const asking = async (url: string, era: 'legacy' | 'modern', name: string) => {
    const one = await connectWithToken(url, ANN, era, form)
    one.setRequestHandler('elicitation/create', async () => ({ action: 'accept' as const, content: { name } }))
    return one
  }

  it.each(['legacy', 'modern'] as const)('lets eight %s clients call in parallel after it has asked', async (era) => {
    const server = await served(asks())
    const clients = await Promise.all(Array.from({ length: 8 }, (_, n) => asking(server.url, era, `n${n}`)))
    expect(JSON.parse(await text(clients[0] as Client, 'ask_person'))).toMatchObject({ content: { name: 'n0' } })
    // Started one after the other, because the test measures the waiting.
    for (const one of clients) await text(one, 'echo', { text: 'x' })
    const took = await soonest(4_000, async () => {
      const began = performance.now()
      await Promise.all(clients.map(wait))
      return performance.now() - began
    })
    expect(took).toBeLessThan(4_000)
    // Each client answers its own question.
    for (const [n, one] of clients.entries())
      expect(JSON.parse(await text(one, 'ask_person'))).toMatchObject({ content: { name: `n${n}` } })
  })

  it.each(['legacy', 'modern'] as const)(
    'delays no other call because of a question that a %s client never answers',
    async (era) => {
      const server = await served(asks())
      const silent = await connectWithToken(server.url, ANN, era, form)
      silent.setRequestHandler('elicitation/create', () => new Promise<never>(() => undefined))
      void text(silent, 'ask_person').catch(() => undefined)
      await until(() => status(server)?.instance === 'session')
      const others = [await asking(server.url, 'legacy', 'bob'), await asking(server.url, 'modern', 'cy')]
      await Promise.all(others.map((one) => text(one, 'echo', { text: 'x' })))
      for (const [n, name] of ['bob', 'cy'].entries())
        expect(JSON.parse(await text(others[n] as Client, 'ask_person'))).toMatchObject({ content: { name } })
    },
  )
})
