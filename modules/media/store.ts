import { hash, randomBytes } from 'node:crypto'
import { type CallContext, type Kv, type Paths, ToolError } from 'pegboard'
import { notFound, tooLarge } from '../_errors.ts'
import { pathInCache, prepareCache } from '../_folders.ts'
import { requireKv } from '../_kv.ts'
import { mediaType } from '../_media-type.ts'
import { cachePaths, SETTING, type Settings } from './config.ts'

const RETENTION_S = 7 * 24 * 60 * 60
const MAX_REFERENCES = 3
const MAX_REFERENCE_BYTES = 6 * 1024 * 1024

/** Origin of an image: generated here, received with a message, or uploaded by its owner. */
export type Origin = 'generated' | 'message' | 'avatar'

export interface Media {
  readonly media_id: string
  /** In file_cache_dir. */
  readonly path: string
  readonly mimetype: string
  readonly bytes: number
  readonly origin: Origin
  readonly caption: string
  /** Milliseconds since the epoch. */
  readonly created_at: number
}

export interface Reference extends Media {
  readonly data: Uint8Array
}

type Context = CallContext<Settings>

const imageStore = (ctx: Context): Kv => requireKv(ctx, 'Images')

/** Images belong to a principal; others cannot name them. */
const ownerOf = ({ caller }: Context): string => hash('sha256', caller.principal).slice(0, 16)

/**
 * The folder of a principal's images, with a random name: other tools can read below the same folder, and principals
 * can be guessed. Profiles have separate stores, so separate folders.
 */
const folderOf = (kv: Kv, owner: string): Promise<string> =>
  kv.update(`${owner}:folder`, (value) => {
    if (typeof value === 'string') return { result: value }
    const folder = randomBytes(12).toString('hex')
    return { value: folder, result: folder }
  })

/** Checks that an image can be stored, before a paid request is made. @throws ToolError why it cannot */
export async function checkCanSave(ctx: Context): Promise<void> {
  const folder = await folderOf(imageStore(ctx), ownerOf(ctx))
  await prepareCache(ctx.config, SETTING, `media/${folder}/media_0.png`)
}

/** Types of images that models and chats accept, with the extensions of their files. */
const EXTENSIONS = new Map([
  ['image/png', 'png'],
  ['image/jpeg', 'jpg'],
  ['image/gif', 'gif'],
  ['image/webp', 'webp'],
])

/** @throws ToolError if the bytes are not an image */
export async function saveImage(
  ctx: Context,
  data: Uint8Array,
  { origin, caption }: { readonly origin: Origin; readonly caption: string },
): Promise<Media> {
  const mimetype = mediaType(data) ?? ''
  const extension = EXTENSIONS.get(mimetype)
  if (!extension)
    throw new ToolError('The file is not an image (PNG, JPEG, WebP or GIF).', { hint: 'Use another file.' })
  const [kv, owner] = [imageStore(ctx), ownerOf(ctx)]
  const media_id = `media_${await kv.incr(`${owner}:count`)}`
  const folder = `media/${await folderOf(kv, owner)}`
  const path = `${folder}/${media_id}.${extension}`
  await prepareCache(ctx.config, SETTING, path)
  const paths = cachePaths(ctx.config)
  await paths.writeFile(path, data)
  await removeOldImages(paths, folder).catch((error: unknown) =>
    ctx.log.warn('old images could not be removed', { error }),
  )
  const media: Media = {
    media_id,
    path: `file_cache_dir/${path}`,
    mimetype,
    bytes: data.length,
    origin,
    caption: caption.slice(0, 200),
    created_at: Date.now(),
  }
  await kv.set(`${owner}:of:${media_id}`, media, { ttl: RETENTION_S })
  return media
}

/** Removes images that are too old to be named by anyone. */
async function removeOldImages(paths: Paths, folder: string): Promise<void> {
  const { entries } = await paths.listFolder(folder)
  for (const { path, kind } of entries) {
    if (kind !== 'file') continue
    const { mtime } = await paths.stat(path)
    if (mtime.getTime() < Date.now() - RETENTION_S * 1000) await paths.remove(path)
  }
}

/** Newest first. */
export async function listImages(ctx: Context, limit: number): Promise<readonly Media[]> {
  const [kv, owner] = [imageStore(ctx), ownerOf(ctx)]
  const keys = await kv.keys(`${owner}:of:`)
  const number = (key: string): number => Number(/\d+$/.exec(key)?.[0] ?? 0)
  const newest = [...keys].sort((a, b) => number(b) - number(a)).slice(0, limit)
  const values = await Promise.all(newest.map((key) => kv.get(key)))
  return values.flatMap((value) => (value === null ? [] : [value as Media]))
}

/** The images named in a call. @throws ToolError for missing, too many or too large images */
export async function loadReferences(ctx: Context, mediaIds: string | undefined): Promise<readonly Reference[]> {
  const ids = (mediaIds ?? '').split(',').flatMap((id) => id.trim() || [])
  if (ids.length > MAX_REFERENCES)
    throw new ToolError(`You passed ${ids.length} images; the limit is ${MAX_REFERENCES}.`, {
      code: 'E_VALIDATION',
    })
  if (ids.length === 0) return []
  const [kv, owner] = [imageStore(ctx), ownerOf(ctx)]
  return await Promise.all(
    ids.map(async (id) => {
      const media = (await kv.get(`${owner}:of:${id}`)) as Media | null
      const createUnknownError = () =>
        notFound(`Unknown image: ${id.slice(0, 80)}.`, 'list_media lists the images; add_media adds one.')
      if (!media) throw createUnknownError()
      const createSizeError = (size: number) =>
        tooLarge(
          `${id} has ${size} bytes; the limit is ${MAX_REFERENCE_BYTES}.`,
          `Pass a smaller image for ${SETTING}.image.`,
        )
      const data = await cachePaths(ctx.config)
        .readFile(pathInCache(media.path), async ({ handle, size }) =>
          size > MAX_REFERENCE_BYTES ? createSizeError(size) : await handle.readFile(),
        )
        .catch(() => {
          throw createUnknownError()
        })
      if (data instanceof ToolError) throw data
      return { ...media, data }
    }),
  )
}
