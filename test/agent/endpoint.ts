import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Answer } from '../app.ts'

/** The model's reply to a request: a message, or a response of the server with its status. */
export type Reply = { readonly message: object } | { readonly status: number; readonly body: string }
/**
 * @param body of the request
 * @param round number of earlier requests
 */
export type Script = (body: Answer, round: number) => Reply | Promise<Reply>

export interface ScriptedEndpoint {
  readonly baseUrl: string
  /** Every request body, in order. */
  readonly requests: Answer[]
  readonly authorization: (string | undefined)[]
}

/** A scripted model behind a local OpenAI-compatible server; stopped with the test. */
export async function scriptedEndpoint(script: Script): Promise<ScriptedEndpoint> {
  const requests: Answer[] = []
  const authorization: (string | undefined)[] = []
  const server = createServer(async (req, res) => {
    const body = JSON.parse(await textOf(req))
    const round = requests.push(body) - 1
    authorization.push(req.headers.authorization)
    const reply = await script(body, round)
    res.setHeader('content-type', 'application/json')
    if ('status' in reply) {
      res.statusCode = reply.status
      res.end(reply.body)
      return
    }
    const message = { role: 'assistant', content: null, ...reply.message }
    const finish_reason = 'tool_calls' in message ? 'tool_calls' : 'stop'
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    res.end(
      JSON.stringify({
        id: `chat-${round}`,
        object: 'chat.completion',
        created: 1,
        model: body.model,
        choices: [{ index: 0, message, finish_reason }],
        usage,
      }),
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  const { port } = server.address() as AddressInfo
  return { baseUrl: `http://127.0.0.1:${port}/v1`, requests, authorization }
}

async function textOf(req: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of req) text += chunk
  return text
}

/** A name and arguments. */
export type Call = readonly [string, object]

/** A message that calls tools. */
export const calling = (...calls: readonly Call[]): Reply => ({
  message: {
    tool_calls: calls.map(([name, args], at) => ({
      id: `id_${at}`,
      type: 'function',
      function: { name, arguments: JSON.stringify(args) },
    })),
  },
})
export const saying = (content: string): Reply => ({ message: { content } })
