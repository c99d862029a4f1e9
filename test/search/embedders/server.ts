import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Asked {
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly body: { model: string; input: string[]; dimensions?: number }
}

export interface EmbeddingsServer {
  /** `http://127.0.0.1:<port>/v1` */
  readonly base: string
  /** Every request, in order. */
  readonly asked: Asked[]
  close(): Promise<void>
}

/** Answers a request and returns true, or leaves it to the server. `turn` counts from 1. */
export type Interruption = (response: ServerResponse, asked: Asked, turn: number) => boolean

/** Letters of a text along three axes: "aab" is [2, 1, 0]. */
export const vectorOf = (text: string): number[] =>
  ['a', 'b', 'c'].map((letter) => [...text].filter((one) => one === letter).length)

/** Implements `POST /v1/embeddings` on a free port; returns vectors in reverse order, each with its index. */
export async function embeddingsServer(interrupt: Interruption = () => false): Promise<EmbeddingsServer> {
  const asked: Asked[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = JSON.parse(Buffer.concat(chunks).toString())
    const one: Asked = { url: request.url ?? '', headers: request.headers, body }
    asked.push(one)
    if (interrupt(response, one, asked.length)) return
    reply(response, 200, {
      object: 'list',
      model: one.body.model,
      data: one.body.input.map((text, index) => ({ object: 'embedding', index, embedding: vectorOf(text) })).reverse(),
      usage: { prompt_tokens: 1, total_tokens: 1 },
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    base: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    asked,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

export function reply(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): true {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
  return true
}
