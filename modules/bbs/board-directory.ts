import { asRecord, type Json } from '../_is-record.ts'
import { listOf, numberOf, textOf } from './json.ts'
import type { Order } from './kinds.ts'
import { contains } from './match.ts'

export interface Service {
  readonly protocol: string
  readonly address: string
  readonly port: number
}

export interface DirectoryBoard {
  readonly fields: Json
  readonly name: string
  readonly sysops: readonly string[]
  readonly software: string
  readonly services: readonly Service[]
  readonly networks: readonly { readonly name: string; readonly address: string }[]
}

/** The valid entries of a directory file in Synchronet's format. */
export const parseBoards = (value: unknown): readonly DirectoryBoard[] =>
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

/** Shorter addresses match only as a whole. */
const MIN_PART_LENGTH = 4

/** Finds a board by name, then by sysop, then by address. */
export function findBoard(boards: readonly DirectoryBoard[], query: string): DirectoryBoard | undefined {
  const lowerQuery = query.trim().toLowerCase()
  if (lowerQuery === '') return undefined
  const domain = lowerQuery.replace(/^(?:bbs|telnet|ftp|ssh)\./, '')
  const matchesAddress = (address: string): boolean =>
    [lowerQuery, domain].some(
      (host) =>
        address === host ||
        (host.length >= MIN_PART_LENGTH && address.includes(host)) ||
        (address.length >= MIN_PART_LENGTH && host.includes(address)),
    )
  return (
    boards.find(({ name }) => name.toLowerCase() === lowerQuery) ??
    boards.find(({ name }) => contains(name, lowerQuery)) ??
    boards.find(({ sysops }) => sysops.some((sysop) => sysop.toLowerCase() === lowerQuery)) ??
    boards.find(({ sysops }) => sysops.some((sysop) => contains(sysop, lowerQuery))) ??
    boards.find(({ services }) =>
      services.some(({ address }) => address !== '' && matchesAddress(address.toLowerCase())),
    )
  )
}

const entryOf = ({ fields }: DirectoryBoard): Json => asRecord(fields['entry'])
const verificationOf = (board: DirectoryBoard): Json => asRecord(entryOf(board)['autoverify'])
/** The date of an event such as `{ "on": "2026-01-31", … }`. */
const dateOf = (value: unknown): string => textOf(asRecord(value)['on'])

/** Share of successful nightly checks, if there were any. */
function reliabilityOf(board: DirectoryBoard) {
  const verification = verificationOf(board)
  const [attempts, successes] = [numberOf(verification['attempts']), numberOf(verification['successes'])]
  return attempts > 0 ? { attempts, successes, ratio: Number((successes / attempts).toFixed(3)) } : null
}

/** All facts about a board. */
export function detailsOf(board: DirectoryBoard) {
  const { fields, name, sysops, software, services, networks } = board
  const verification = verificationOf(board)
  const failure = asRecord(verification['last_failure'])
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
    verify_status: 'success' in verification ? (verification['success'] === true ? 'up' : 'down') : 'unknown',
    verify_last_success: dateOf(verification['last_success']),
    verify_last_failure: dateOf(failure),
    verify_last_failure_reason: textOf(failure['result']),
    verify_reliability: reliabilityOf(board),
    cached_stats: total ?? null,
    cached_stats_asof: dateOf(entryOf(board)['verified']),
  }
}

export interface Filters {
  readonly software?: string | undefined
  readonly network?: string | undefined
  readonly sysop?: string | undefined
  readonly os?: string | undefined
}

const matchesFilter = (part: string | undefined, texts: readonly string[]): boolean =>
  !part?.trim() || texts.some((text) => contains(text, part))

const userCountOf = ({ fields }: DirectoryBoard): number => numberOf(asRecord(fields['total'])['users'])
const startDateOf = (board: DirectoryBoard): string =>
  textOf(board.fields['first_online']) || dateOf(entryOf(board)['created'])
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const COMPARE: Readonly<Record<Order, (a: DirectoryBoard, b: DirectoryBoard) => number>> = {
  recent: (a, b) => compare(startDateOf(b), startDateOf(a)),
  oldest: (a, b) => compare(startDateOf(a) || '9999', startDateOf(b) || '9999'),
  active: (a, b) => compare(dateOf(verificationOf(b)['last_success']), dateOf(verificationOf(a)['last_success'])),
  reliable: (a, b) => {
    const [one, other] = [reliabilityOf(a), reliabilityOf(b)]
    return (other?.ratio ?? -1) - (one?.ratio ?? -1) || (other?.attempts ?? 0) - (one?.attempts ?? 0)
  },
  popular: (a, b) => userCountOf(b) - userCountOf(a),
  name: (a, b) => compare(a.name.toLowerCase(), b.name.toLowerCase()),
}

const LOGIN_PROTOCOLS = new Set(['telnet', 'ssh', 'rlogin'])

/** The first service where users log in. */
export const loginServiceOf = ({ services }: DirectoryBoard): Service | undefined =>
  services.find(({ protocol, address }) => LOGIN_PROTOCOLS.has(protocol) && address !== '')

const summaryOf = (board: DirectoryBoard) => {
  const login = loginServiceOf(board)
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
export function listBoards(boards: readonly DirectoryBoard[], kind: Order, limit: number, filters: Filters) {
  const { software, network, sysop, os } = filters
  const matches = boards.filter(
    (board) =>
      matchesFilter(software, [board.software]) &&
      matchesFilter(
        network,
        board.networks.map(({ name }) => name),
      ) &&
      matchesFilter(sysop, board.sysops) &&
      matchesFilter(os, [textOf(board.fields['os']), board.software]),
  )
  const usedFilters = Object.fromEntries(Object.entries(filters).filter(([, value]) => value?.trim()))
  return {
    kind,
    limit,
    total: matches.length,
    filters: usedFilters,
    bbses: matches.toSorted(COMPARE[kind]).slice(0, limit).map(summaryOf),
    ...(matches.length === 0
      ? { note: 'No board in this directory matches. Say so; do not invent one or name one from memory.' }
      : {}),
  }
}
