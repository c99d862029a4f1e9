import { type Fields, fieldsOf, listOf, numberOf, textOf } from './json.ts'
import type { Order } from './kinds.ts'
import { contains } from './match.ts'

export interface Service {
  readonly protocol: string
  readonly address: string
  readonly port: number
}

export interface DirectoryBoard {
  readonly fields: Fields
  readonly name: string
  readonly sysops: readonly string[]
  readonly software: string
  readonly services: readonly Service[]
  readonly networks: readonly { readonly name: string; readonly address: string }[]
}

/** The valid entries of a directory file in Synchronet's format. */
export const boardsIn = (value: unknown): readonly DirectoryBoard[] =>
  listOf(value)
    .filter(({ name }) => textOf(name) !== '')
    .map((fields) => ({
      fields,
      name: textOf(fields['name']),
      sysops: listOf(fields['sysop'])
        .map(({ name }) => textOf(name))
        .filter((name) => name !== ''),
      software: textOf(fields['software']),
      services: listOf(fields['service']).map(({ protocol, address, port }) => ({
        protocol: textOf(protocol).toLowerCase(),
        address: textOf(address),
        port: numberOf(port),
      })),
      networks: listOf(fields['network']).map(({ name, address }) => ({
        name: textOf(name),
        address: textOf(address),
      })),
    }))

/** Minimum number of characters for matching an address. */
const MIN_ADDRESS = 4

/** Finds a board by name, then by sysop, then by address. */
export function lookup(boards: readonly DirectoryBoard[], query: string): DirectoryBoard | undefined {
  const lowerQuery = query.trim().toLowerCase()
  if (lowerQuery === '') return undefined
  const bare = lowerQuery.replace(/^(?:bbs|telnet|ftp|ssh)\./, '')
  const isAt = (address: string): boolean =>
    [lowerQuery, bare].some(
      (host) =>
        address === host ||
        (host.length >= MIN_ADDRESS && address.includes(host)) ||
        (address.length >= MIN_ADDRESS && host.includes(address)),
    )
  return (
    boards.find(({ name }) => name.toLowerCase() === lowerQuery) ??
    boards.find(({ name }) => contains(name, lowerQuery)) ??
    boards.find(({ sysops }) => sysops.some((sysop) => sysop.toLowerCase() === lowerQuery)) ??
    boards.find(({ sysops }) => sysops.some((sysop) => contains(sysop, lowerQuery))) ??
    boards.find(({ services }) => services.some(({ address }) => address !== '' && isAt(address.toLowerCase())))
  )
}

const entryOf = ({ fields }: DirectoryBoard): Fields => fieldsOf(fields['entry'])
const verifiedOf = (board: DirectoryBoard): Fields => fieldsOf(entryOf(board)['autoverify'])
const onOf = (value: unknown): string => textOf(fieldsOf(value)['on'])

/** Share of successful nightly checks, if there were any. */
function reliabilityOf(board: DirectoryBoard) {
  const { attempts, successes } = verifiedOf(board)
  const [all, good] = [numberOf(attempts), numberOf(successes)]
  return all > 0 ? { attempts: all, successes: good, ratio: Number((good / all).toFixed(3)) } : null
}

/** All facts about a board. */
export function recordOf(board: DirectoryBoard) {
  const { fields, name, sysops, software, services, networks } = board
  const verified = verifiedOf(board)
  const failure = fieldsOf(verified['last_failure'])
  const { terminal, total, description } = fields
  return {
    name,
    sysop: sysops.join(', '),
    location: textOf(fields['location']),
    software,
    description: Array.isArray(description) ? description.map(textOf).join(' ') : textOf(description),
    web_site: textOf(fields['web_site']),
    first_online: textOf(fields['first_online']),
    services,
    terminal: terminal ?? null,
    networks: networks.map((network) =>
      network.address === '' ? network.name : `${network.name} (${network.address})`,
    ),
    verify_status: 'success' in verified ? (verified['success'] === true ? 'up' : 'down') : 'unknown',
    verify_last_success: onOf(verified['last_success']),
    verify_last_failure: onOf(failure),
    verify_last_failure_reason: textOf(failure['result']),
    verify_reliability: reliabilityOf(board),
    cached_stats: total ?? null,
    cached_stats_asof: onOf(entryOf(board)['verified']),
  }
}

export interface Filters {
  readonly software?: string | undefined
  readonly network?: string | undefined
  readonly sysop?: string | undefined
  readonly os?: string | undefined
}

const fits = (part: string | undefined, texts: readonly string[]): boolean =>
  !part?.trim() || texts.some((text) => contains(text, part))

const usersOf = ({ fields }: DirectoryBoard): number => numberOf(fieldsOf(fields['total'])['users'])
const beganOf = (board: DirectoryBoard): string =>
  textOf(board.fields['first_online']) || onOf(entryOf(board)['created'])
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const orders: Readonly<Record<Order, (a: DirectoryBoard, b: DirectoryBoard) => number>> = {
  recent: (a, b) => compare(beganOf(b), beganOf(a)),
  oldest: (a, b) => compare(beganOf(a) || '9999', beganOf(b) || '9999'),
  active: (a, b) => compare(onOf(verifiedOf(b)['last_success']), onOf(verifiedOf(a)['last_success'])),
  reliable: (a, b) => {
    const [one, other] = [reliabilityOf(a), reliabilityOf(b)]
    return (other?.ratio ?? -1) - (one?.ratio ?? -1) || (other?.attempts ?? 0) - (one?.attempts ?? 0)
  },
  popular: (a, b) => usersOf(b) - usersOf(a),
  name: (a, b) => compare(a.name.toLowerCase(), b.name.toLowerCase()),
}

const LOGINS = new Set(['telnet', 'ssh', 'rlogin'])

/** The first service where callers log in. */
export const loginOf = ({ services }: DirectoryBoard): Service | undefined =>
  services.find(({ protocol, address }) => LOGINS.has(protocol) && address !== '')

const compactOf = (board: DirectoryBoard) => {
  const login = loginOf(board)
  return {
    name: board.name,
    sysop: board.sysops.join(', '),
    location: textOf(board.fields['location']),
    software: board.software,
    address: login === undefined ? '' : `${login.address}:${login.port} (${login.protocol})`,
    first_online: textOf(board.fields['first_online']),
  }
}

/** Matching boards, sorted; `total` counts them before the limit. */
export function list(boards: readonly DirectoryBoard[], kind: Order, limit: number, filters: Filters) {
  const { software, network, sysop, os } = filters
  const fitting = boards.filter(
    (board) =>
      fits(software, [board.software]) &&
      fits(
        network,
        board.networks.map(({ name }) => name),
      ) &&
      fits(sysop, board.sysops) &&
      fits(os, [textOf(board.fields['os']), board.software]),
  )
  const given = Object.fromEntries(Object.entries(filters).filter(([, value]) => value?.trim()))
  return {
    kind,
    limit,
    total: fitting.length,
    filters: given,
    bbses: fitting.toSorted(orders[kind]).slice(0, limit).map(compactOf),
    ...(fitting.length === 0
      ? { note: 'No board in this directory matches. Say so; do not invent one or name one from memory.' }
      : {}),
  }
}
