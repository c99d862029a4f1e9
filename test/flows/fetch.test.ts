import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'

const MODULE = `
  const input = { type: 'object', properties: { url: { type: 'string' }, method: { type: 'string' } } }
  const run = async ({ url, method }, ctx) => {
    const answer = await ctx.fetch(url, { method, signal: ctx.signal })
    return { status: answer.status, text: await answer.text() }
  }
  export default { name: 'fetcher', description: 'Fetches.', tools: {
    any: { description: 'Asks for an address with any method.', effect: 'write', input, run },
    looks: { description: 'Asks for an address and only reads.', effect: 'read', readOnly: true, input, run } } }`

async function fetcher(services: object) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules/fetcher.mjs'), MODULE)
  const server = createServer((request, answer) => answer.end(request.method))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { app } = await startApp({ exposure: { mode: 'direct' }, services }, dir)
  const client = await connectTo(app)
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return (action: string, method: string) => client.callTool({ name: `fetcher__${action}`, arguments: { url, method } })
}

describe('ctx.fetch', () => {
  it('reaches public addresses only, and a refusal names the setting', async () => {
    const call = await fetcher({})
    const refused = await call('any', 'GET')
    expect(refused.isError).toBe(true)
    expect(JSON.stringify(refused)).toContain('E_SSRF_BLOCKED')
    expect(JSON.stringify(refused)).toContain(
      'Use another address, or ask the operator to change services.fetch.allowPrivate.',
    )
  })

  it('reaches this machine if the operator allows it, and only with reading methods for read-only tools', async () => {
    const call = await fetcher({ fetch: { allowPrivate: true } })
    expect(answerOf(await call('any', 'POST'))).toEqual({ status: 200, text: 'POST' })
    expect(answerOf(await call('looks', 'GET'))).toEqual({ status: 200, text: 'GET' })
    expect(JSON.stringify(await call('looks', 'POST'))).toContain('E_READ_ONLY_CONTRACT')
  })
})
