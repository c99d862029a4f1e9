import { type CallContext, type ToolDef, ToolError, z } from 'pegboard'
import { pathInCache } from '../_folders.ts'
import { cachePaths, MAX_IMAGE_BYTES, modesOf, SETTING, type Settings } from './config.ts'
import { listImages, type Media, saveImage } from './store.ts'

/** Stored images are only useful if images can be changed. */
const canEdit = ({ config }: { readonly config: Settings }): true | string =>
  modesOf(config).some((mode) => mode !== 'txt2img') ||
  `set ${SETTING}.image to a backend that edits (workflow_supports)`

const Entry = z.object({
  media_id: z.string(),
  path: z.string(),
  mimetype: z.string(),
  bytes: z.int(),
  origin: z.string(),
  caption: z.string(),
  created_at: z.string(),
})

const withIsoTime = ({ created_at, ...media }: Media) => ({ ...media, created_at: new Date(created_at).toISOString() })

const ListMedia = z.object({ limit: z.int().min(1).max(100).default(20).describe('Maximum number, newest first.') })
export const list_media: ToolDef<Settings, typeof ListMedia> = {
  title: 'List your images',
  description: 'List the images you generated or added within seven days, with the media_id for generate_image.',
  aliases: ['my images', 'pictures so far', 'liste des images', 'meine Bilder'],
  tags: ['image'],
  input: ListMedia,
  output: z.object({ media: z.array(Entry) }),
  effect: 'read',
  available: canEdit,
  sideEffects: ['none'],
  examples: [{ input: { limit: 5 } }],
  run: async ({ limit }, ctx) => ({ media: (await listImages(ctx, limit)).map(withIsoTime) }),
}

const AddMedia = z.object({
  path: z.string().min(1).max(4096).optional().describe('Image file in file_cache_dir.'),
  url: z.string().max(4096).optional().describe('Or the address of an image.'),
  kind: z
    .enum(['message', 'avatar'])
    .default('message')
    .describe('message: from a chat; avatar: the look of a person.'),
})
export const add_media: ToolDef<Settings, typeof AddMedia> = {
  title: 'Add an image',
  description:
    'Add an image (picture) from a file or an address, so that generate_image can start from it. Pass path or url.',
  aliases: ['use image', 'import picture', 'ajouter une image', 'Bild aufnehmen'],
  tags: ['image'],
  input: AddMedia,
  output: Entry,
  effect: 'write',
  openWorld: true,
  available: canEdit,
  sideEffects: ['saves a copy of the image'],
  examples: [{ input: { path: 'photo.png' } }, { input: { url: 'https://example.com/me.jpg', kind: 'avatar' } }],
  async run({ path, url, kind }, ctx) {
    if ((path === undefined) === (url === undefined))
      throw new ToolError('Pass either path or url.', { code: 'E_VALIDATION' })
    const data = path === undefined ? await fetchImage(url ?? '', ctx) : await readImage(path, ctx)
    return withIsoTime(await saveImage(ctx, data, { origin: kind, caption: path ?? url ?? '' }))
  },
}

async function fetchImage(url: string, { fetch, signal }: CallContext<Settings>): Promise<Uint8Array> {
  const response = await fetch(url, { signal, maxBytes: MAX_IMAGE_BYTES, maxWireBytes: MAX_IMAGE_BYTES })
  if (!response.ok)
    throw new ToolError(`The server answered with status ${response.status}.`, { hint: 'Use another address.' })
  return new Uint8Array(await response.arrayBuffer())
}

const readImage = (path: string, { config }: CallContext<Settings>): Promise<Uint8Array> =>
  cachePaths(config).readFile(pathInCache(path), ({ handle, size }) => {
    if (size > MAX_IMAGE_BYTES)
      throw new ToolError(`The image has ${size} bytes; the limit is ${MAX_IMAGE_BYTES}.`, { code: 'E_TOO_LARGE' })
    return handle.readFile()
  })
