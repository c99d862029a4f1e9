import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { type Answer, answerOf, startApp } from '../app.ts'
import { connectTo } from '../client.ts'
import { fixture, type Mock, serveDocument } from '../openapi/mock.ts'

const mocks: Record<string, Mock> = {}
const DOCUMENTS = { github: 'github.json', twilio: 'twilio-notify.json', adyen: 'adyen-transfers.yaml' }

beforeAll(async () => {
  for (const [id, name] of Object.entries(DOCUMENTS)) mocks[id] = await serveDocument(fixture(name))
}, 60_000)
afterAll(async () => {
  await Promise.all(Object.values(mocks).map((mock) => mock.close()))
})

const api = (id: keyof typeof DOCUMENTS, more: object = {}) => ({
  document: fixture(DOCUMENTS[id]),
  baseUrl: mocks[id]?.url,
  ...more,
})

async function start(openapi: Record<string, unknown>) {
  const { app } = await startApp({ exposure: { mode: 'discovery' }, openapi })
  await app.settled(20_000)
  return { app, client: await connectTo(app, 'legacy') }
}
type Client = Awaited<ReturnType<typeof start>>['client']

const tool = async (client: Client, name: string, params: object): Promise<Answer> =>
  client.callTool({ name: 'execute_tool', arguments: { name, params } })

/** Finds a tool by its purpose, reads its schema and runs it. */
async function find(client: Client, query: string, name: string): Promise<Answer> {
  const found = answerOf(await client.callTool({ name: 'search_tools', arguments: { query } }))
  expect(found.tools.map((one: { name: string }) => one.name)).toContain(name)
  return answerOf(await client.callTool({ name: 'get_tool', arguments: { name } }))
}

describe('the API of GitHub (3.0, JSON, bearer token)', () => {
  it('has operations that are found, read and called', async () => {
    const { client, app } = await start({
      github: api('github', { auth: { type: 'bearer', token: 'ghp_secret1234' } }),
    })
    expect(app.apis.status()).toEqual([{ id: 'github', module: 'api_github', state: 'ready', tools: 47 }])
    const listed = await find(client, 'list the issues of a repository', 'api_github.issues_list-for-repo')
    expect(listed.parameters.required).toEqual(['owner', 'repo'])
    expect(listed.parameters.properties.state.enum).toEqual(['open', 'closed', 'all'])
    expect(JSON.stringify(listed)).not.toContain('$ref')
    const issues = await tool(client, 'api_github.issues_list-for-repo', {
      owner: 'octocat',
      repo: 'Hello-World',
      labels: 'bug,ui,@high',
      per_page: 5,
    })
    expect(issues.isError).toBeFalsy()
    expect(issues.structuredContent.items[0].title).toBe('Found a bug')
    const created = await tool(client, 'github__issues_create', {
      owner: 'octocat',
      repo: 'Hello-World',
      title: 'It broke',
      labels: ['bug'],
    })
    expect(created.structuredContent).toMatchObject({ number: 1347 })
    await client.close()
  })

  it('returns text, empty responses and errors as they are', async () => {
    const { client } = await start({ github: api('github') })
    const zen = await tool(client, 'api_github.meta_get-zen', {})
    expect(zen.content).toEqual([{ type: 'text', text: 'Responsive is better than fast' }])
    const starred = await tool(client, 'api_github.gists_star', { gist_id: 'abc' })
    expect(starred.content).toEqual([{ type: 'text', text: 'Done: 204 No Content.' }])
    const html = await tool(client, 'api_github.markdown_render-raw', { body: '**x**' })
    expect(html.isError).toBeFalsy()
    const wrong = await tool(client, 'api_github.issues_create', { owner: 'a', repo: 'b', labels: [] })
    expect(wrong.isError).toBe(true)
    expect(JSON.stringify(wrong.structuredContent)).toContain('E_VALIDATION')
    await client.close()
  })
})

describe('the API of Twilio (3.0, forms, basic authentication)', () => {
  const auth = { type: 'basic', username: 'AC0123', password: 'not-a-real-token' }
  const service = 'ISaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'

  it('accepts forms with lists', async () => {
    const { client } = await start({ twilio: api('twilio', { auth }) })
    const read = await find(client, 'send a notification to identities', 'api_twilio.CreateNotification')
    expect(read.parameters.required).toEqual(['ServiceSid'])
    const sent = await tool(client, 'api_twilio.CreateNotification', {
      ServiceSid: service,
      Body: 'Hello & goodbye',
      Identity: ['00000001', '00000002'],
      Data: { custom: 'a=b' },
    })
    expect(sent.isError, JSON.stringify(sent)).toBeFalsy()
    expect(sent.structuredContent).toHaveProperty('sid')
    await client.close()
  })

  it('is rejected without credentials, which are never revealed', async () => {
    const { client } = await start({ twilio: api('twilio') })
    const refused = await tool(client, 'api_twilio.ListService', {})
    expect(refused.isError).toBe(true)
    expect(refused.structuredContent.error).toMatchObject({ code: 'E_TOOL_FAILED', retryable: false })
    expect(refused.structuredContent.error.message).toContain('twilio ListService was answered 401 Unauthorized')
    await client.close()
  })
})

describe('the API of Adyen (3.1, YAML, key in a header or basic)', () => {
  it('is called with credentials for one of its schemes', async () => {
    const { client } = await start({
      adyen: api('adyen', { auth: { ApiKeyAuth: { type: 'apiKey', value: 'AQE-secret-key' } } }),
    })
    const read = await find(client, 'transactions of an account', 'api_adyen.get-transactions')
    expect(read.parameters.required).toEqual(expect.arrayContaining(['createdSince', 'createdUntil']))
    const listed = await tool(client, 'api_adyen.get-transactions', {
      createdSince: '2026-01-01T00:00:00Z',
      createdUntil: '2026-02-01T00:00:00Z',
      accountHolderId: 'AH00000000000000000000001',
    })
    expect(listed.isError, JSON.stringify(listed)).toBeFalsy()
    expect(listed.structuredContent).toHaveProperty('data')
    const made = await tool(client, 'api_adyen.post-transfers', {
      amount: { value: 110000, currency: 'EUR' },
      balanceAccountId: 'BAB8B2C3D4E5F6G7H8D9J6GD4',
      category: 'bank',
      counterparty: {
        bankAccount: {
          accountHolder: { fullName: 'A. Klaassen' },
          accountIdentification: { type: 'iban', iban: 'NL91ABNA0417164300' },
        },
      },
    })
    expect(made.isError, JSON.stringify(made)).toBeFalsy()
    await client.close()
  })
})

describe('an operation that replaces a tool', () => {
  const named = {
    command: process.execPath,
    args: [fileURLToPath(new URL('../fixtures/upstreams/named.mjs', import.meta.url)), 'zen', 'other'],
    start: 'background',
  }
  const begin = async (more: object) => {
    const tools = { 'meta/get-zen': { replaces: 'wise.zen' } }
    const { app } = await startApp({
      exposure: { mode: 'direct' },
      mcpServers: { wise: named },
      openapi: { github: api('github', { tools, ...more }) },
    })
    await app.settled(20_000)
    return { app, client: await connectTo(app, 'legacy') }
  }
  const listed = async (client: Client) => (await client.listTools()).tools.map(({ name }) => name)

  it('is listed and called in its place', async () => {
    const { app, client } = await begin({})
    const names = await listed(client)
    expect(names).toEqual(expect.arrayContaining(['github__meta_get-zen', 'wise__other']))
    expect(names).not.toContain('wise__zen')
    expect(app.view(localCaller).hidden.get('mcp_wise.zen')?.reason).toBe('replaced by api_github.meta_get-zen')
    const zen = await client.callTool({ name: 'github__meta_get-zen', arguments: {} })
    expect(zen.content).toEqual([{ type: 'text', text: 'Responsive is better than fast' }])
    expect(await client.callTool({ name: 'wise__zen', arguments: {} })).toMatchObject({ isError: true })
    expect(app.nameProblems()).toEqual([])
    await client.close()
  })

  it('replaces it only while it exists', async () => {
    const { client } = await begin({ deny: ['meta/get-zen'] })
    const names = await listed(client)
    expect(names).toContain('wise__zen')
    expect(names).not.toContain('github__meta_get-zen')
    const zen = await client.callTool({ name: 'wise__zen', arguments: {} })
    expect(zen.content).toEqual([{ type: 'text', text: 'zen' }])
    await client.close()
  })
})
