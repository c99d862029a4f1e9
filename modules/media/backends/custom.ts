import { ToolError } from 'pegboard'
import type { ImageSettings } from '../config.ts'
import { type BackendContext, bearer, type ImageRequest, parseAnswer, sendToBackend } from './backend.ts'

type Settings = Extract<ImageSettings, { type: 'custom' }>

/** One `POST` with all values as JSON, images as base64. The response is an image, or JSON that contains one. */
export async function draw(
  request: ImageRequest,
  image: Settings,
  { fetch, ctx: { signal } }: BackendContext,
): Promise<Uint8Array> {
  const { mode, prompt, negative, width, height, references, parameters } = request
  const body = JSON.stringify({
    ...parameters,
    mode,
    prompt,
    ...(negative === undefined ? {} : { negative_prompt: negative }),
    width,
    height,
    ...(references.length === 0
      ? {}
      : { images: references.map(({ data, mimetype }) => ({ mimetype, data: Buffer.from(data).toString('base64') })) }),
  })
  const headers = { ...bearer(image.api_key), 'content-type': 'application/json', accept: 'image/*, application/json' }
  const errorContext = { setting: 'modules.media.config.image', secret: image.api_key }
  const response = await sendToBackend(fetch, image.base_url, { method: 'POST', headers, body, signal }, errorContext)
  if (response.headers.get('content-type')?.startsWith('image/')) return new Uint8Array(await response.arrayBuffer())
  const answer = await parseAnswer(response)
  const base64 = answer['image'] ?? (answer['images'] as readonly unknown[] | null | undefined)?.[0]
  if (typeof base64 !== 'string') throw new ToolError('The backend answered without an image.')
  return Buffer.from(base64.replace(/^data:[^,]*,/, ''), 'base64')
}
