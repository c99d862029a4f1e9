import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

export const TOKEN = '123456789:AAE-very-secret_token-of-the-bot-000'

/** A chat platform in the form of a module. Its adapter uses a server over HTTP, like Telegram's API. */
export const adapterSource = (base: string, name = 'telegram'): string => `import { ToolError } from 'pegboard'
const base = '${base}/bot${TOKEN}'
export default { name: 'my_${name}', description: 'A chat platform for tests.', tools: {
  ping: { description: 'Says that the platform is there.', effect: 'read', run: () => 'pong' } },
  start({ services }) {
    this.remove = services.adapters.add({ name: '${name}', client: null, listServers: async () => [], sendFile: async () => null,
      async send(chat_id, text, about) {
        const answer = await fetch(base + '/sendMessage', { method: 'POST', headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ chat_id, text, about }) }).catch((error) => { throw new Error('POST ' + base + '/sendMessage: ' + error.message) })
        const { ok, description, parameters } = await answer.json()
        if (answer.status === 429) throw new ToolError(description, { code: 'E_RATE_LIMITED', retryAfterMs: parameters.retry_after * 1000 })
        if (!ok) throw new Error(description)
        return {}
      } }) },
  stop() { this.remove() } }\n`

export interface Got {
  readonly url: string
  readonly headers: Readonly<Record<string, unknown>>
  // biome-ignore lint/suspicious/noExplicitAny: what a request holds is what the test is about
  readonly body: any
}

/** A server on this machine that accepts messages; its answers can be set. */
export async function mailbox(answer: (got: Got) => { status?: number; body?: object } = () => ({})) {
  const got: Got[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const part of request) text += part
    const one = { url: request.url ?? '', headers: request.headers, body: JSON.parse(text) }
    got.push(one)
    const { status = 200, body = { ok: true, result: { message_id: 1 } } } = answer(one)
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = (): void => {
    server.closeAllConnections()
    server.close()
  }
  onTestFinished(close)
  return { got, close, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}
