import type { LookupAddress } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import type { Agent } from 'undici'
import { PegboardError } from '../core/errors.ts'
import { lookedUp } from './name-lookup.ts'

/**
 * What kind of place an address is. `metadata` are the addresses where clouds hand out credentials; `reserved` is
 * everything nobody can be reached at: multicast, documentation, not yet assigned, or not an address at all.
 */
export type AddressKind = 'public' | 'loopback' | 'private' | 'metadata' | 'reserved'

/** What one kind of outgoing request may reach. */
export interface NetRules {
  readonly allow: ReadonlySet<AddressKind>
  /** Plain http is refused when false. */
  readonly http: boolean
  /** The setting that decides, for the person who reads the refusal. */
  readonly setting: string
  /** Answers of the name service; tests pass their own. */
  readonly lookup?: (host: string) => Promise<readonly LookupAddress[]>
}

/** https to public addresses and nothing else. */
export const publicOnly = (setting: string): NetRules => ({ allow: new Set(['public']), http: false, setting })

const ranges: ReadonlyArray<readonly [AddressKind, ReadonlyArray<readonly [string, number]>]> = [
  [
    'metadata',
    [
      ['169.254.169.254', 32],
      ['169.254.170.2', 32],
      ['169.254.170.23', 32],
      ['100.100.100.200', 32],
      ['168.63.129.16', 32],
      ['192.0.0.192', 32],
      ['fd00:ec2::', 32],
      ['fd20:ce::254', 128],
    ],
  ],
  // Nobody is at 0.0.0.0, but systems connect to themselves for it.
  [
    'loopback',
    [
      ['127.0.0.0', 8],
      ['0.0.0.0', 32],
      ['::1', 128],
      ['::', 128],
    ],
  ],
  [
    'private',
    [
      ['10.0.0.0', 8],
      ['100.64.0.0', 10],
      ['169.254.0.0', 16],
      ['172.16.0.0', 12],
      ['192.168.0.0', 16],
      ['fc00::', 7],
      ['fe80::', 10],
      ['fec0::', 10],
      // Where a network translates as it likes: what is inside cannot be known.
      ['64:ff9b:1::', 48],
    ],
  ],
  [
    'reserved',
    [
      ['0.0.0.0', 8],
      ['192.0.0.0', 24],
      ['192.0.2.0', 24],
      ['192.88.99.0', 24],
      ['198.18.0.0', 15],
      ['198.51.100.0', 24],
      ['203.0.113.0', 24],
      ['224.0.0.0', 4],
      ['240.0.0.0', 4],
      ['2001::', 23],
      ['2001:db8::', 32],
      ['3fff::', 20],
    ],
  ],
]

let lists: ReadonlyArray<readonly [AddressKind, BlockList]> | undefined

function listed(): NonNullable<typeof lists> {
  lists ??= ranges.map(([kind, subnets]) => {
    const list = new BlockList()
    for (const [net, bits] of subnets) list.addSubnet(net, bits, net.includes(':') ? 'ipv6' : 'ipv4')
    return [kind, list]
  })
  return lists
}

/**
 * The kind of an IP address in any notation Node takes, without brackets. IPv6 addresses that carry an IPv4 one
 * (mapped, compatible, NAT64, 6to4) are what that one is.
 */
export function addressKind(address: string): AddressKind {
  const plain = address.replace(/%.*$/, '')
  const family = isIP(plain)
  if (family === 0) return 'reserved'
  if (family === 6) {
    const tunnelled = isatapIPv4(plain)
    const kind = tunnelled === undefined ? 'public' : addressKind(tunnelled)
    if (kind !== 'public') return kind
  }
  const inner = family === 6 ? innerIPv4(plain) : undefined
  const [text, version] = inner === undefined ? ([plain, family] as const) : ([inner, 4] as const)
  for (const [kind, list] of listed()) if (list.check(text, version === 6 ? 'ipv6' : 'ipv4')) return kind
  // Of the IPv6 space only 2000::/3 is given out.
  return version === 6 && !/^[23]/.test(groupsOf(text)[0]?.toString(16).padStart(4, '0') ?? '') ? 'reserved' : 'public'
}

function innerIPv4(address: string): string | undefined {
  const groups = groupsOf(address)
  const zero = (from: number, to: number): boolean => groups.slice(from, to).every((group) => group === 0)
  const at = (index: number): string => {
    const [high = 0, low = 0] = groups.slice(index, index + 2)
    return [high >> 8, high & 255, low >> 8, low & 255].join('.')
  }
  if (groups[0] === 0x2002) return at(1)
  if (groups[0] === 0x64 && groups[1] === 0xff9b && zero(2, 6)) return at(6)
  // ::ffff:a.b.c.d, ::ffff:0:a.b.c.d and ::a.b.c.d, but not :: and ::1 themselves.
  if (zero(0, 5) && groups[5] === 0xffff) return at(6)
  if (zero(0, 4) && groups[4] === 0xffff && groups[5] === 0) return at(6)
  return zero(0, 6) && !(groups[6] === 0 && (groups[7] ?? 0) <= 1) ? at(6) : undefined
}

/** Of ISATAP (RFC 5214) the last 64 bits are 0:5efe or 200:5efe, and an IPv4 address, below any prefix. */
function isatapIPv4(address: string): string | undefined {
  const [high = 0, low = 0, first = 0, second = 0] = groupsOf(address).slice(4)
  // Two bits of the first number say whether the address is unique, and whether it is of a group.
  if ((high & 0xfcff) !== 0 || low !== 0x5efe) return undefined
  return [first >> 8, first & 255, second >> 8, second & 255].join('.')
}

/** The eight numbers of an IPv6 address, as the URL parser reads it. */
function groupsOf(address: string): readonly number[] {
  const text = new URL(`http://[${address}]/`).hostname.slice(1, -1)
  const [head = '', tail] = text.split('::')
  const numbers = (part: string | undefined): number[] =>
    part ? part.split(':').map((group) => Number.parseInt(group, 16)) : []
  const [before, after] = [numbers(head), numbers(tail)]
  return [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after]
}

/**
 * Refuses what can be refused by looking at the address: another scheme than http(s), a password in it, plain http where
 * the rules want https, an IP literal of a kind they do not allow. Names are only known once they are looked up.
 * @throws PegboardError E_SSRF_BLOCKED naming the setting
 */
export function assertReachable(url: URL, rules: NetRules): void {
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw refused('only http and https addresses are used', rules)
  if (url.username !== '' || url.password !== '') throw refused('an address must not carry a user or password', rules)
  const host = bare(url.hostname)
  const kind = isIP(host) ? addressKind(host) : isLocalName(host) ? 'loopback' : undefined
  if (kind !== undefined && !rules.allow.has(kind)) throw refused(`a ${kind} address is not allowed here`, rules, kind)
  if (url.protocol === 'http:' && !rules.http && !(kind === 'loopback' && rules.allow.has('loopback')))
    throw refused('plain http is not allowed here', rules)
}

/** Whether an address is this machine by the look of it. */
export function isLoopback(url: URL): boolean {
  const host = bare(url.hostname)
  return isIP(host) ? addressKind(host) === 'loopback' : isLocalName(host)
}

const bare = (hostname: string): string => hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
const isLocalName = (host: string): boolean => /(^|\.)localhost$/i.test(host)

const refused = (why: string, rules: NetRules, kind?: AddressKind): PegboardError =>
  new PegboardError('E_SSRF_BLOCKED', `The address is refused: ${why}.`, {
    // Where private networks are allowed already, the setting has nothing more to give.
    hint:
      (kind === 'metadata' || kind === 'reserved') && rules.allow.has('private')
        ? 'No setting allows it.'
        : `${rules.setting} decides.`,
  })

/**
 * An undici agent that connects only where the rules allow: it checks IP literals, every answer of the name service (one
 * that is refused refuses all), and the address the socket has in the end. Proxies of the environment are not used.
 * Requests it refuses fail with PegboardError E_SSRF_BLOCKED, before a connection is made.
 * @param options passed to the agent; its `connect` may hold only a timeout (default 10 s, the look-up included)
 */
export async function createGuardedAgent(
  rules: NetRules,
  options: Omit<Agent.Options, 'connect'> & { readonly connect?: { readonly timeout?: number } } = {},
): Promise<Agent> {
  // The default export, because a bundler leaves the named ones of a CommonJS package undefined.
  const undici = (await import('undici')).default
  const connect = undici.buildConnector({
    timeout: 10_000,
    ...options.connect,
    // Whatever the environment says of certificates.
    rejectUnauthorized: true,
    lookup: guardedLookup(rules),
  })
  return new undici.Agent({
    ...options,
    connect(target, callback) {
      try {
        // Neither look-up nor anything else is asked about a literal.
        assertReachable(new URL(`${target.protocol}//${target.host ?? target.hostname}`), { ...rules, http: true })
      } catch (error) {
        return void callback(error as Error, null)
      }
      connect(target, (error, socket) => {
        if (error || !socket) return callback(error as Error, null)
        const kind = addressKind(socket.remoteAddress ?? '')
        if (rules.allow.has(kind)) return callback(null, socket)
        socket.destroy()
        callback(refused(`its name leads to a ${kind} address`, rules, kind), null)
      })
    },
  })
}

/** Looks names up as the rules allow: one answer that is refused refuses all. */
export function guardedLookup(rules: NetRules): LookupFunction {
  return (host, options, callback) => {
    const fail = (error: unknown): void => callback(error as Error, '', 0)
    resolved(host, rules).then((answers) => {
      const bad = answers.map(({ address }) => addressKind(address)).find((kind) => !rules.allow.has(kind))
      if (bad !== undefined) return fail(refused(`its name leads to a ${bad} address`, rules, bad))
      const wanted = answers.filter(({ family }) => !options.family || family === Number(options.family))
      const [first] = wanted
      if (!first) return fail(Object.assign(new Error('the name has no address'), { code: 'ENOTFOUND' }))
      if (options.all) callback(null, wanted.slice())
      else callback(null, first.address, first.family)
    }, fail)
  }
}

/**
 * Refuses an address whose name leads somewhere the rules do not allow; one refused answer refuses all.
 * @throws PegboardError E_SSRF_BLOCKED naming the setting, or what the name service says
 */
export async function assertResolves(url: URL, rules: NetRules): Promise<void> {
  const host = bare(url.hostname)
  if (isIP(host)) return
  const answers = await resolved(host, rules)
  const bad = answers.map(({ address }) => addressKind(address)).find((kind) => !rules.allow.has(kind))
  if (bad !== undefined) throw refused(`its name leads to a ${bad} address`, rules, bad)
}

async function resolved(host: string, rules: NetRules): Promise<readonly LookupAddress[]> {
  return rules.lookup ? await rules.lookup(host) : await lookedUp(host)
}
