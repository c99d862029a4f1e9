import { ToolError } from 'pegboard'
import type { ImageSettings } from '../config.ts'
import { type BackendContext, bearer, type ImageRequest, jsonOf, sendToBackend } from './backend.ts'

type Settings = Extract<ImageSettings, { type: 'custom' }>

/** One `POST` with all values as JSON, images as base64. The response is an image, or JSON that contains one. */
export async function draw(
  request: ImageRequest,
  image: Settings,
  { fetch, ctx: { signal } }: BackendContext,
): Promise<Uint8Array> {
  const { mode, prompt, negative, width, height, references, more } = request
  const body = JSON.stringify({
    ...more,
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
  const how = { setting: 'modules.media.config.image', secret: image.api_key }
  const response = await sendToBackend(fetch, image.base_url, { method: 'POST', headers, body, signal }, how)
  if (response.headers.get('content-type')?.startsWith('image/')) return new Uint8Array(await response.arrayBuffer())
  const answer = await jsonOf(response)
  const found = answer['image'] ?? (answer['images'] as readonly unknown[] | null | undefined)?.[0]
  if (typeof found !== 'string') throw new ToolError('The backend answered without an image.')
  return Buffer.from(found.replace(/^data:[^,]*,/, ''), 'base64')
}
