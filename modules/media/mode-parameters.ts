import type { ToolDraft } from 'pegboard'
import { MODES, type Mode } from './config.ts'

const REFERENCE: readonly Mode[] = ['img2img', 'inpaint', 'outpaint']
const INPAINT: readonly Mode[] = ['inpaint']
const OUTPAINT: readonly Mode[] = ['outpaint']

const text = (description: string) => ({ type: 'string', minLength: 1, maxLength: 2000, description })
const fraction = (description: string) => ({ type: 'number', minimum: 0, maximum: 1, description })
const pixels = (description: string, maximum: number) => ({ type: 'integer', minimum: 0, maximum, description })
const choice = (description: string, ...values: readonly string[]) => ({ type: 'string', enum: values, description })

const RATIOS = ['1:1', '2:3', '3:2', '3:4', '4:3', '4:5', '5:4', '9:16', '16:9', '21:9'] as const

/** All parameters with their modes; none means all modes. */
const PARAMETERS: Readonly<Record<string, { readonly modes?: readonly Mode[]; readonly schema: object }>> = {
  prompt: { schema: { type: 'string', minLength: 1, maxLength: 8000 } },
  aspect_ratio: { schema: choice('Aspect ratio (width:height); default square.', ...RATIOS) },
  media_id: {
    modes: REFERENCE,
    schema: text('Image to start from, such as media_1; up to three, separated by commas.'),
  },
  target_identity: { modes: REFERENCE, schema: text('Person in it to change.') },
  denoise: { modes: REFERENCE, schema: fraction('How far the result can differ from that image.') },
  inpaint: { modes: INPAINT, schema: { type: 'boolean', description: 'Change a part of it.' } },
  mask_prompt: { modes: INPAINT, schema: text('The part, in words.') },
  mask_mode: { modes: INPAINT, schema: choice('Change that part, or everything else.', 'target', 'background') },
  mask_threshold: { modes: INPAINT, schema: fraction('Confidence that a pixel belongs to it.') },
  mask_grow: { modes: INPAINT, schema: pixels('Pixels to grow the mask.', 256) },
  mask_feather: { modes: INPAINT, schema: pixels('Pixels of soft edge.', 256) },
  clothing_segment_categories: {
    modes: INPAINT,
    schema: { type: 'array', items: { type: 'string', minLength: 1 }, maxItems: 20, description: 'Clothes to change.' },
  },
  clothing_mode: { modes: INPAINT, schema: text('New look of the clothes.') },
  cfg: {
    modes: INPAINT,
    schema: { type: 'number', minimum: 0, maximum: 30, description: 'How closely to follow the prompt.' },
  },
  inpaint_preset: { modes: INPAINT, schema: text('Preset of the server.') },
  inpaint_mode: { modes: INPAINT, schema: text('Method of the server.') },
  outpaint: { modes: OUTPAINT, schema: { type: 'boolean', description: 'Extend the image beyond its edges.' } },
  outpaint_strategy: {
    modes: OUTPAINT,
    schema: choice('All around, at one edge, or zoomed out.', 'full_canvas', 'edge_extend', 'zoom_out'),
  },
  outpaint_amount: { modes: OUTPAINT, schema: choice('How much.', 'slight', 'moderate', 'large', 'dramatic') },
  outpaint_left_prompt: { modes: OUTPAINT, schema: text('Content on the left.') },
  outpaint_right_prompt: { modes: OUTPAINT, schema: text('Content on the right.') },
  outpaint_top_prompt: { modes: OUTPAINT, schema: text('Content above.') },
  outpaint_bottom_prompt: { modes: OUTPAINT, schema: text('Content below.') },
  extend_direction: { modes: OUTPAINT, schema: choice('Which edge.', 'left', 'right', 'top', 'bottom') },
  extend_pixels: { modes: OUTPAINT, schema: pixels('Number of pixels.', 2048) },
  outpaint_overlap: { modes: OUTPAINT, schema: pixels('Pixels of the old image to repaint.', 512) },
  outpaint_zoom_scale: {
    modes: OUTPAINT,
    schema: { type: 'number', minimum: 0.5, maximum: 0.95, description: 'Size of the old image in the new one.' },
  },
}

/** Meaning of the prompt, by mode; the backend's own words are added. */
const PROMPT_DESCRIPTIONS: Readonly<Record<Mode, string>> = {
  txt2img: 'What to show.',
  img2img: 'With media_id: how to change that picture.',
  inpaint: 'With inpaint: what to put into the masked part.',
  outpaint: 'With outpaint: what lies beyond the edge.',
}

function schemaFor(modes: readonly Mode[], positiveTags = ''): Record<string, unknown> {
  const properties = Object.fromEntries(
    Object.entries(PARAMETERS)
      .filter(([, parameter]) => !parameter.modes || parameter.modes.some((mode) => modes.includes(mode)))
      .map(([name, { schema }]) => [name, schema]),
  )
  const tagNotes = positiveTags === '' ? [] : [`Added to the prompt: ${positiveTags}.`]
  const description = [
    ...MODES.filter((mode) => modes.includes(mode)).map((mode) => PROMPT_DESCRIPTIONS[mode]),
    ...tagNotes,
  ].join(' ')
  return {
    type: 'object',
    properties: { ...properties, prompt: { ...properties['prompt'], description } },
    required: ['prompt'],
  }
}

export const allModesSchema = schemaFor(MODES)

const VERBS: ReadonlyArray<readonly [Mode, string]> = [
  ['img2img', 'change one'],
  ['inpaint', 'repaint a part of one (inpaint)'],
  ['outpaint', 'extend one beyond its edges (outpaint)'],
]

const describe = (modes: readonly Mode[]): string =>
  [
    modes.includes('txt2img') ? 'Generate an image (picture) from text' : '',
    ...VERBS.filter(([mode]) => modes.includes(mode)).map(([, verb]) => verb),
  ]
    .filter((part) => part !== '')
    .join(', or ')
    .replace(/^./, (first) => first.toUpperCase())
    .concat(
      '. The image goes to the user at once',
      modes.some((mode) => mode !== 'txt2img') ? '; the result has its id for later changes.' : '.',
    )

const drafts = new Map<string, ToolDraft>()

/** Cached per combination, because identical drafts are recognized by identity. */
export function draftFor(modes: readonly Mode[], positiveTags: string): ToolDraft {
  const key = JSON.stringify([modes, positiveTags])
  const draft = drafts.get(key) ?? { description: describe(modes), input: schemaFor(modes, positiveTags) }
  drafts.set(key, draft)
  return draft
}

const parametersOf = (modes: readonly Mode[]) =>
  new Set(Object.keys(PARAMETERS).filter((name) => PARAMETERS[name]?.modes === modes))
const [INPAINT_PARAMETERS, OUTPAINT_PARAMETERS] = [parametersOf(INPAINT), parametersOf(OUTPAINT)]

/** The mode of a call: from `inpaint` and `outpaint`, or from any parameter of theirs. */
export function modeOf(input: Readonly<Record<string, unknown>>): Mode {
  const has = (names: ReadonlySet<string>): boolean =>
    Object.entries(input).some(([name, value]) => names.has(name) && value !== undefined && value !== false)
  if (has(INPAINT_PARAMETERS)) return 'inpaint'
  if (has(OUTPAINT_PARAMETERS)) return 'outpaint'
  return input['media_id'] === undefined ? 'txt2img' : 'img2img'
}
