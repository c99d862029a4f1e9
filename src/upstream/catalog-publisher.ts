import {
  actionName,
  actionNames,
  createFilters,
  exposedName,
  leftOutBy,
  mayAppearLater,
  namingProblems,
} from '../catalog/naming.ts'
import type { Endpoints, LazyTools, OwnerInfo, Prompt, QuarantinedTool } from '../catalog/owner.ts'
import { PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { once } from '../core/once.ts'
import { toPrintable } from '../core/printable.ts'
import type { Tool } from '../core/tool.ts'
import { createUniqueNames, isToolName } from '../core/tool-names.ts'
import type { QuarantineReason } from '../trust/assess-tools.ts'
import { checkEntry } from '../trust/definition-checks.ts'
import { formatFinding, reviewHint, waitingNote } from '../trust/trust.ts'
import { adaptPrompt, createAdapter, type ToolHost } from './adapt-server-tool.ts'
import { sanitizeEntry } from './list-entry-limits.ts'
import { listableEntry } from './listable.ts'
import type { Brief } from './manifest.ts'
import { otherToolsNamed, otherToolsTo } from './other-owner-tools.ts'
import { type Definitions, emptyListing, type Listing } from './read-listing.ts'
import type { Claims } from './resource-claims.ts'
import type { ServerEndpoints } from './server-endpoints.ts'
import { serverLine } from './server-line.ts'
import type { ToolRecord } from './tool-definition.ts'
import type { UpstreamShared } from './upstream-shared.ts'

export interface PublisherOptions extends ToolHost {
  readonly shared: Pick<UpstreamShared, 'catalog' | 'trust' | 'lostRules'>
  readonly log: Log
  readonly endpoints: ServerEndpoints
  readonly claims: Claims
  /** The latest description that the server gave of itself. */
  about(): string | undefined
}

/** Rules of the operator that matched tools which an owner no longer has, and match none of its current tools. */
export type LostRules = (
  owner: { readonly module: string; readonly settings: Pick<ToolHost['settings'], 'prefix' | 'deny'> },
  gone: readonly string[],
  now: readonly string[],
) => readonly string[]

/** @param name of the owner in the configuration */
export const lostRuleSentence = (rule: string, name: string, kind: 'server' | 'API'): string =>
  `the rule ${JSON.stringify(rule)} matches no tool of ${name} any more: new tools of this ${kind} wait for a review`

export type OwnerStatus = Pick<OwnerInfo, 'state' | 'reason' | 'reasonFor' | 'nextAttemptAt' | 'startsInMs'>

/** Publishes a server's tools in the catalog when they change. */
export type Publisher = ReturnType<typeof createPublisher>

/** A server can send other entries each time. */
const MAX_WARNINGS = 200

const noReasons: ReadonlyMap<string, QuarantineReason> = new Map()

/** For a server whose content is hidden: its resources cannot be read by name either. */
const withoutResources = (endpoints: Endpoints): Endpoints => ({
  get tasks() {
    return endpoints.tasks ?? false
  },
  request: (method, params, relay, signal) => endpoints.request(method, params, relay, signal),
})

type ToolSummary = Pick<LazyTools, 'count' | 'tokens'>

interface AdaptedTool {
  readonly tool: Tool
  readonly record: ToolRecord
}

export function createPublisher(options: PublisherOptions) {
  const { id, module, settings, log } = options
  const { catalog, trust, lostRules } = options.shared
  const filters = createFilters(settings)
  const passes = (name: string): boolean => leftOutBy(filters, name) === undefined
  let published: Listing | undefined
  /** The status that was published last, as JSON. */
  let publishedStatus = ''
  let quarantineReasons = noReasons
  let quarantined = false
  let count = 0
  /** By the server's own names. */
  let adaptedTools = new Map<string, AdaptedTool>()
  let prompts = new Map<string, string>()
  const warned = new Set<string>()
  const isAsNamed = Object.keys(settings.tools).length === 0
  const warnOnce = (problem: string): void => {
    if (warned.has(problem) || warned.size > MAX_WARNINGS) return
    warned.add(problem)
    log.warn(warned.size > MAX_WARNINGS ? 'further warnings about its lists are not logged' : problem)
  }

  /** By the server's own names. Tools that get no unique id are missing. */
  function adaptTools(all: readonly ToolRecord[]): ReadonlyMap<string, Tool> {
    const names = all.map(({ name }) => name)
    const actions = names.every(isToolName) && isAsNamed ? undefined : actionNames(names, settings)
    const adapt = createAdapter(options)
    const previous = adaptedTools
    const records = actions ? all.filter(({ name }) => actions.has(name)) : all
    for (const { name } of actions ? all : [])
      if (!actions?.has(name))
        warnOnce(`${JSON.stringify(name.slice(0, 60))} is skipped: another tool of the server has the same id`)
    const next = records.map((record): readonly [string, AdaptedTool] => {
      const tool = adapt(record)
      // The same object while nothing changes, so that caches keyed by tool stay valid.
      const previousTool = previous.size > 0 ? previous.get(record.name) : undefined
      const same =
        previousTool?.tool.id === tool.id &&
        previousTool.tool.name === tool.name &&
        previousTool.record.text === record.text
      return [record.name, same ? previousTool : { tool, record }]
    })
    adaptedTools = new Map(next)
    return new Map(next.map(([name, { tool }]) => [name, tool]))
  }
  const adaptAll = (records: readonly ToolRecord[]): readonly Tool[] => [...adaptTools(records).values()]

  /** Tools of a server without tool settings are created on access; a list only needs their number. */
  function toolsOf(records: readonly ToolRecord[]): readonly Tool[] | LazyTools {
    count = records.length
    const tokens = isAsNamed ? tokensOf(records) : undefined
    // If each principal logs in, visibility differs by caller.
    if (tokens === undefined || settings.auth?.perPrincipal) return adaptAll(records)
    return { count, tokens, available: options.available, make: () => adaptAll(records) }
  }

  const passing = ({ tools }: Listing): readonly ToolRecord[] => tools.filter(({ name }) => passes(name))

  /** Known tools that were approved as a whole are not parsed until accessed. */
  function storedSummaryOf({ brief }: Listing): ToolSummary | undefined {
    const asListed = filters.length === 0 && isAsNamed
    if (brief?.tokens === undefined || brief.prefix !== settings.prefix || !asListed) return undefined
    if (settings.auth?.perPrincipal || (trust && !trust.isSealValid(id, brief.seal))) return undefined
    return { count: brief.count, tokens: brief.tokens }
  }

  function separateQuarantined(listing: Listing): {
    readonly tools: readonly Tool[] | LazyTools
    readonly quarantined: QuarantinedTool[]
  } {
    const storedSummary = storedSummaryOf(listing)
    if (storedSummary) {
      count = storedSummary.count
      const lazyTools = { ...storedSummary, available: options.available, make: () => adaptAll(passing(listing)) }
      return { tools: lazyTools, quarantined: [] }
    }
    const records = passing(listing)
    if (!records.some(({ name }) => quarantineReasons.has(name))) return { tools: toolsOf(records), quarantined: [] }
    // Quarantined tools keep their names, so that no other tool takes them.
    const all = [...adaptTools(records)]
    const tools = all.flatMap(([name, tool]) => (quarantineReasons.has(name) ? [] : [tool]))
    count = tools.length
    const quarantined = all.flatMap(([name, tool]) => {
      const found = quarantineReasons.get(name)
      if (!found) return []
      const { code, reason, why } = found
      return [{ tool, code, reason, hint: reviewHint(id), ...(why === 'rejected' ? { rejected: true as const } : {}) }]
    })
    return { tools, quarantined }
  }

  function assess(
    listing: Listing,
    isFresh: boolean,
    definitions: Definitions | undefined,
  ): ReadonlyMap<string, QuarantineReason> {
    if (!trust || storedSummaryOf(listing)) return noReasons
    const otherTools = otherToolsTo(catalog, module)
    const { tools } = listing
    const ownTools = once(() => otherToolsNamed(module, settings, tools))
    const losesRule = (gone: readonly string[]): boolean => {
      const now = tools.map(({ name }) => name)
      const lost = lostRules?.(options, gone, now) ?? []
      for (const rule of lost) warnOnce(lostRuleSentence(rule, id, 'server'))
      return lost.length > 0
    }
    return trust.assess(
      { server: id, mode: settings.trust, tools, definitions, otherTools, ownTools, losesRule },
      isFresh,
    )
  }

  /**
   * Prompts, resources and templates without those that contain hidden text or instructions, because no review covers
   * them.
   */
  function keepHarmless(
    kind: string,
    key: string,
    entries: Listing['prompts'],
    names: () => Iterable<string>,
  ): Listing['prompts'] {
    if (entries.length === 0) return entries
    // Computed on demand, so that stored tools are not read without need.
    const ownToolNames = once(() => new Set(names()))
    const others = otherToolsTo(catalog, module)
    const leftOut = (why: string): Listing['prompts'] => {
      warnOnce(`a ${kind} is left out: ${why}`)
      return []
    }
    return entries.flatMap((entry) => {
      const listableCopy = listableEntry(entry, key)
      if (!listableCopy)
        return leftOut(`${JSON.stringify(String(entry[key]).slice(0, 60))} has arguments that no client can read`)
      const [worst] = checkEntry(entry, {
        get ownNames() {
          return ownToolNames()
        },
        isOther: others.isSpelling,
      })
      if (!worst || worst.level === 'note' || (worst.level === 'doubt' && settings.trust === 'always'))
        return [sanitizeEntry(listableCopy)]
      return leftOut(formatFinding(worst))
    })
  }

  /** Everything except tools. @param names own names of the server's tools */
  function entriesOtherThanTools(fullListing: Omit<Listing, 'tools'>, names: () => Iterable<string>) {
    const listing = quarantined ? emptyListing : fullListing
    const resources = keepHarmless('resource', 'uri', listing.resources, names)
    const templates = keepHarmless('resource template', 'uriTemplate', listing.templates, names)
    const offered = keepHarmless('prompt', 'name', listing.prompts, names)
    const uniqueName = createUniqueNames()
    const namedPrompts: Array<readonly [Prompt, string]> = offered.map((entry) => [
      adaptPrompt(entry, settings, uniqueName),
      String(entry['name']),
    ])
    prompts = new Map(namedPrompts.map(([prompt, own]) => [prompt.name, own]))
    const entries = {
      resources: resources.map((entry) => ({ uri: String(entry['uri']), entry })),
      templates: templates.map((entry) => ({ uriTemplate: String(entry['uriTemplate']), entry })),
    }
    // Before they are in the catalog.
    options.claims.take(namesOf(entries), options.endpoints.returnedAt)
    return {
      ...entries,
      prompts: namedPrompts.map(([prompt]) => prompt),
      endpoints: quarantined ? withoutResources(options.endpoints) : options.endpoints,
    }
  }

  function isAllQuarantined(listing: Listing): boolean {
    // In this order, because reading `tools` parses a stored manifest.
    return quarantineReasons.size > 0 && listing.tools.every(({ name }) => quarantineReasons.has(name) || !passes(name))
  }

  function noticeFor(listing: Listing): { readonly notice?: string } {
    if (quarantineReasons.size === 0) return {}
    const waiting = listing.tools.filter(({ name }) => {
      const why = quarantineReasons.get(name)?.why
      return why !== undefined && why !== 'rejected' && passes(name)
    })
    return waiting.length === 0 ? {} : { notice: waitingNote(id, waiting.length) }
  }

  /** Estimated tokens of listing all tools without their output schemas; undefined if the records do not tell. */
  function tokensOf(records: readonly ToolRecord[]): number | undefined {
    let tokens = 0
    for (const { name, listed } of records) {
      if (listed === undefined) return undefined
      tokens += Math.ceil((listed + exposedName(settings, actionName(name, settings)).length) / 4)
    }
    return tokens
  }

  /** Tool settings without effect, as sentences for the operator. Empty until the list is known. */
  function problems(): readonly string[] {
    if (!published || isAsNamed) return []
    const listed = new Map(published.tools.map(({ name }) => [name, adaptedTools.get(name)?.tool]))
    return namingProblems(`${settings.where}.tools`, id, settings, listed, catalog)
  }

  /** Clients see no text of a server without an approved tool. */
  function summary(): string {
    if (settings.summary !== undefined || quarantined) return toPrintable(settings.summary ?? '')
    const isOther = otherToolsTo(catalog, module).isSpelling
    return serverLine(options.about(), { ownNames: new Set(), isOther }) ?? ''
  }

  /** Publishes the status, if it has changed. */
  function describe(now: OwnerStatus): void {
    const status = JSON.stringify(now)
    if (status === publishedStatus) return
    publishedStatus = status
    catalog.describe(module, now)
  }

  const { provides, maxResultTokens, internal } = settings
  const base = (): OwnerInfo => ({
    id: module,
    summary: summary(),
    ...(settings.summary === undefined ? {} : { about: toPrintable(settings.summary) }),
    origin: 'upstream',
    ...omitUndefined({ provides, maxResultTokens, internal }),
    state: 'ready',
  })

  return {
    tools(): number {
      return count
    },
    /** All of its tools are waiting for a review, so none of its texts are shown. */
    isQuarantined(): boolean {
      return quarantined
    },
    /** Publishes lists and status, as far as they have changed. @param definitions of tools that were just read */
    publish(listing: Listing, now: OwnerStatus, definitions?: Definitions): void {
      const before = reasonsOf(quarantineReasons)
      quarantineReasons = assess(listing, now.state === 'ready', definitions)
      quarantined = isAllQuarantined(listing)
      const isSummaryCurrent = catalog.snapshot().owners.get(module)?.summary === summary()
      if (published && isSummaryCurrent && before === reasonsOf(quarantineReasons) && isSame(published, listing)) {
        describe(now)
        return
      }
      catalog.set(
        { ...base(), ...noticeFor(listing), ...now },
        {
          ...separateQuarantined(listing),
          ...entriesOtherThanTools(listing, () => listing.tools.map(({ name }) => name)),
        },
      )
      published = listing
      publishedStatus = JSON.stringify(now)
      for (const problem of problems()) if (!mayAppearLater(problem)) warnOnce(problem)
    },
    describe,
    /** Summary of the last published listing, for the manifest. */
    brief({ tools }: Listing): Brief {
      const seal = trust?.seal(id, tools)
      return { count: tools.length, prefix: settings.prefix, ...omitUndefined({ tokens: tokensOf(tools), seal }) }
    },
    /** @throws PegboardError E_TOOL_CHANGED, E_TOOL_QUARANTINED if the tool has been quarantined since */
    admit({ name }: ToolRecord): void {
      const why = quarantineReasons.get(name)
      if (why) throw new PegboardError(why.code, `${module}.${name} ${why.reason}.`, { hint: reviewHint(id) })
    },
    promptNamed: (exposed: string): string => prompts.get(exposed) ?? exposed,
    problems,
  }
}

/** Addresses of resources and templates. */
export const namesOf = ({ resources, templates }: Record<'resources' | 'templates', readonly object[]>): string[] => [
  ...resources.map((one) => String((one as { readonly uri?: unknown }).uri)),
  ...templates.map((one) => String((one as { readonly uriTemplate?: unknown }).uriTemplate)),
]

function isSame(before: Listing, now: Listing): boolean {
  const others = ({ resources, templates, prompts }: Listing): string => JSON.stringify([resources, templates, prompts])
  if (before === now) return true
  return (
    before.tools.length === now.tools.length &&
    before.tools.every(({ text }, at) => text === now.tools[at]?.text) &&
    others(before) === others(now)
  )
}

const reasonsOf = (quarantineReasons: ReadonlyMap<string, QuarantineReason>): string =>
  quarantineReasons.size === 0
    ? ''
    : JSON.stringify([...quarantineReasons].map(([name, { code, reason }]) => [name, code, reason]))
