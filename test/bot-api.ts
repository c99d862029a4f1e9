import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

export interface BotCall {
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
  /** Parts of a form that are files. */
  readonly files: Readonly<Record<string, { readonly name: string; readonly type: string; readonly bytes: Buffer }>>
  readonly userAgent: string | undefined
}

export interface BotServer {
  readonly url: string
  readonly calls: BotCall[]
  /** Calls of one method. */
  of(method: string): readonly BotCall[]
  /** The next result of `getUpdates`, which waits until there is one. */
  update(...updates: readonly object[]): void
  /** The next answer of a method, instead of the normal one. */
  answer(method: string, status: number, body: unknown): void
  /** Files for `getFile`, by id. */
  readonly stored: Map<string, Buffer>
}

export const TOKEN = '4242:AAE-secret_token_of_a_test'

/** A server that implements the Bot API of core.telegram.org/bots/api: paths, forms, envelopes, long polls. */
export async function botServer(token = TOKEN): Promise<BotServer> {
  const calls: BotCall[] = []
  const answers = new Map<string, { readonly status: number; readonly body: unknown }[]>()
  const stored = new Map<string, Buffer>()
  let updates: object[] = []
  let wake: () => void = () => undefined
  let messages = 100

  const paramsOf = async (type: string, body: Buffer) => {
    if (type.startsWith('application/json')) return { params: JSON.parse(body.toString()), files: {} }
    const params: Record<string, unknown> = {}
    const files: Record<string, { name: string; type: string; bytes: Buffer }> = {}
    const form = await new Response(Uint8Array.from(body), { headers: { 'content-type': type } }).formData()
    for (const [name, value] of form)
      if (typeof value === 'string') params[name] = value
      else files[name] = { name: value.name, type: value.type, bytes: Buffer.from(await value.arrayBuffer()) }
    return { params, files }
  }

  async function resultOf(method: string, params: Readonly<Record<string, unknown>>): Promise<unknown> {
    if (method === 'getMe') return { id: 4242, is_bot: true, first_name: 'Peg', username: 'peg_bot' }
    if (method === 'getChat') return { id: Number(params['chat_id']), type: 'private', first_name: 'Ann' }
    if (method === 'setMessageReaction') return true
    if (method === 'getFile') {
      const bytes = stored.get(String(params['file_id']))
      return { file_id: params['file_id'], file_size: bytes?.length, file_path: `documents/${params['file_id']}` }
    }
    if (method === 'getUpdates') {
      const wanted = () =>
        updates.filter((one) => (one as { update_id: number }).update_id >= Number(params['offset'] ?? 0))
      if (wanted().length === 0)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      updates = wanted()
      return updates
    }
    return { message_id: ++messages, date: 1_800_000_000, chat: { id: Number(params['chat_id']), type: 'private' } }
  }

  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece)
    const [, first, second, ...rest] = (request.url ?? '').split('/')
    const reply = (status: number, body: unknown) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (first === 'file') {
      const bytes = second === `bot${token}` ? stored.get(rest[1] ?? '') : undefined
      if (bytes) response.end(bytes)
      else reply(404, { ok: false, error_code: 404, description: 'Not Found' })
      return
    }
    if (first !== `bot${token}`) return reply(401, { ok: false, error_code: 401, description: 'Unauthorized' })
    const method = second ?? ''
    const { params, files } = await paramsOf(request.headers['content-type'] ?? '', Buffer.concat(pieces))
    calls.push({ method, params, files, userAgent: request.headers['user-agent'] })
    const given = answers.get(method)?.shift()
    if (given) return reply(given.status, given.body)
    return reply(200, { ok: true, result: await resultOf(method, params) })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    wake()
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    stored,
    of: (method) => calls.filter((one) => one.method === method),
    update(...more) {
      updates.push(...more)
      wake()
    },
    answer: (method, status, body) => answers.set(method, [...(answers.get(method) ?? []), { status, body }]),
  }
}

/** A message of Ann in chat 42. */
export const message = (text: unknown, more: object = {}) => ({
  message_id: 500,
  date: 1_800_000_000,
  chat: { id: 42, type: 'private' },
  from: { id: 7, is_bot: false, first_name: 'Ann', username: 'ann' },
  text,
  ...more,
})
