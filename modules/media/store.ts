import { createHash } from 'node:crypto'
import { type CallContext, type Kv, ToolError } from 'pegboard'
import { cachePaths, SETTING, type Settings } from './config.ts'
import { kindOf } from './kind.ts'

const KEPT_S = 7 * 24 * 60 * 60
export const MAX_REFERENCES = 3
export const MAX_REFERENCE_BYTES = 6 * 1024 * 1024

/** Where a picture came from: it was made here, came with a message, or is somebody's own. */
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

function kvOf({ services }: Context): Kv {
  if (services.kv) return services.kv
  throw new ToolError('Pictures cannot be kept here.', {
    code: 'E_BACKEND_UNAVAILABLE',
    hint: 'Set services.kv to true.',
  })
}

/** Of one principal: nobody names the pictures of another. */
const ownerOf = ({ caller }: Context): string =>
  createHash('sha256').update(caller.principal).digest('hex').slice(0, 16)

/** @throws ToolError for what is no picture */
export async function keep(
  ctx: Context,
  data: Uint8Array,
  { origin, caption }: { readonly origin: Origin; readonly caption: string },
): Promise<Media> {
  const kind = kindOf(data)
  if (!kind) throw new ToolError('That is no picture: PNG, JPEG, WebP and GIF are.', { hint: 'Give another one.' })
  const [kv, owner] = [kvOf(ctx), ownerOf(ctx)]
  const media_id = `media_${await kv.incr(`${owner}:count`)}`
  const path = `media/${owner}/${media_id}.${kind.extension}`
  await cachePaths(ctx.config).writeFile(path, data)
  const media: Media = {
    media_id,
    path: `file_cache_dir/${path}`,
    mimetype: kind.mimetype,
    bytes: data.length,
    origin,
    caption: caption.slice(0, 200),
    created_at: Date.now(),
  }
  await kv.set(`${owner}:of:${media_id}`, media, { ttl: KEPT_S })
  return media
}

/** Newest first. */
export async function list(ctx: Context, limit: number): Promise<readonly Media[]> {
  const [kv, owner] = [kvOf(ctx), ownerOf(ctx)]
  const keys = await kv.keys(`${owner}:of:`)
  const number = (key: string): number => Number(/\d+$/.exec(key)?.[0] ?? 0)
  const newest = [...keys].sort((a, b) => number(b) - number(a)).slice(0, limit)
  const found = await Promise.all(newest.map((key) => kv.get(key)))
  return found.flatMap((media) => (media === null ? [] : [media as Media]))
}

/** The pictures a call names. @throws ToolError for one that is not there, too many or too large */
export async function references(ctx: Context, given: string | undefined): Promise<readonly Reference[]> {
  const ids = (given ?? '').split(',').flatMap((id) => id.trim() || [])
  if (ids.length > MAX_REFERENCES)
    throw new ToolError(`At most ${MAX_REFERENCES} pictures can be named; these are ${ids.length}.`, {
      code: 'E_VALIDATION',
    })
  if (ids.length === 0) return []
  const [kv, owner] = [kvOf(ctx), ownerOf(ctx)]
  return await Promise.all(
    ids.map(async (id) => {
      const media = (await kv.get(`${owner}:of:${id}`)) as Media | null
      const gone = () =>
        new ToolError(`There is no picture ${id.slice(0, 80)}.`, {
          code: 'E_NOT_FOUND',
          hint: 'list_media has those there are; add_media takes another one in.',
        })
      if (!media) throw gone()
      const data = await cachePaths(ctx.config)
        .readFile(media.path.replace(/^file_cache_dir\//, ''), ({ handle }) => handle.readFile())
        .catch(() => {
          throw gone()
        })
      if (data.length > MAX_REFERENCE_BYTES)
        throw new ToolError(`${id} has ${data.length} bytes; ${MAX_REFERENCE_BYTES} can be sent.`, {
          code: 'E_TOO_LARGE',
          hint: `${SETTING}.image says where to; give a smaller one.`,
        })
      return { ...media, data }
    }),
  )
}
