import { type Paths, z } from 'pegboard'
import { stringList } from '../_access.ts'
import { cacheFolder, filledByPegboard, cachePaths as pathsOf } from '../_folders.ts'

const address = z.url({ protocol: /^https?$/ })
const secret = z.string().min(1).optional().describe('API key; use "${NAME}".')

export const MODES = ['txt2img', 'img2img', 'inpaint', 'outpaint'] as const
export type Mode = (typeof MODES)[number]

/** Features of the backend; `negative_prompt`: it accepts a description of what to avoid. */
const supports = (negative: boolean) =>
  z
    .strictObject({
      txt2img: z.boolean().default(true),
      img2img: z.boolean().default(false),
      inpaint: z.boolean().default(false),
      outpaint: z.boolean().default(false),
      negative_prompt: z.boolean().default(negative),
    })
    .prefault({})
    .describe('What the backend supports.')

const shared = {
  default_positive_tags: z.string().default('').describe('Words added to every prompt; the model sees them.'),
  default_negative_tags: z.string().default('').describe('Negative words for every image, if supported.'),
  saved_tags: z
    .record(z.string().min(1), z.string().min(1))
    .default({})
    .describe('Appearance of people and personas by name; used if a prompt or caller names them.'),
  timeout: z.int().min(1).max(3600).default(300).describe('Timeout for an image (seconds).'),
}
const program = {
  command: z.string().min(1).describe('Program to run.'),
  args: z.array(z.string()).default([]).describe('Arguments, with %placeholders%.'),
}

const Image = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('openai'),
    base_url: address.default('https://api.openai.com/v1'),
    api_key: secret,
    model: z.string().min(1).default('gpt-image-1'),
    workflow_supports: supports(false),
    ...shared,
  }),
  z.strictObject({
    type: z.literal('comfyui'),
    base_url: address.default('http://127.0.0.1:8188'),
    workflows: z
      .partialRecord(z.enum(MODES), z.record(z.string(), z.unknown()))
      .describe('A workflow in the API format for each mode, with %placeholders%.'),
    workflow_supports: supports(true),
    ...shared,
  }),
  z.strictObject({
    type: z.literal('custom'),
    base_url: address.describe('Address for the POST request with JSON.'),
    api_key: secret,
    workflow_supports: supports(false),
    ...shared,
  }),
  z.strictObject({ type: z.literal('command'), ...program, workflow_supports: supports(false), ...shared }),
])

export const MARKUPS = ['brackets', 'plain', 'emoji', 'voice_design'] as const
const voice = {
  persona_voice: z.string().min(1).optional().describe('Name of the voice.'),
  script_markup: z.enum(MARKUPS).default('plain').describe('How a script marks its tone.'),
  voice_design: z.boolean().default(false).describe('Let each call describe the voice.'),
  timeout: z.int().min(1).max(600).default(60).describe('Timeout for a message (seconds).'),
}
const Speech = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('openai'),
    base_url: address.default('https://api.openai.com/v1'),
    api_key: secret,
    model: z.string().min(1).default('gpt-4o-mini-tts'),
    ...voice,
  }),
  z.strictObject({ type: z.literal('local'), ...voice }),
  z.strictObject({ type: z.literal('command'), ...program, ...voice }),
])

/** Unknown keys are rejected, so that a misspelled limit does not leave something open. */
export const Config = z.strictObject({
  image: Image.optional().describe('Image backend.'),
  speech: Speech.optional().describe('Speech backend.'),
  file_cache_dir: cacheFolder.describe('Folder of the images.'),
  denied_paths: stringList('Paths in it that are never read or written.'),
  config_file: filledByPegboard('config_file'),
  state_dir: filledByPegboard('state_dir'),
})

export type Settings = z.infer<typeof Config>
export type ImageSettings = z.infer<typeof Image>
export type SpeechSettings = z.infer<typeof Speech>

export const SETTING = 'modules.media.config'

export const MAX_IMAGE_BYTES = 32 * 1024 * 1024

export const cachePaths = (settings: Settings): Paths => pathsOf(settings, SETTING)

/** The available modes; with workflows, each mode needs its own. */
export function modesOf({ image }: Pick<Settings, 'image'>): readonly Mode[] {
  if (!image) return []
  return MODES.filter(
    (mode) => image.workflow_supports[mode] && (image.type !== 'comfyui' || image.workflows[mode] !== undefined),
  )
}
