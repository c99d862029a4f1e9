import { type Fetch, type FetchInit, ToolError } from 'pegboard'
import { blobOf, encodeForm } from '../../_form.ts'
import type { ImageSettings } from '../config.ts'
import { type BackendContext, bearer, type ImageRequest, parseAnswer, sendToBackend } from './backend.ts'

type Settings = Extract<ImageSettings, { type: 'openai' }>

/** The three sizes that its models support. */
const sizeOf = ({ width, height }: ImageRequest): string =>
  width === height ? '1024x1024' : width > height ? '1536x1024' : '1024x1536'

/** OpenAI's `POST /images/generations` and `/images/edits`, which other servers support too. */
export async function draw(
  request: ImageRequest,
  image: Settings,
  { fetch, publicFetch, ctx: { signal } }: BackendContext,
): Promise<Uint8Array> {
  const base = image.base_url.replace(/\/+$/, '')
  const send = (sendFetch: Fetch, url: string, init: FetchInit): Promise<Response> =>
    sendToBackend(sendFetch, url, { ...init, signal }, { setting: 'modules.media.config.image', secret: image.api_key })
  const { prompt, references } = request
  const headers = bearer(image.api_key)
  const fields = { model: image.model, prompt, n: 1, size: sizeOf(request) }
  let response: Response
  if (references.length === 0) {
    response = await send(fetch, `${base}/images/generations`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(fields),
    })
  } else {
    const form = new FormData()
    for (const [name, value] of Object.entries(fields)) form.append(name, String(value))
    for (const { data, mimetype, path } of references)
      form.append(references.length === 1 ? 'image' : 'image[]', blobOf(data, mimetype), path.split('/').at(-1))
    const { body, headers: formHeaders } = await encodeForm(form)
    response = await send(fetch, `${base}/images/edits`, {
      method: 'POST',
      headers: { ...headers, ...formHeaders },
      body,
    })
  }
  const { data } = await parseAnswer(response)
  const [first] = (Array.isArray(data) ? data : []) as readonly { b64_json?: unknown; url?: unknown }[]
  if (typeof first?.b64_json === 'string') return Buffer.from(first.b64_json, 'base64')
  if (typeof first?.url === 'string' && URL.canParse(first.url, base)) {
    // Some servers return the URL of another storage server, which needs no key and gets none.
    const { href, origin } = new URL(first.url, base)
    const isBackend = origin === new URL(base).origin
    const download = await (isBackend ? send(fetch, href, { headers }) : send(publicFetch, href, {}))
    return new Uint8Array(await download.arrayBuffer())
  }
  throw new ToolError('The backend answered without an image.')
}
