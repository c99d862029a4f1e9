import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

/** A red pixel. */
export const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
  'base64',
)

export interface Asked {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  // biome-ignore lint/suspicious/noExplicitAny: tests look into what was asked
  readonly body: any
  readonly files: readonly { readonly field: string; readonly name: string; readonly bytes: Buffer }[]
}

export interface PictureServer {
  readonly url: string
  readonly asked: Asked[]
}

async function read(request: IncomingMessage): Promise<Asked> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece)
  const raw = Buffer.concat(pieces)
  const type = request.headers['content-type'] ?? ''
  const path = request.url ?? ''
  if (!type.startsWith('multipart/'))
    return { path, headers: request.headers, body: raw.length > 0 ? JSON.parse(String(raw)) : undefined, files: [] }
  const form = await new Response(Uint8Array.from(raw), { headers: { 'content-type': type } }).formData()
  const body: Record<string, string> = {}
  const files: Asked['files'][number][] = []
  for (const [field, value] of form)
    if (typeof value === 'string') body[field] = value
    else files.push({ field, name: value.name, bytes: Buffer.from(await value.arrayBuffer()) })
  return { path, headers: request.headers, body, files }
}

async function serve(
  answer: (asked: Asked, response: Parameters<RequestListener>[1], base: string) => void,
): Promise<PictureServer> {
  const asked: Asked[] = []
  const server = createServer(async (request, response) => {
    const one = await read(request)
    asked.push(one)
    answer(one, response, `http://${request.headers.host}`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

const json = (response: Parameters<RequestListener>[1], value: unknown, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))

/** Implements OpenAI's `/v1/images/*` and `/v1/audio/speech`. `sound` is its audio. */
export const openAiServer = (key: string, sound = Buffer.from('OggS and more'), byAddress = false) =>
  serve(({ path, headers }, response, base) => {
    if (path === '/made.png') return response.end(PNG)
    if (headers.authorization !== `Bearer ${key}`)
      return json(response, { error: { message: `Incorrect API key provided: ${headers.authorization}` } }, 401)
    if (path === '/v1/audio/speech') return response.setHeader('content-type', 'audio/ogg').end(sound)
    const data = byAddress ? [{ url: `${base}/made.png` }] : [{ b64_json: PNG.toString('base64') }]
    return json(response, { created: 1, data })
  })

/** Implements ComfyUI's routes: a job is finished at the third poll. `fails`: its workflow fails. */
export const comfyServer = (fails = false, never = false) => {
  let looks = 0
  return serve(({ path, files }, response) => {
    const { pathname, searchParams } = new URL(path, 'http://comfy')
    if (pathname === '/upload/image') return json(response, { name: files[0]?.name, subfolder: '', type: 'input' })
    if (pathname === '/prompt') return json(response, { prompt_id: 'job-1', number: 1, node_errors: {} })
    if (pathname === '/history/job-1') {
      if (never || ++looks < 3) return json(response, {})
      if (fails) return json(response, { 'job-1': { status: { status_str: 'error', completed: false }, outputs: {} } })
      const images = [{ filename: 'out_1.png', subfolder: 'a b', type: 'output' }]
      return json(response, { 'job-1': { status: { status_str: 'success' }, outputs: { 9: { images } } } })
    }
    if (pathname === '/view' && searchParams.get('filename') === 'out_1.png' && searchParams.get('subfolder') === 'a b')
      return response.setHeader('content-type', 'image/png').end(PNG)
    return json(response, {}, pathname === '/view' ? 404 : 200)
  })
}

/** Answers each `POST` with a picture. */
export const customServer = () => serve((_asked, response) => response.setHeader('content-type', 'image/png').end(PNG))
