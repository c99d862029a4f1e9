import { type Caller, noOrigin, type Turn } from '../core/caller.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import type { Identity } from './identity.ts'
import type { ServerHost } from './server-host.ts'

const MAX_CHARS = 256
/** Longest `message`, in characters; the rest is dropped. */
const MAX_MESSAGE_CHARS = 16_000
const PREFIX = 'pegboard/'
const NESTED = 'toolctx'
/** Stands for any profile that does not exist. */
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
const LEVEL = 'user_level'

const isClaim = (key: string): boolean =>
  key === NESTED ||
  key.startsWith(PREFIX) ||
  key === LEVEL ||
  (KEYS as readonly string[]).includes(key) ||
  (LISTS as readonly string[]).includes(key)

const hasClaims = (meta: Json): boolean => {
  for (const key in meta) if (isClaim(key)) return true
  return false
}

/** The `_meta` of a request without claims to Pegboard: servers must not learn who asks from where. */
export const withoutClaims = (meta: Json): Json =>
  hasClaims(meta) ? Object.fromEntries(Object.entries(meta).filter(([key]) => !isClaim(key))) : meta

/** Reads what requests of one connection claim in `_meta`, as far as `server.trustMeta` allows. */
export type RequestClaims = ReturnType<typeof createRequestClaims>

type ClaimsHost = Pick<ServerHost, 'trustMeta' | 'hasProfile'>

export function createRequestClaims(host: ClaimsHost, identity: Identity) {
  const { trustMeta } = host
  const others = new Map<string, Caller>()

  const isTrusted = (meta: unknown): meta is Json => trustMeta !== 'none' && isRecord(meta) && hasClaims(meta)

  function derive(base: Caller, claimed: Claims): Caller {
    const profile = profileIn(claimed, identity, host)
    const provider = trustMeta === 'all' ? claimed.provider?.toLowerCase() : undefined
    const caller: Caller = {
      ...base,
      ...omitUndefined({ profile, provider }),
      origin: originIn(claimed, base, identity, trustMeta === 'all'),
      turn: turnIn(claimed),
    }
    if (caller.profile !== base.profile && caller.profile !== NO_PROFILE) others.set(caller.profile, caller)
    return caller
  }

  return {
    /** The caller of a request; `base` itself if it claims nothing. */
    of: (base: Caller, meta: unknown): Caller => (isTrusted(meta) ? derive(base, readClaims(meta)) : base),
    /** The identity of a 2026 request, which has no connection. */
    enter(meta: unknown): Identity {
      const profile = isTrusted(meta) ? profileIn(readClaims(meta), identity, host) : undefined
      return profile === undefined || profile === identity.profile ? identity : { ...identity, profile }
    },
    /** One caller for each other profile that requests of the connection named. */
    others: (): readonly Caller[] => [...others.values()],
  }
}

type Claims = { readonly [K in Key]?: string } & { readonly [K in List]?: readonly string[] } & {
  readonly [LEVEL]?: number
}

/** Of three spellings the most specific wins. Values that are not text, too long or have control characters are ignored. */
function readClaims(meta: Json): Claims {
  const nested = asRecord(meta[NESTED])
  const claimFor = (key: string): unknown =>
    [meta[`${PREFIX}${key}`], nested[key], meta[key]].find((one) => one !== undefined)
  const claimed: Record<string, string | number | readonly string[]> = {}
  for (const key of KEYS) {
    const value = claimFor(key)
    if (key === 'message' && typeof value === 'string') claimed[key] = value.slice(0, MAX_MESSAGE_CHARS)
    else if (isName(value)) claimed[key] = value
  }
  for (const key of LISTS) {
    const value = claimFor(key)
    if (Array.isArray(value)) claimed[key] = value.filter(isName).slice(0, MAX_MEMBERS)
  }
  const level = claimFor(LEVEL)
  if (Number.isSafeInteger(level) && (level as number) >= 0) claimed[LEVEL] = level as number
  return claimed
}

const isName = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= MAX_CHARS && !/[\u0000-\u001f\u007f]/.test(value)

function profileIn({ profile, guild_id: guild }: Claims, identity: Identity, host: ClaimsHost): string | undefined {
  if (host.trustMeta !== 'all' || identity.bound) return undefined
  if (profile !== undefined) return host.hasProfile(profile) ? profile : NO_PROFILE
  return guild !== undefined && host.hasProfile(guild) ? guild : undefined
}

/** @param trusted whether a request may claim the access level of its user */
function originIn(claimed: Claims, base: Caller, identity: Identity, trusted: boolean) {
  const { userId, userName } = base.origin ?? noOrigin
  return {
    platform: claimed.platform ?? '',
    channelId: claimed.channel_id ?? '',
    messageId: claimed.message_id ?? '',
    guildId: claimed.guild_id ?? '',
    ...omitUndefined({
      categoryId: claimed.category_id,
      channelMembers: claimed.channel_members,
      seenMembers: claimed.seen_members,
      userLevel: trusted && !identity.named ? claimed.user_level : undefined,
    }),
    ...(identity.named
      ? { userId, userName }
      : { userId: claimed.user_id ?? userId, userName: claimed.user_name ?? userName }),
  }
}

const turnIn = ({ message, deliberate, generation_id: generation }: Claims): Turn =>
  omitUndefined({ message, deliberate: isDeliberate(deliberate) ? deliberate : undefined, generation })

const isDeliberate = (word: string | undefined): word is NonNullable<Turn['deliberate']> =>
  word === 'follow' || word === 'on' || word === 'off'
