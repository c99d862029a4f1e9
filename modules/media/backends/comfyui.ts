import { randomInt, randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { ToolError } from 'pegboard'
import type { ImageSettings } from '../config.ts'
import { ask, blobOf, encoded, filled, type Surroundings, type Wanted } from './backend.ts'

type Settings = Extract<ImageSettings, { type: 'comfyui' }>

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 1_000

interface Output {
  readonly filename: string
  readonly subfolder?: string
  readonly type?: string
}
interface History {
  readonly status?: { readonly status_str?: string; readonly messages?: readonly unknown[] }
  readonly outputs?: Readonly<Record<string, { readonly images?: readonly Output[] }>>
}

/** Queues the workflow of the mode, waits for it, and fetches its first picture. */
export async function draw(wanted: Wanted, image: Settings, { fetch, ctx }: Surroundings): Promise<Uint8Array> {
  const base = image.base_url.replace(/\/+$/, '')
  const how = { setting: 'modules.media.config.image' }
  const { signal } = ctx
  const post = async (path: string, body: unknown): Promise<unknown> =>
    (
      await ask(
        fetch,
        `${base}${path}`,
        { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), signal },
        how,
      )
    ).json()

  const names: string[] = []
  for (const reference of wanted.references) {
    const form = new FormData()
    form.append('image', blobOf(reference), `${randomUUID()}.${reference.path.split('.').at(-1)}`)
    const { body, type } = await encoded(form)
    const sent = { method: 'POST', headers: { 'content-type': type }, body, signal }
    const stored = (await (await ask(fetch, `${base}/upload/image`, sent, how)).json()) as Record<string, string>
    names.push(stored['subfolder'] ? `${stored['subfolder']}/${stored['name']}` : (stored['name'] ?? ''))
  }

  const { prompt, negative, width, height, mode, more } = wanted
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
  const queued = (await post('/prompt', { prompt: filled(image.workflows[mode], values), client_id })) as {
    readonly prompt_id?: string
  }
  const id = queued.prompt_id
  if (id === undefined) throw new ToolError('ComfyUI took the workflow and named no job.')
  try {
    const output = await finished(id)
    const query = new URLSearchParams({
      filename: output.filename,
      subfolder: output.subfolder ?? '',
      type: output.type ?? 'output',
    })
    return new Uint8Array(await (await ask(fetch, `${base}/view?${query}`, { signal }, how)).arrayBuffer())
  } catch (error) {
    // Nobody waits for it any more: out of the queue, and ended where it runs.
    if (signal.aborted) {
      const told = { method: 'POST', headers: { 'content-type': 'application/json' } }
      await Promise.allSettled([
        fetch(`${base}/queue`, { ...told, body: JSON.stringify({ delete: [id] }) }),
        fetch(`${base}/interrupt`, { ...told, body: JSON.stringify({ prompt_id: id }) }),
      ])
    }
    throw error
  }

  async function finished(job: string): Promise<Output> {
    for (let pause = FIRST_PAUSE_MS, asked = 1; ; pause = Math.min(LONGEST_PAUSE_MS, pause * 2), asked++) {
      const response = await ask(fetch, `${base}/history/${encodeURIComponent(job)}`, { signal }, how)
      const history = ((await response.json()) as Record<string, History>)[job]
      if (history?.status?.status_str === 'error')
        throw new ToolError('The workflow failed.', { hint: 'Change what is asked; the log of ComfyUI says more.' })
      const output = Object.values(history?.outputs ?? {}).flatMap(({ images = [] }) => images)[0]
      if (output) return output
      if (history) throw new ToolError('The workflow made no picture.', { hint: 'That is for the operator.' })
      // How far it is nobody says; every step goes half of the way that is left.
      ctx.progress(1 - 0.5 ** asked, 1, 'ComfyUI is drawing.')
      await wait(pause, undefined, { signal })
    }
  }
}
