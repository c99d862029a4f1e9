import { ToolError } from 'pegboard'
import type { ImageSettings } from '../config.ts'
import { type BackendContext, bearer, blobOf, encodeForm, type ImageRequest, jsonOf, sendToBackend } from './backend.ts'

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
  const how = { setting: 'modules.media.config.image', secret: image.api_key }
  const { prompt, references } = request
  const headers = bearer(image.api_key)
  const fields = { model: image.model, prompt, n: 1, size: sizeOf(request) }
  let response: Response
  if (references.length === 0) {
    const body = JSON.stringify(fields)
    const json = { ...headers, 'content-type': 'application/json' }
    response = await sendToBackend(
      fetch,
      `${base}/images/generations`,
      { method: 'POST', headers: json, body, signal },
      how,
    )
  } else {
    const form = new FormData()
    for (const [name, value] of Object.entries(fields)) form.append(name, String(value))
    for (const one of references)
      form.append(references.length === 1 ? 'image' : 'image[]', blobOf(one), one.path.split('/').at(-1))
    const { body, type } = await encodeForm(form)
    const sent = { method: 'POST', headers: { ...headers, 'content-type': type }, body, signal }
    response = await sendToBackend(fetch, `${base}/images/edits`, sent, how)
  }
  const { data } = await jsonOf(response)
  const [first] = (Array.isArray(data) ? data : []) as readonly { b64_json?: unknown; url?: unknown }[]
  if (typeof first?.b64_json === 'string') return Buffer.from(first.b64_json, 'base64')
  if (typeof first?.url === 'string' && URL.canParse(first.url, base)) {
    // Some servers return the URL of another storage server, which needs no key and gets none.
    const { href, origin } = new URL(first.url, base)
    const own = origin === new URL(base).origin
    const found = await sendToBackend(own ? fetch : publicFetch, href, own ? { headers, signal } : { signal }, how)
    return new Uint8Array(await found.arrayBuffer())
  }
  throw new ToolError('The backend answered without an image.')
}
