import type { LookupAddress } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import type { Agent } from 'undici'
import { PegboardError } from '../core/errors.ts'
import { lookUpName } from './name-lookup.ts'

/**
 * The kind of an address. `metadata`: where clouds hand out credentials; `reserved`: multicast, documentation,
 * unassigned, or not an address at all.
 */
export type AddressKind = 'public' | 'loopback' | 'private' | 'link-local' | 'metadata' | 'reserved'

/** What one kind of outgoing request may reach. */
export interface NetRules {
  readonly allow: ReadonlySet<AddressKind>
  /** False rejects plain http. */
  readonly http: boolean
  /** The setting for these rules, which errors name. */
  readonly setting: string
  /** DNS lookup; tests pass their own. */
  readonly lookup?: (host: string) => Promise<readonly LookupAddress[]>
}

/** https to public addresses only. */
export const publicOnly = (setting: string): NetRules => ({ allow: new Set(['public']), http: false, setting })

const ranges: ReadonlyArray<readonly [AddressKind, ReadonlyArray<readonly [string, number]>]> = [
  [
    'metadata',
    [
      ['169.254.169.254', 32],
      ['169.254.170.2', 32],
      ['169.254.170.23', 32],
      ['169.254.0.23', 32],
      ['169.254.42.42', 32],
      ['100.100.100.200', 32],
      ['168.63.129.16', 32],
      ['192.0.0.192', 32],
      ['fd00:ec2::', 32],
      ['fd20:ce::254', 128],
      ['fd00:42::42', 128],
      ['fe80::a9fe:a9fe', 128],
    ],
  ],
  // 0.0.0.0 belongs to no machine. A system that connects to it connects to itself.
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
    'link-local',
    [
      ['169.254.0.0', 16],
      ['fe80::', 10],
    ],
  ],
  [
    'private',
    [
      ['10.0.0.0', 8],
      ['100.64.0.0', 10],
      ['172.16.0.0', 12],
      ['192.168.0.0', 16],
      ['fc00::', 7],
      ['fec0::', 10],
      // Each local network translates these addresses in its own way, so the target is unknown.
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

function blockLists(): NonNullable<typeof lists> {
  lists ??= ranges.map(([kind, subnets]) => {
    const list = new BlockList()
    for (const [net, bits] of subnets) list.addSubnet(net, bits, net.includes(':') ? 'ipv6' : 'ipv4')
    return [kind, list]
  })
  return lists
}

/**
 * The kind of an IP address in any notation that Node accepts, without brackets. An IPv6 address that embeds an IPv4
 * address (mapped, compatible, NAT64, 6to4) has the kind of that one.
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
  for (const [kind, list] of blockLists()) if (list.check(text, version === 6 ? 'ipv6' : 'ipv4')) return kind
  // Only 2000::/3 is assigned for public IPv6.
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

/** An ISATAP address (RFC 5214) ends with 0:5efe or 200:5efe and an IPv4 address, below any prefix. */
function isatapIPv4(address: string): string | undefined {
  const [high = 0, low = 0, first = 0, second = 0] = groupsOf(address).slice(4)
  // Two bits mark universal and group addresses; they may have any value.
  if ((high & 0xfcff) !== 0 || low !== 0x5efe) return undefined
  return [first >> 8, first & 255, second >> 8, second & 255].join('.')
}

/** The eight groups of an IPv6 address, as the URL parser reads it. */
function groupsOf(address: string): readonly number[] {
  const text = new URL(`http://[${address}]/`).hostname.slice(1, -1)
  const [head = '', tail] = text.split('::')
  const numbers = (part: string | undefined): number[] =>
    part ? part.split(':').map((group) => Number.parseInt(group, 16)) : []
  const [before, after] = [numbers(head), numbers(tail)]
  return [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after]
}

/**
 * Rejects a URL by its text: other schemes than http(s), a password, plain http if the rules require https, or an IP
 * literal of a disallowed kind. Host names are checked when they are resolved.
 * @throws PegboardError E_SSRF_BLOCKED naming the setting
 */
export function assertReachable(url: URL, rules: NetRules): void {
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw createAddressError('only http and https addresses are used', rules)
  if (url.username !== '' || url.password !== '')
    throw createAddressError('an address must not carry a user or password', rules)
  const host = bareHost(url.hostname)
  const kind = isIP(host) ? addressKind(host) : isLocalName(host) ? 'loopback' : undefined
  if (kind !== undefined && !rules.allow.has(kind))
    throw createAddressError(`a ${kind} address is not allowed here`, rules, kind)
  if (url.protocol === 'http:' && !rules.http && !(kind === 'loopback' && rules.allow.has('loopback')))
    throw createAddressError('plain http is not allowed here', rules)
}

/** True if the URL's host is a loopback address or name. */
export function isLoopback(url: URL): boolean {
  const host = bareHost(url.hostname)
  return isIP(host) ? addressKind(host) === 'loopback' : isLocalName(host)
}

/** True for https, and for plain http to this machine, where nobody can read it on the way. */
export const isSafeUrl = (url: URL): boolean =>
  url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url))

const bareHost = (hostname: string): string => hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
const isLocalName = (host: string): boolean => /(^|\.)localhost$/i.test(host)

export const createAddressError = (
  why: string,
  { allow, setting }: Pick<NetRules, 'allow' | 'setting'>,
  kind?: AddressKind,
): PegboardError =>
  new PegboardError('E_SSRF_BLOCKED', `The address is refused: ${why}.`, { hint: addressHint(allow, setting, kind) })

function addressHint(allow: NetRules['allow'], setting: string, kind: AddressKind | undefined): string {
  // If private networks are already allowed, changing the setting would not help.
  if (kind !== undefined && kind !== 'loopback' && allow.has('private')) return 'No setting allows it.'
  if (kind === 'metadata' || kind === 'reserved')
    return `Use another address. A change of ${setting} would not allow this one.`
  return `Use another address, or ask the operator to change ${setting}.`
}

/**
 * An undici agent that connects only where the rules allow. It checks IP literals, every DNS answer (one disallowed
 * answer rejects all), and the address of the connected socket. Proxy variables are ignored. Rejected requests fail
 * with PegboardError E_SSRF_BLOCKED before a connection is made.
 * @param options for the agent; its `connect` may contain only a timeout (default 10 s, including the DNS lookup)
 */
export async function createGuardedAgent(
  rules: NetRules,
  options: Omit<Agent.Options, 'connect'> & { readonly connect?: { readonly timeout?: number } } = {},
): Promise<Agent> {
  // The default export, because bundlers leave the named exports of a CommonJS package undefined.
  const undici = (await import('undici')).default
  const connect = undici.buildConnector({
    timeout: 10_000,
    ...options.connect,
    // Overrides NODE_TLS_REJECT_UNAUTHORIZED.
    rejectUnauthorized: true,
    lookup: guardedLookup(rules),
  })
  return new undici.Agent({
    ...options,
    connect(target, callback) {
      try {
        // undici does not pass IP literals to the lookup function.
        assertReachable(new URL(`${target.protocol}//${target.host ?? target.hostname}`), { ...rules, http: true })
      } catch (error) {
        return void callback(error as Error, null)
      }
      connect(target, (error, socket) => {
        if (error || !socket) return callback(error as Error, null)
        const kind = addressKind(socket.remoteAddress ?? '')
        if (rules.allow.has(kind)) return callback(null, socket)
        socket.destroy()
        callback(createAddressError(`its name leads to a ${kind} address`, rules, kind), null)
      })
    },
  })
}

/** DNS lookup under the rules: one disallowed answer rejects all. */
export function guardedLookup(rules: NetRules): LookupFunction {
  return (host, options, callback) => {
    const fail = (error: unknown): void => callback(error as Error, '', 0)
    resolveAllowed(host, rules).then((answers) => {
      const matching = answers.filter(({ family }) => !options.family || family === Number(options.family))
      const [first] = matching
      if (!first) return fail(Object.assign(new Error('the name has no address'), { code: 'ENOTFOUND' }))
      if (options.all) callback(null, matching.slice())
      else callback(null, first.address, first.family)
    }, fail)
  }
}

/**
 * Rejects a URL whose name resolves to a disallowed address; one disallowed answer rejects all.
 * @throws PegboardError E_SSRF_BLOCKED naming the setting, or the DNS error
 */
export async function assertResolves(url: URL, rules: NetRules): Promise<void> {
  const host = bareHost(url.hostname)
  if (!isIP(host)) await resolveAllowed(host, rules)
}

/** The addresses of a name. @throws PegboardError E_SSRF_BLOCKED if one of them is not allowed, or the DNS error */
async function resolveAllowed(host: string, rules: NetRules): Promise<readonly LookupAddress[]> {
  const answers = rules.lookup ? await rules.lookup(host) : await lookUpName(host)
  const deniedKind = answers.map(({ address }) => addressKind(address)).find((kind) => !rules.allow.has(kind))
  if (deniedKind !== undefined) throw createAddressError(`its name leads to a ${deniedKind} address`, rules, deniedKind)
  return answers
}
