import { type CallContext, type ToolDef, ToolError, z } from 'pegboard'
import { cachePaths, MAX_IMAGE_BYTES, modesOf, SETTING, type Settings } from './config.ts'
import { keep, list, type Media } from './store.ts'

/** Only where a picture can be changed is there a use for those that are kept. */
const changes = ({ config }: { readonly config: Settings }): true | string =>
  modesOf(config).some((mode) => mode !== 'txt2img') ||
  `set ${SETTING}.image with what it can change (workflow_supports)`

const Entry = z.object({
  media_id: z.string(),
  path: z.string(),
  mimetype: z.string(),
  bytes: z.int(),
  origin: z.string(),
  caption: z.string(),
  created_at: z.string(),
})

const told = ({ created_at, ...media }: Media) => ({ ...media, created_at: new Date(created_at).toISOString() })

const ListMedia = z.object({ limit: z.int().min(1).max(100).default(20).describe('How many, newest first.') })
export const list_media: ToolDef<Settings, typeof ListMedia> = {
  title: 'List your pictures',
  description: 'Lists the pictures you made or took in within seven days, with the media_id that generate_image takes.',
  aliases: ['my images', 'pictures so far', 'liste des images', 'meine Bilder'],
  tags: ['image'],
  input: ListMedia,
  output: z.object({ media: z.array(Entry) }),
  effect: 'read',
  available: changes,
  sideEffects: ['none'],
  examples: [{ input: { limit: 5 } }],
  run: async ({ limit }, ctx) => ({ media: (await list(ctx, limit)).map(told) }),
}

const AddMedia = z.object({
  path: z.string().min(1).max(4096).optional().describe('A picture in file_cache_dir.'),
  url: z.string().max(4096).optional().describe('Or its address.'),
  kind: z
    .enum(['message', 'avatar'])
    .default('message')
    .describe('Somebody sent it, or it shows what somebody looks like.'),
})
export const add_media: ToolDef<Settings, typeof AddMedia> = {
  title: 'Take in a picture',
  description:
    'Takes in a picture from a file or an address, so that generate_image can start from it. Give path or url.',
  aliases: ['use image', 'import picture', 'ajouter une image', 'Bild aufnehmen'],
  tags: ['image'],
  input: AddMedia,
  output: Entry,
  effect: 'write',
  openWorld: true,
  available: changes,
  sideEffects: ['keeps a copy of the picture'],
  examples: [{ input: { path: 'photo.png' } }, { input: { url: 'https://example.com/me.jpg', kind: 'avatar' } }],
  async run({ path, url, kind }, ctx) {
    if ((path === undefined) === (url === undefined))
      throw new ToolError('Give either path or url.', { code: 'E_VALIDATION' })
    const data = path === undefined ? await fetched(url ?? '', ctx) : await read(path, ctx)
    return told(await keep(ctx, data, { origin: kind, caption: path ?? url ?? '' }))
  },
}

async function fetched(url: string, { fetch, signal }: CallContext<Settings>): Promise<Uint8Array> {
  const response = await fetch(url, { signal, maxBytes: MAX_IMAGE_BYTES, maxWireBytes: MAX_IMAGE_BYTES })
  if (!response.ok) throw new ToolError(`The address answered ${response.status}.`, { hint: 'Give another one.' })
  return new Uint8Array(await response.arrayBuffer())
}

const read = (path: string, { config }: CallContext<Settings>): Promise<Uint8Array> =>
  cachePaths(config).readFile(path.replace(/^file_cache_dir\//, ''), ({ handle, size }) => {
    if (size > MAX_IMAGE_BYTES)
      throw new ToolError(`The picture has ${size} bytes; ${MAX_IMAGE_BYTES} are allowed.`, { code: 'E_TOO_LARGE' })
    return handle.readFile()
  })
