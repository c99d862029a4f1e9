import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

/** Requests to a language model. */
export interface AskedModel {
  readonly system: string
  readonly user: string
  /** The whole request body. */
  // biome-ignore lint/suspicious/noExplicitAny: what a request holds is what a test is about
  readonly body: any
}

export type Reply = string | object | ((asked: AskedModel) => string | object | Promise<string | object>)

/**
 * A server with OpenAI's `POST /chat/completions` that answers from a script: a list of replies, or a function of each
 * request. Pass `settings` as `services`.
 */
export async function languageModel(...replies: readonly Reply[]) {
  const asked: AskedModel[] = []
  const left = [...replies]
  const server = createServer(async (request, answer) => {
    let text = ''
    for await (const part of request) text += part
    const body = JSON.parse(text)
    const of = (role: string) => body.messages.find((one: { role: string }) => one.role === role)?.content ?? ''
    const question: AskedModel = { system: of('system'), user: of('user'), body }
    asked.push(question)
    const next = left.length === 1 && typeof left[0] === 'function' ? left[0] : left.shift()
    if (next === undefined) return answer.writeHead(500).end('the script of the test has no more replies')
    const reply = typeof next === 'function' ? await next(question) : next
    const content = typeof reply === 'string' ? reply : JSON.stringify(reply)
    return answer
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ model: 'scripted-1', choices: [{ message: { role: 'assistant', content } }] }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    asked,
    /** Unused replies. */
    left,
    settings: { llm: { baseUrl: `http://127.0.0.1:${port}/v1`, model: 'scripted' } },
  }
}
