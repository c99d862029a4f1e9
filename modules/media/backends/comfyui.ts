import { randomInt, randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { type FetchInit, ToolError, z } from 'pegboard'
import { unavailable } from '../../_errors.ts'
import { blobOf, encodeForm } from '../../_form.ts'
import type { ImageSettings } from '../config.ts'
import { type BackendContext, fillPlaceholders, type ImageRequest, parseAnswer, sendToBackend } from './backend.ts'

type Settings = Extract<ImageSettings, { type: 'comfyui' }>

const MIN_DELAY_MS = 100
const MAX_DELAY_MS = 1_000

const StoredImage = z.object({ name: z.string().min(1), subfolder: z.string().default('') })
const QueuedJob = z.object({ prompt_id: z.string().regex(/^[A-Za-z0-9][\w-]{0,99}$/) })
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

/** @param problem what ComfyUI did if the answer is invalid */
function validate<T extends z.ZodType>(schema: T, answer: unknown, problem: string): z.output<T> {
  const { data, success } = schema.safeParse(answer)
  if (success) return data
  throw unavailable(
    `ComfyUI ${problem}.`,
    'The operator checks that modules.media.config.image names a ComfyUI server.',
  )
}

/** Queues the workflow of the mode, waits for it, and fetches its first image. */
export async function draw(request: ImageRequest, image: Settings, context: BackendContext): Promise<Uint8Array> {
  const { ctx } = context
  // A job is polled, so the timeout of single requests does not limit it.
  const timeout = AbortSignal.timeout(image.timeout * 1000)
  try {
    const progress: typeof ctx.progress = (...args) => ctx.progress(...args)
    return await runWorkflow(request, image, {
      ...context,
      ctx: { signal: AbortSignal.any([ctx.signal, timeout]), progress },
    })
  } catch (error) {
    if (!timeout.aborted || ctx.signal.aborted) throw error
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
  const { signal } = ctx
  const send = (path: string, init: FetchInit = {}): Promise<Response> =>
    sendToBackend(fetch, `${base}${path}`, { ...init, signal }, { setting: 'modules.media.config.image' })
  const createPost = (body: unknown): FetchInit => ({
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

  const names: string[] = []
  for (const reference of request.references) {
    const form = new FormData()
    const { data, mimetype, path } = reference
    form.append('image', blobOf(data, mimetype), `${randomUUID()}.${path.split('.').at(-1)}`)
    const answer = await parseAnswer(await send('/upload/image', { method: 'POST', ...(await encodeForm(form)) }))
    const { name, subfolder } = validate(StoredImage, answer, 'accepted the image without a name for it')
    names.push(subfolder === '' ? name : `${subfolder}/${name}`)
  }

  const { prompt, negative, width, height, mode, parameters } = request
  const [image_1 = '', image_2 = '', image_3 = ''] = names
  const values = {
    ...parameters,
    image: image_1,
    image_2,
    image_3,
    prompt,
    negative_prompt: negative ?? '',
    width,
    height,
    mode,
    seed: randomInt(2 ** 47),
  }
  const client_id = randomUUID()
  const workflow = fillPlaceholders(image.workflows[mode], values)
  const job = await parseAnswer(await send('/prompt', createPost({ prompt: workflow, client_id })))
  const { prompt_id: id } = validate(QueuedJob, job, 'accepted the workflow without a job id')
  try {
    const query = new URLSearchParams(await waitForOutput(id))
    return new Uint8Array(await (await send(`/view?${query}`)).arrayBuffer())
  } catch (error) {
    // Cancelled: removed from the queue, or interrupted if it is running.
    if (signal.aborted)
      await Promise.allSettled([
        fetch(`${base}/queue`, createPost({ delete: [id] })),
        fetch(`${base}/interrupt`, createPost({ prompt_id: id })),
      ])
    throw error
  }

  async function waitForOutput(jobId: string): Promise<z.output<typeof Output>> {
    for (let delay = MIN_DELAY_MS, polls = 1; ; delay = Math.min(MAX_DELAY_MS, delay * 2), polls++) {
      const answer = await parseAnswer(await send(`/history/${encodeURIComponent(jobId)}`))
      if (Object.hasOwn(answer, jobId)) {
        const { status, outputs } = validate(History, answer[jobId], 'has no record of the job')
        if (status?.status_str === 'error')
          throw new ToolError('The workflow failed.', { hint: "Change the request; ComfyUI's log has details." })
        const [output] = Object.values(outputs).flatMap(({ images }) => images)
        if (output === undefined) throw new ToolError('The workflow produced no image.', { hint: 'Ask the operator.' })
        return validate(Output, output, 'does not say where the image is')
      }
      // The backend reports no progress; each poll covers half of the remaining distance.
      ctx.progress(1 - 0.5 ** polls, 1, 'ComfyUI is generating.')
      await wait(delay, undefined, { signal })
    }
  }
}
