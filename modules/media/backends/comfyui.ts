import { randomInt, randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { ToolError, z } from 'pegboard'
import { unavailable } from '../../_errors.ts'
import type { ImageSettings } from '../config.ts'
import {
  type BackendContext,
  blobOf,
  encodeForm,
  fillPlaceholders,
  type ImageRequest,
  jsonOf,
  sendToBackend,
} from './backend.ts'

type Settings = Extract<ImageSettings, { type: 'comfyui' }>

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 1_000

const Kept = z.object({ name: z.string().min(1), subfolder: z.string().default('') })
const Queued = z.object({ prompt_id: z.string().regex(/^[A-Za-z0-9][\w-]{0,99}$/) })
const Output = z.object({
  filename: z.string().min(1),
  subfolder: z.string().default(''),
  type: z.string().default('output'),
})
const outputsIn = z.record(z.string(), z.looseObject({ images: z.array(z.unknown()).catch([]) }).catch({ images: [] }))
const History = z.object({
  status: z.object({ status_str: z.string() }).optional().catch(undefined),
  outputs: outputsIn.catch({}),
})

/** Validates the backend's answer. */
function parseAnswer<T extends z.ZodType>(schema: T, answer: unknown, what: string): z.output<T> {
  const { data, success } = schema.safeParse(answer)
  if (success) return data
  throw unavailable(`ComfyUI ${what}.`, 'The operator checks that modules.media.config.image names a ComfyUI server.')
}

/** Queues the workflow of the mode, waits for it, and fetches its first image. */
export async function draw(request: ImageRequest, image: Settings, around: BackendContext): Promise<Uint8Array> {
  const { ctx } = around
  // A job is polled, so the timeout of single requests does not limit it.
  const late = AbortSignal.timeout(image.timeout * 1000)
  try {
    const progress: typeof ctx.progress = (...args) => ctx.progress(...args)
    return await runWorkflow(request, image, {
      ...around,
      ctx: { signal: AbortSignal.any([ctx.signal, late]), progress },
    })
  } catch (error) {
    if (!late.aborted || ctx.signal.aborted) throw error
    throw new ToolError(`The image was not finished within ${image.timeout} s.`, {
      code: 'E_TIMEOUT',
      hint: 'Request a simpler image, or raise modules.media.config.image.timeout.',
    })
  }
}

async function runWorkflow(
  request: ImageRequest,
  image: Settings,
  { fetch, ctx }: BackendContext,
): Promise<Uint8Array> {
  const base = image.base_url.replace(/\/+$/, '')
  const how = { setting: 'modules.media.config.image' }
  const { signal } = ctx
  const post = async (path: string, body: unknown): Promise<unknown> =>
    jsonOf(
      await sendToBackend(
        fetch,
        `${base}${path}`,
        { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), signal },
        how,
      ),
    )

  const names: string[] = []
  for (const reference of request.references) {
    const form = new FormData()
    form.append('image', blobOf(reference), `${randomUUID()}.${reference.path.split('.').at(-1)}`)
    const { body, type } = await encodeForm(form)
    const sent = { method: 'POST', headers: { 'content-type': type }, body, signal }
    const answer = await jsonOf(await sendToBackend(fetch, `${base}/upload/image`, sent, how))
    const { name, subfolder } = parseAnswer(Kept, answer, 'accepted the image without a name for it')
    names.push(subfolder === '' ? name : `${subfolder}/${name}`)
  }

  const { prompt, negative, width, height, mode, more } = request
  const [first = '', second = '', third = ''] = names
  const pictures = { image: first, image_2: second, image_3: third }
  const values = {
    ...more,
    ...pictures,
    prompt,
    negative_prompt: negative ?? '',
    width,
    height,
    mode,
    seed: randomInt(2 ** 47),
  }
  const client_id = randomUUID()
  const queued = await post('/prompt', { prompt: fillPlaceholders(image.workflows[mode], values), client_id })
  const { prompt_id: id } = parseAnswer(Queued, queued, 'accepted the workflow without a job id')
  try {
    const output = await finished(id)
    const query = new URLSearchParams(output)
    return new Uint8Array(await (await sendToBackend(fetch, `${base}/view?${query}`, { signal }, how)).arrayBuffer())
  } catch (error) {
    // Cancelled: removed from the queue, or interrupted if it is running.
    if (signal.aborted) {
      const postInit = { method: 'POST', headers: { 'content-type': 'application/json' } }
      await Promise.allSettled([
        fetch(`${base}/queue`, { ...postInit, body: JSON.stringify({ delete: [id] }) }),
        fetch(`${base}/interrupt`, { ...postInit, body: JSON.stringify({ prompt_id: id }) }),
      ])
    }
    throw error
  }

  async function finished(job: string): Promise<z.output<typeof Output>> {
    for (let pause = FIRST_PAUSE_MS, polls = 1; ; pause = Math.min(LONGEST_PAUSE_MS, pause * 2), polls++) {
      const response = await sendToBackend(fetch, `${base}/history/${encodeURIComponent(job)}`, { signal }, how)
      const answer = await jsonOf(response)
      if (Object.hasOwn(answer, job)) {
        const { status, outputs } = parseAnswer(History, answer[job], 'has no record of the job')
        if (status?.status_str === 'error')
          throw new ToolError('The workflow failed.', { hint: "Change the request; ComfyUI's log has details." })
        const [output] = Object.values(outputs).flatMap(({ images }) => images)
        if (output === undefined) throw new ToolError('The workflow produced no image.', { hint: 'Ask the operator.' })
        return parseAnswer(Output, output, 'does not say where the image is')
      }
      // The backend reports no progress; each poll covers half of the remaining distance.
      ctx.progress(1 - 0.5 ** polls, 1, 'ComfyUI is generating.')
      await wait(pause, undefined, { signal })
    }
  }
}
