import { type Caller, noOrigin, type Turn } from '../core/context.ts'
import { isRecord } from '../core/record.ts'
import type { Entrant } from './caller.ts'
import type { ServerHost } from './host.ts'

type Meta = Readonly<Record<string, unknown>>

const MAX_CHARS = 256
/** A message only has to show what it asks for. */
const MAX_MESSAGE_CHARS = 16_000
const MAX_KEPT = 64
/** Of all that is kept for one connection. */
const MAX_KEPT_CHARS = 256 * 1024
const PREFIX = 'pegboard/'
const NESTED = 'toolctx'
/** Of a profile that is not there, whatever it is called. */
const NO_PROFILE = ''

const KEYS = [
  'platform',
  'channel_id',
  'message_id',
  'user_id',
  'user_name',
  'guild_id',
  'category_id',
  'message',
  'deliberate',
  'generation_id',
  'profile',
  'provider',
] as const
type Key = (typeof KEYS)[number]
const LISTS = ['channel_members', 'seen_members'] as const
type List = (typeof LISTS)[number]
const MAX_MEMBERS = 1_000

const isOurs = (key: string): boolean =>
  key === NESTED ||
  key.startsWith(PREFIX) ||
  (KEYS as readonly string[]).includes(key) ||
  (LISTS as readonly string[]).includes(key)

const saysAny = (meta: Meta): boolean => {
  for (const key in meta) if (isOurs(key)) return true
  return false
}

/** The `_meta` of a request without what it says to us: servers behind us are not told who asks from where. */
export const withoutClaims = (meta: Meta): Meta =>
  saysAny(meta) ? Object.fromEntries(Object.entries(meta).filter(([key]) => !isOurs(key))) : meta

/** What requests of one connection say of themselves in `_meta`, as far as the operator lets them be believed. */
export interface Claims {
  /** The caller of a request: `base` itself for one that says nothing. */
  of(base: Caller, meta: unknown): Caller
  /** The way in for a request of an era without connections. */
  enter(meta: unknown): Entrant
  /** One for each profile beside the connection's own that its requests spoke for. */
  others(): readonly Caller[]
}

type ClaimsHost = Pick<ServerHost, 'trustMeta' | 'hasProfile' | 'catalog'>

export function createClaims(host: ClaimsHost, entrant: Entrant): Claims {
  const { trustMeta } = host
  let known = new Map<string, Caller>()
  let chars = 0
  let knownFor: Caller | undefined
  let version = -1
  const others = new Map<string, Caller>()

  const believed = (meta: unknown): meta is Meta => trustMeta !== 'none' && isRecord(meta) && saysAny(meta)

  function derive(base: Caller, said: Said): Caller {
    const profile = profileIn(said, entrant, host)
    const provider = trustMeta === 'all' ? said.provider?.toLowerCase() : undefined
    const caller: Caller = {
      ...base,
      ...(profile === undefined ? {} : { profile }),
      ...(provider === undefined ? {} : { provider }),
      origin: originIn(said, base, entrant),
      turn: turnIn(said),
    }
    if (caller.profile !== base.profile && caller.profile !== NO_PROFILE) others.set(caller.profile, caller)
    return caller
  }

  return {
    of(base, meta) {
      if (!believed(meta)) return base
      const said = read(meta)
      const now = host.catalog.snapshot().version
      if (knownFor !== base || version !== now || known.size >= MAX_KEPT || chars >= MAX_KEPT_CHARS) {
        known = new Map()
        chars = 0
        knownFor = base
        version = now
      }
      const text = JSON.stringify(said)
      let caller = known.get(text)
      if (!caller) {
        caller = derive(base, said)
        known.set(text, caller)
        chars += text.length
      }
      return caller
    },
    enter(meta) {
      const profile = believed(meta) ? profileIn(read(meta), entrant, host) : undefined
      return profile === undefined || profile === entrant.profile ? entrant : { ...entrant, profile }
    },
    others: () => [...others.values()],
  }
}

type Said = { readonly [K in Key]?: string } & { readonly [K in List]?: readonly string[] }

/** Of three spellings the most particular is taken. What is no text, is too long or holds control characters was not said. */
function read(meta: Meta): Said {
  const nested = isRecord(meta[NESTED]) ? meta[NESTED] : {}
  const saidAs = (key: string): unknown =>
    [meta[`${PREFIX}${key}`], nested[key], meta[key]].find((one) => one !== undefined)
  const said: Record<string, string | readonly string[]> = {}
  for (const key of KEYS) {
    const value = saidAs(key)
    if (key === 'message' && typeof value === 'string') said[key] = value.slice(0, MAX_MESSAGE_CHARS)
    else if (isName(value)) said[key] = value
  }
  for (const key of LISTS) {
    const value = saidAs(key)
    if (Array.isArray(value)) said[key] = value.filter(isName).slice(0, MAX_MEMBERS)
  }
  return said
}

const isName = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= MAX_CHARS && !/[\u0000-\u001f\u007f]/.test(value)

function profileIn({ profile, guild_id: guild }: Said, entrant: Entrant, host: ClaimsHost): string | undefined {
  if (host.trustMeta !== 'all' || entrant.bound) return undefined
  if (profile !== undefined) return host.hasProfile(profile) ? profile : NO_PROFILE
  return guild !== undefined && host.hasProfile(guild) ? guild : undefined
}

function originIn(said: Said, base: Caller, entrant: Entrant) {
  const { userId, userName } = base.origin ?? noOrigin
  return {
    platform: said.platform ?? '',
    channelId: said.channel_id ?? '',
    messageId: said.message_id ?? '',
    guildId: said.guild_id ?? '',
    ...(said.category_id === undefined ? {} : { categoryId: said.category_id }),
    ...(said.channel_members === undefined ? {} : { channelMembers: said.channel_members }),
    ...(said.seen_members === undefined ? {} : { seenMembers: said.seen_members }),
    ...(entrant.named
      ? { userId, userName }
      : { userId: said.user_id ?? userId, userName: said.user_name ?? userName }),
  }
}

function turnIn({ message, deliberate, generation_id: generation }: Said): Turn {
  return {
    ...(message === undefined ? {} : { message }),
    ...(isDeliberate(deliberate) ? { deliberate } : {}),
    ...(generation === undefined ? {} : { generation }),
  }
}

const isDeliberate = (word: string | undefined): word is NonNullable<Turn['deliberate']> =>
  word === 'follow' || word === 'on' || word === 'off'
