import { join } from 'node:path'
import { createFilters, leftOutBy } from '../catalog/naming.ts'
import type { Config } from '../config/load-config.ts'
import { type ErrorCode, messageOf } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import { once } from '../core/once.ts'
import { quoteWord } from '../core/quote-word.ts'
import { didYouMean } from '../core/tool-names.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { META_NAMES } from '../meta/surface.ts'
import { listForAssessment } from '../openapi/api-approval.ts'
import { moduleOf } from '../openapi/apis.ts'
import { lockName } from '../openapi/openapi-options.ts'
import { isStoredList, listKey, type StoredList } from '../openapi/stored-list.ts'
import { createBytesStore, createFileStore } from '../state/file-store.ts'
import {
  assess,
  type ListedDefinition,
  type OtherTools,
  type QuarantineReason,
  type TrustMode,
} from '../trust/assess-tools.ts'
import { type Change, changesBetween, changesOfNew } from '../trust/definition-diff.ts'
import type { Finding } from '../trust/finding.ts'
import { fingerprint } from '../trust/fingerprint.ts'
import { createLock, type Lock } from '../trust/lock-file.ts'
import { mergeOtherTools, otherToolsOf } from '../trust/other-tools.ts'
import { definitionsKey, type StoredDefinitions, storeDefinitions } from '../trust/trust.ts'
import { decodeManifest, manifestKey } from '../upstream/manifest.ts'

/** A review that cannot be done as asked. */
export class ReviewError extends Error {
  /** Absent if the request names something that does not exist. */
  readonly code: ErrorCode | undefined

  constructor(message: string, code?: ErrorCode) {
    super(message)
    this.code = code
  }
}

export interface WaitingTool {
  readonly name: string
  readonly hash: string
  /** `first`: it will be approved when its server is next used. */
  readonly state: QuarantineReason['why'] | 'first'
  readonly findings: readonly Finding[]
  readonly changes: readonly Change[]
  /** True if this machine does not have the approved definition. */
  readonly unknownBefore: boolean
}

export interface ReviewedServer {
  /** For an API `openapi.<id>`, as in the lock file. */
  readonly id: string
  readonly trust: TrustMode
  /** True if this machine has read the tools before. */
  readonly seen: boolean
  readonly waiting: readonly WaitingTool[]
  /** Names of tools that a review rejected. They stay rejected until they change. */
  readonly rejected: readonly string[]
  /** Names of tools in the lock file that the server does not offer. */
  readonly gone: readonly string[]
}

export interface ReviewDesk {
  readonly file: string
  readonly lock: Lock
  readonly approvedDefinitions: ReturnType<typeof createFileStore<StoredDefinitions>>
  /** Fingerprints, by tool, of definitions that a person has seen and not decided about. */
  readonly shownFingerprints: ReturnType<typeof createFileStore<Readonly<Record<string, string>>>>
  /** Servers, then APIs. */
  readonly entries: ReadonlyMap<string, ReviewEntry>
  /** Disabled servers and APIs, which have no entry. */
  readonly disabled: readonly { readonly id: string; readonly module: string }[]
}

/** A server or API to review. */
interface ReviewEntry {
  readonly settings: Parameters<typeof createFilters>[0] & { readonly trust: TrustMode }
  /** Category of the tools. Commands accept it as a name of the server, too. */
  readonly module: string
  /** The tools as read last; undefined if they never were. */
  readonly tools: readonly ListedDefinition[] | undefined
}

/** The tools of a server as read last. Undefined if they never were, or if the file cannot be read. */
export function readKnownTools(
  { dirs }: Pick<Config, 'dirs'>,
  settings: Config['servers'][string],
  onError: (error: unknown) => void = () => undefined,
): readonly ListedDefinition[] | undefined {
  try {
    const bytes = createBytesStore(join(dirs.state, 'manifests'), onError).get(manifestKey(settings))
    return bytes && decodeManifest(bytes)?.tools
  } catch (error) {
    onError(error)
    return undefined
  }
}

/** Opens what is stored on disk. Starts no server. */
export function openReviewDesk(config: Config, file: string, log: Log): ReviewDesk {
  const failed = (error: unknown): void => log.warn('cannot store a file', { error: messageOf(error) })
  const lists = createFileStore<StoredList>(join(config.dirs.state, 'openapi', 'lists'), failed)
  const documents = createFileStore<Json>(join(config.dirs.state, 'openapi', 'documents'), failed)
  const operationsOf = (settings: Config['openapi'][string]): readonly ListedDefinition[] | undefined => {
    const key = listKey(settings)
    const list = lists.get(key)
    const document = once(() => documents.get(key))
    return isStoredList(list) && list.location === settings.document && document()
      ? listForAssessment(list.operations, document, fingerprint)
      : undefined
  }
  const entries = [
    ...Object.entries(config.servers).map(([id, settings]) => ({
      id,
      settings,
      module: `mcp_${id}`,
      tools: () => readKnownTools(config, settings, failed),
    })),
    ...Object.entries(config.openapi).map(([id, settings]) => ({
      id: lockName(id),
      settings,
      module: moduleOf(id),
      tools: () => operationsOf(settings),
    })),
  ]
  const enabled = entries
    .filter(({ settings }) => settings.enabled)
    .map(({ id, settings, module, tools }) => [id, { settings, module, tools: tools() }] as const)
  return {
    file,
    lock: createLock({ file, log }),
    approvedDefinitions: createFileStore<StoredDefinitions>(join(config.dirs.state, 'trust'), failed),
    shownFingerprints: createFileStore(join(config.dirs.state, 'trust'), failed),
    entries: new Map(enabled),
    disabled: entries.filter(({ settings }) => !settings.enabled),
  }
}

/** The name in the configuration, where an API has no prefix. */
const configName = (id: string): string => id.replace(/^openapi\./, '')

/** @throws ReviewError if there is no such server */
export function serversOf(desk: ReviewDesk, serverName: string | undefined): ReviewedServer[] {
  const ids = [...desk.entries.keys()]
  if (serverName === undefined) return [...desk.entries].map(([id, entry]) => serverOf(desk, id, entry))
  const findEntry = (spelled: (id: string, entry: ReviewEntry) => readonly string[]) =>
    [...desk.entries].find(([id, entry]) => spelled(id, entry).includes(serverName))
  // A server and an API may have the same name.
  const found =
    findEntry((id) => [id]) ?? findEntry((_id, { module }) => [module]) ?? findEntry((id) => [configName(id)])
  if (found) return [serverOf(desk, ...found)]
  const disabled = desk.disabled.find(({ id, module }) => [id, module, configName(id)].includes(serverName))
  if (disabled) {
    const command = `pegboard enable ${quoteWord(configName(disabled.id))}`
    throw new ReviewError(`the server "${serverName}" is disabled: \`${command}\` switches it on`)
  }
  const known = ids.length > 0 ? `; servers: ${ids.join(', ')}` : '; no server is configured'
  throw new ReviewError(`there is no server "${serverName}"${didYouMean(serverName, ids, known)}`)
}

function serverOf(desk: ReviewDesk, id: string, { settings, tools }: ReviewEntry): ReviewedServer {
  const pins = desk.lock.pins(id)
  const gone = tools ? [...(pins?.keys() ?? [])].filter((name) => !tools.some((tool) => tool.name === name)) : []
  if (!tools) return { id, trust: settings.trust, seen: false, waiting: [], rejected: [], gone }
  const otherTools = otherToolsThan(desk, id)
  const listing = { server: id, mode: settings.trust, tools, otherTools, reserved: new Set(META_NAMES) }
  const { quarantined, newlyApproved } = assess(listing, { pins, broken: false, frozen: false })
  const filters = createFilters(settings)
  const passes = (name: string): boolean => leftOutBy(filters, name) === undefined
  const before = desk.approvedDefinitions.get(definitionsKey(desk.file, id)) ?? {}
  const first = new Set(newlyApproved.map(({ name }) => name))
  const isRejected = ({ name }: ListedDefinition): boolean => quarantined.get(name)?.why === 'rejected'
  const waiting = tools
    .filter((tool) => passes(tool.name) && (first.has(tool.name) || (quarantined.has(tool.name) && !isRejected(tool))))
    .map((tool) => waitingTool(tool, quarantined.get(tool.name), pins?.get(tool.name), before))
  const rejected = tools.filter((tool) => passes(tool.name) && isRejected(tool)).map(({ name }) => name)
  return { id, trust: settings.trust, seen: true, waiting, rejected, gone }
}

function waitingTool(
  tool: ListedDefinition,
  quarantine: QuarantineReason | undefined,
  pin: string | undefined,
  before: StoredDefinitions,
): WaitingTool {
  const now = JSON.parse(tool.text || '{}') as Record<string, unknown>
  const stored = Object.hasOwn(before, tool.name) ? before[tool.name] : undefined
  const old = stored !== undefined && stored.hash === pin ? stored.definition : undefined
  return {
    name: tool.name,
    hash: tool.hash,
    state: quarantine?.why ?? 'first',
    findings: quarantine?.findings ?? [],
    changes: old ? changesBetween(old, now) : changesOfNew(now),
    unknownBefore: quarantine?.why === 'changed' && old === undefined,
  }
}

const otherToolsThan = (desk: ReviewDesk, id: string): OtherTools =>
  mergeOtherTools(() => [...desk.entries].flatMap(([other, entry]) => (other === id ? [] : toolsOf(other, entry))))

function toolsOf(id: string, { module, tools }: ReviewEntry): OtherTools[] {
  if (!tools) return []
  const server = configName(id)
  const listTools = () =>
    tools.map(({ name, text }) => ({
      name,
      get description() {
        return descriptionIn(text)
      },
      spellings: () => [name, `${server}.${name}`, `${module}.${name}`, `${server}__${name}`, `${server}:${name}`],
    }))
  return [otherToolsOf(listTools)]
}

/** The description in a definition; empty if the JSON cannot be parsed. */
function descriptionIn(text: string): string {
  const { description } = (tryParseJson(text) ?? {}) as { description?: unknown }
  return typeof description === 'string' ? description : ''
}

export const selectTools = (server: ReviewedServer, names: readonly string[]): ReviewedServer => ({
  ...server,
  waiting: server.waiting.filter(({ name }) => names.includes(name)),
  rejected: server.rejected.filter((name) => names.includes(name)),
})

const shownKey = (desk: ReviewDesk, id: string): string => `shown-${definitionsKey(desk.file, id)}`

export function rememberShown(desk: ReviewDesk, id: string, waiting: readonly WaitingTool[], isPart: boolean): void {
  const key = shownKey(desk, id)
  const before = desk.shownFingerprints.get(key)
  if (waiting.length === 0 && before === undefined) return
  const tools = desk.entries.get(id)?.tools ?? []
  const now = tools.filter(({ name }) => waiting.some((one) => one.name === name)).map(({ name, hash }) => [name, hash])
  desk.shownFingerprints.set(key, { ...(isPart ? before : {}), ...Object.fromEntries(now) })
}

function forgetShown(desk: ReviewDesk, id: string, decided: readonly string[]): void {
  const shown = desk.shownFingerprints.get(shownKey(desk, id))
  if (shown === undefined) return
  const left = Object.entries(shown).filter(([name]) => !decided.includes(name))
  desk.shownFingerprints.set(shownKey(desk, id), Object.fromEntries(left))
}

/** Rejects a decision about a tool that changed after the person saw it. @throws ReviewError */
function assertShown(
  id: string,
  chosen: readonly ListedDefinition[],
  waiting: readonly WaitingTool[],
  shown: Readonly<Record<string, string>>,
): void {
  if (Object.keys(shown).length === 0) return
  const other = chosen.find(({ name, hash }) => waiting.some((one) => one.name === name) && shown[name] !== hash)
  if (other)
    throw new ReviewError(
      `${id}: ${JSON.stringify(other.name)} changed after you reviewed it; review it again: pegboard review ${quoteWord(id)}`,
      'E_TOOL_CHANGED',
    )
}

/** What a decision changed. */
export interface ReviewDecision {
  readonly server: string
  readonly tools: readonly string[]
}

/**
 * Writes a decision to the lock file. A running server notices.
 * @param names the tools; empty: all that wait
 * @param shown fingerprints that the person saw, by tool; default those of the last `pegboard review`
 * @throws ReviewError if a tool is unknown, or changed since the person saw it
 */
export async function decide(
  desk: ReviewDesk,
  servers: readonly ReviewedServer[],
  names: readonly string[],
  accepted: boolean,
  shown?: Readonly<Record<string, string>>,
): Promise<readonly ReviewDecision[]> {
  const done: ReviewDecision[] = []
  for (const { id, seen, waiting, gone } of servers) {
    if (!seen) continue
    const offered = desk.entries.get(id)?.tools ?? []
    const toolNames = offered.map(({ name }) => name)
    const unknown = names.find((name) => !toolNames.includes(name))
    if (unknown !== undefined)
      throw new ReviewError(`${id} has no tool ${JSON.stringify(unknown)}${didYouMean(unknown, toolNames)}`)
    const chosen = offered.filter(({ name }) =>
      names.length > 0 ? names.includes(name) : waiting.some((one) => one.name === name),
    )
    const unread = accepted && chosen.find((tool) => tool.text === '')
    if (unread)
      throw new ReviewError(
        `the definition of ${JSON.stringify(unread.name)} of ${id} is not stored; pegboard check reads it again`,
        'E_NOT_FOUND',
      )
    if (accepted) assertShown(id, chosen, waiting, shown ?? desk.shownFingerprints.get(shownKey(desk, id)) ?? {})
    if (chosen.length === 0 && gone.length === 0) continue
    const all = names.length === 0
    desk.lock.change((lock) => {
      const pins = lock.get(id) ?? new Map<string, string>()
      for (const { name, hash } of chosen) pins.set(name, accepted ? hash : `rejected ${hash}`)
      if (all) for (const name of gone) pins.delete(name)
      lock.set(id, pins)
    })
    if (accepted) storeDefinitions(desk.approvedDefinitions, desk.file, id, chosen)
    done.push({ server: id, tools: chosen.map(({ name }) => name) })
  }
  await desk.lock.flush()
  if (desk.lock.unsaved !== undefined) return []
  for (const { server, tools } of done) forgetShown(desk, server, tools)
  return done
}
