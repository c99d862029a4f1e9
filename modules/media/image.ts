import { type CallContext, type Fetch, type JsonSchema, type ToolDef, ToolError, z } from 'pegboard'
import { invalid } from '../_errors.ts'
import type { BackendContext, ImageRequest } from './backends/backend.ts'
import * as comfyui from './backends/comfyui.ts'
import { runBackendCommand } from './backends/command.ts'
import * as custom from './backends/custom.ts'
import * as openai from './backends/openai.ts'
import { type ImageSettings, modesOf, SETTING, type Settings } from './config.ts'
import { allModesSchema, draftFor, modeOf } from './mode-parameters.ts'
import { checkCanSave, loadReferences, type Reference, saveImage } from './store.ts'

type Context = CallContext<Settings>

/** About one megapixel, in steps that every model supports. */
function sizeOf(ratio: unknown): { readonly width: number; readonly height: number } {
  const [wide = 1, high = 1] = typeof ratio === 'string' ? ratio.split(':').map(Number) : []
  const side = (share: number): number => Math.round((1024 * Math.sqrt(share)) / 64) * 64
  return { width: side(wide / high), height: side(high / wide) }
}

/** Saved tags of the caller and of people named in the prompt. */
function savedTags(prompt: string, { saved_tags }: ImageSettings, { origin }: Context) {
  const toWords = (text: string): string =>
    text
      .toLowerCase()
      .replace(/[^\p{L}\p{N}]+/gu, ' ')
      .trim()
  const promptWords = ` ${toWords(prompt)} `
  const callerNames = [origin.userId, origin.userName].filter((name) => name !== '')
  return Object.entries(saved_tags).filter(
    ([name]) => callerNames.includes(name) || promptWords.includes(` ${toWords(name)} `),
  )
}

/** Notes about how the image was made. */
function noticesOf(
  image: ImageSettings,
  tagsByName: readonly (readonly [string, string])[],
  references: readonly Reference[],
): readonly string[] {
  const { default_negative_tags: negative, workflow_supports } = image
  const avatars = references.filter(({ origin }) => origin === 'avatar')
  const otherImages = references.filter(({ origin }) => origin !== 'avatar')
  const idsOf = (media: readonly Reference[]): string => media.map(({ media_id }) => media_id).join(', ')
  return [
    ...(workflow_supports.negative_prompt && negative !== '' ? [`Default negative tags: ${negative}`] : []),
    `Image tags are set in ${SETTING}.image (default_positive_tags, saved_tags).`,
    ...(tagsByName.length > 0
      ? [`Saved tags used: ${tagsByName.map(([name, tags]) => `${name} (${tags})`).join('; ')}`]
      : []),
    ...(avatars.length > 0 ? [`Avatar references: ${idsOf(avatars)}`] : []),
    ...(otherImages.length > 0 ? [`Image references: ${idsOf(otherImages)}`] : []),
  ]
}

async function draw(request: ImageRequest, image: ImageSettings, context: BackendContext): Promise<Uint8Array> {
  if (image.type === 'openai') return await openai.draw(request, image, context)
  if (image.type === 'comfyui') return await comfyui.draw(request, image, context)
  if (image.type === 'custom') return await custom.draw(request, image, context)
  const { prompt, negative, width, height, mode, parameters } = request
  const imageFiles = request.references.map(({ data, path }, index) => [
    index === 0 ? 'image' : `image_${index + 1}`,
    { name: path.split('/').at(-1) ?? 'image', data },
  ])
  return await runBackendCommand(
    image,
    {
      values: { ...parameters, prompt, negative_prompt: negative ?? '', width, height, mode },
      files: { prompt_file: { name: 'prompt.txt', data: prompt }, ...Object.fromEntries(imageFiles) },
      output: 'picture',
      timeoutMs: image.timeout * 1000,
    },
    context,
  )
}

const Output = z.object({
  media_id: z.string(),
  mode: z.string(),
  path: z.string(),
  mimetype: z.string(),
  bytes: z.int(),
  notices: z.array(z.string()),
})

/** @param fetchFor creates a `fetch` for one address with a timeout */
export const createGenerateImage = (
  fetchFor: (baseUrl: string, timeoutS: number) => Fetch,
): ToolDef<Settings, JsonSchema> => ({
  title: 'Generate an image',
  description:
    'Generate an image from text, or change one: all of it, a part (inpaint), or beyond its edges (outpaint).',
  aliases: ['draw', 'paint', 'create image', 'picture', 'dessiner', 'Bild malen', 'dibujar'],
  tags: ['image', 'generation'],
  input: allModesSchema,
  output: Output,
  effect: 'write',
  openWorld: true,
  intent: 'image',
  sideEffects: ['asks the image backend', 'saves the image', 'sends it to the user'],
  examples: [{ input: { prompt: 'a lighthouse at dusk, oil painting', aspect_ratio: '3:2' } }],
  available: ({ config }) => modesOf(config).length > 0 || `set ${SETTING}.image`,
  assemble({ config }) {
    const modes = modesOf(config)
    return modes.length === 0 ? null : draftFor(modes, config.image?.default_positive_tags ?? '')
  },
  async run(input, ctx) {
    const { image, file_cache_dir: cacheDir } = ctx.config
    if (!image) throw new ToolError('No image backend is configured.', { hint: `Set ${SETTING}.image.` })
    const mode = modeOf(input)
    const modes = modesOf(ctx.config)
    if (!modes.includes(mode))
      throw new ToolError(`The image backend does not support ${mode}.`, { hint: `It supports ${modes.join(', ')}.` })
    const { prompt: promptText, aspect_ratio, media_id, inpaint: _inpaint, outpaint: _outpaint, ...parameters } = input
    const references = await loadReferences(ctx, media_id as string | undefined)
    if (mode !== 'txt2img' && references.length === 0) throw invalid(`${mode} needs an image.`, 'Pass media_id.')
    await checkCanSave(ctx)
    const tagsByName = savedTags(String(promptText), image, ctx)
    const notices = noticesOf(image, tagsByName, references)
    ctx.progress(0, 1, notices.join('\n'))
    const tags = [image.default_positive_tags, ...tagsByName.map(([, tags]) => tags)].filter((text) => text !== '')
    const data = await draw(
      {
        mode,
        prompt: [String(promptText), ...tags].join(', '),
        negative: image.workflow_supports.negative_prompt ? image.default_negative_tags : undefined,
        ...sizeOf(aspect_ratio),
        references,
        parameters,
      },
      image,
      {
        fetch: 'base_url' in image ? fetchFor(image.base_url, image.timeout) : ctx.fetch,
        publicFetch: ctx.fetch,
        processes: ctx.services.processes,
        cacheDir,
        ctx,
      },
    )
    const media = await saveImage(ctx, data, { origin: 'generated', caption: String(promptText) })
    ctx.sendFile({ data, filename: media.path.split('/').at(-1) ?? media.media_id, mimetype: media.mimetype })
    ctx.progress(1, 1)
    return { media_id: media.media_id, mode, path: media.path, mimetype: media.mimetype, bytes: data.length, notices }
  },
})
