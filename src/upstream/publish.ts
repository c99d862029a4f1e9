import type { Catalog, Endpoints, LaterTools, OwnerInfo, Prompt, Withheld } from '../catalog/catalog.ts'
import { actionName, actionNames, createFilter, exposedName, mayStillCome, namingProblems } from '../catalog/naming.ts'
import { PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { isToolName } from '../core/names.ts'
import { once } from '../core/once.ts'
import { plain } from '../core/plain.ts'
import { isRecord } from '../core/record.ts'
import type { Tool } from '../core/tool.ts'
import type { Held } from '../trust/assess.ts'
import { checkEntry } from '../trust/checks.ts'
import { reviewHint, sentence, type Trust, waitingNote } from '../trust/trust.ts'
import { adaptPrompt, createAdapter, createNames, type ToolHost } from './adapt.ts'
import { createBeforehand, type Made } from './beforehand.ts'
import type { ToolRecord } from './definition.ts'
import { sanitized } from './entry.ts'
import { listableEntry } from './listable.ts'
import { type Definitions, emptyListing, type Listing, type Unread } from './listing.ts'
import type { Brief } from './manifest.ts'
import { strangersNamed, strangersTo } from './strangers.ts'

export interface PublisherOptions extends ToolHost {
  readonly catalog: Catalog
  readonly endpoints: Endpoints
  readonly trust: Trust | undefined
  readonly log: Log
  readonly lostRules?: LostRules | undefined
}

/** Rules of the operator that fitted tools which a server no longer has, and fit none of those that it has now. */
export type LostRules = (
  server: Pick<ToolHost, 'module' | 'settings'>,
  gone: readonly string[],
  now: readonly string[],
) => readonly string[]

type Standing = Pick<OwnerInfo, 'state' | 'reason' | 'nextAttemptAt' | 'startsInMs'>

/** Puts what a server offers into the catalogue, when it differs from what is there. */
export interface Publisher {
  /** Tools published last. */
  readonly tools: number
  /** All of its tools wait for a review: nothing it says is shown to anybody else. */
  readonly isQuarantined: boolean
  /** Whether one of its tools can be told without looking at all. */
  readonly canWait: boolean
  /**
   * Answers false when nothing differs.
   * @param definitions what tools that were read just now are made of
   */
  publish(listing: Listing, now: Standing, definitions?: Definitions): boolean
  /**
   * The same before its tools are looked at, which happens when somebody wants more than one by its name.
   * @returns the listing, whose tools are read when they are asked for
   */
  publishUnread(others: Listing, unread: Unread, now: Standing): Listing
  /** For the manifest of what was published last. */
  brief(listing: Listing): Brief
  /** @throws PegboardError E_TOOL_CHANGED, E_TOOL_QUARANTINED when a tool is kept out by now */
  admit(record: ToolRecord): void
  promptNamed(exposed: string): string
  /** Settings of its tools that have no effect, as sentences for the operator. Empty until its list is known. */
  problems(): readonly string[]
}

const nobody: ReadonlyMap<string, Held> = new Map()

type Known = Pick<LaterTools, 'count' | 'tokens'>

export function createPublisher(options: PublisherOptions): Publisher {
  const { id, module, settings, catalog, log } = options
  const passes = createFilter(settings)
  let published: Listing | undefined
  let held = nobody
  let quarantined = false
  let count = 0
  /** By the server's names for them. */
  let made = new Map<string, Made>()
  /** Looks at what nobody looked at yet. */
  let settle = (): void => undefined
  let prompts = new Map<string, string>()
  const told = new Set<string>()
  const isAsNamed = Object.keys(settings.tools).length === 0
  const tellOnce = (problem: string): void => {
    if (!told.has(problem)) log.warn(problem)
    told.add(problem)
  }

  /** By the server's names. Those that no id is left for are not there. */
  function make(all: readonly ToolRecord[]): ReadonlyMap<string, Tool> {
    const names = all.map(({ name }) => name)
    const actions = names.every(isToolName) && isAsNamed ? undefined : actionNames(names, settings)
    const adapt = createAdapter(options)
    const before = made
    const records = actions ? all.filter(({ name }) => actions.has(name)) : all
    for (const { name } of actions ? all : [])
      if (!actions?.has(name))
        tellOnce(`${JSON.stringify(name.slice(0, 60))} is left out: another tool of it has its id`)
    const next = records.map((record): readonly [string, Made] => {
      const tool = adapt(record)
      // The same object while nothing changed: whoever keeps something about a tool need not make it again.
      const old = before.size > 0 ? before.get(record.name) : undefined
      const same = old?.tool.id === tool.id && old.tool.name === tool.name && old.record.text === record.text
      return [record.name, same ? old : { tool, record }]
    })
    made = new Map(next)
    return new Map(next.map(([name, { tool }]) => [name, tool]))
  }
  const makeAll = (records: readonly ToolRecord[]): readonly Tool[] => [...make(records).values()]

  /** Tools of a server that nothing was configured for are made when someone looks at them: their number is all a list needs. */
  function toolsOf(records: readonly ToolRecord[]): readonly Tool[] | LaterTools {
    count = records.length
    const tokens = Object.keys(settings.tools).length === 0 ? tokensOf(records) : undefined
    // Who may see which is another matter for each caller, where each logs in for itself.
    if (tokens === undefined || settings.auth?.perPrincipal) return makeAll(records)
    return { count, tokens, available: options.available, make: () => makeAll(records) }
  }

  /** What is known from before and approved as a whole: its tools are not read until someone looks at them. */
  function unread({ brief }: Listing): Known | undefined {
    const { trust } = options
    const asListed = settings.allow.length + settings.deny.length + Object.keys(settings.tools).length === 0
    if (brief?.tokens === undefined || brief.prefix !== settings.prefix || !asListed) return undefined
    if (settings.auth?.perPrincipal || (trust && !trust.holds(id, brief.seal))) return undefined
    return { count: brief.count, tokens: brief.tokens }
  }

  /** Which of its tools are let in, and which are kept out until somebody has looked at them. */
  function admitted(listing: Listing): { readonly tools: readonly Tool[] | LaterTools; readonly withheld: Withheld[] } {
    const known = unread(listing)
    if (known) {
      count = known.count
      const later = { ...known, available: options.available, make: () => makeAll(listing.tools) }
      return { tools: later, withheld: [] }
    }
    const records = listing.tools.filter(({ name }) => passes(name))
    if (!records.some(({ name }) => held.has(name))) return { tools: toolsOf(records), withheld: [] }
    // Those kept out have their names all the same, so that no other takes them.
    const all = [...make(records)]
    const tools = all.flatMap(([name, tool]) => (held.has(name) ? [] : [tool]))
    count = tools.length
    const withheld = all.flatMap(([name, tool]) => {
      const why = held.get(name)
      return why ? [{ tool, code: why.code, reason: why.reason, hint: reviewHint(id) }] : []
    })
    return { tools, withheld }
  }

  const losing =
    (now: () => readonly string[]) =>
    (gone: readonly string[]): boolean => {
      const lost = options.lostRules?.(options, gone, now()) ?? []
      for (const rule of lost)
        tellOnce(`the rule ${JSON.stringify(rule)} fits no tool of ${id} any more: new tools of it wait for a review`)
      return lost.length > 0
    }

  function look(listing: Listing, isFresh: boolean, definitions: Definitions | undefined): ReadonlyMap<string, Held> {
    const { trust } = options
    if (!trust || unread(listing)) return nobody
    const strangers = strangersTo(catalog, module)
    const own = once(() => strangersNamed(module, settings, listing.tools))
    const loses = losing(() => listing.tools.map(({ name }) => name))
    return trust.look(
      { server: id, mode: settings.trust, tools: listing.tools, definitions, strangers, own, loses },
      isFresh,
    )
  }

  /** Prompts, resources and templates without those that hide something or give orders; nobody can review these. */
  function harmless(
    kind: string,
    key: string,
    entries: Listing['prompts'],
    names: () => Iterable<string>,
  ): Listing['prompts'] {
    if (entries.length === 0) return entries
    // Rarely asked for, and what is kept of tools is not read without need.
    const own = once(() => new Set(names()))
    const others = strangersTo(catalog, module)
    const leftOut = (why: string): Listing['prompts'] => {
      tellOnce(`a ${kind} is left out: ${why}`)
      return []
    }
    return entries.flatMap((entry) => {
      const listable = listableEntry(entry, key)
      if (!listable)
        return leftOut(`${JSON.stringify(String(entry[key]).slice(0, 60))} has arguments that no client can read`)
      const [worst] = checkEntry(entry, {
        get own() {
          return own()
        },
        isOther: others.spelled,
      })
      if (!worst || worst.level === 'note' || (worst.level === 'doubt' && settings.trust === 'always'))
        return [sanitized(listable)]
      return leftOut(sentence(worst))
    })
  }

  /** What it has beside tools. @param names its tools by its own names */
  function besides(given: Omit<Listing, 'tools'>, names: () => Iterable<string>) {
    const listing = quarantined ? emptyListing : given
    const resources = harmless('resource', 'uri', listing.resources, names)
    const templates = harmless('resource template', 'uriTemplate', listing.templates, names)
    const offered = harmless('prompt', 'name', listing.prompts, names)
    const wire = createNames()
    const named: Array<readonly [Prompt, string]> = offered.map((entry) => [
      adaptPrompt(entry, settings, wire),
      String(entry['name']),
    ])
    prompts = new Map(named.map(([prompt, own]) => [prompt.name, own]))
    return {
      resources: resources.map((entry) => ({ uri: String(entry['uri']), entry })),
      templates: templates.map((entry) => ({ uriTemplate: String(entry['uriTemplate']), entry })),
      prompts: named.map(([prompt]) => prompt),
      endpoints: options.endpoints,
    }
  }

  function isAllHeld({ tools }: Listing): boolean {
    return held.size > 0 && tools.every(({ name }) => held.has(name) || !passes(name))
  }

  function noticeFor(listing: Listing): { readonly notice?: string } {
    if (held.size === 0) return {}
    const waiting = listing.tools.filter(({ name }) => {
      const why = held.get(name)?.why
      return why !== undefined && why !== 'rejected' && passes(name)
    })
    return waiting.length === 0 ? {} : { notice: waitingNote(id, waiting.length) }
  }

  /** Estimated tokens of listing all; undefined where the records alone do not tell. */
  function tokensOf(records: readonly ToolRecord[]): number | undefined {
    let tokens = 0
    for (const { name, listed } of records) {
      if (listed === undefined) return undefined
      tokens += Math.ceil((listed + exposedName(settings, actionName(name, settings)).length) / 4)
    }
    return tokens
  }

  function problems(): string[] {
    if (!published || Object.keys(settings.tools).length === 0) return []
    const listed = new Map(published.tools.map(({ name }) => [name, made.get(name)?.tool]))
    return namingProblems(`${settings.where}.tools`, id, settings, listed, catalog)
  }

  function tell(): void {
    for (const problem of problems().filter((one) => !mayStillCome(one))) tellOnce(problem)
  }

  const { trust } = options
  const base = (): OwnerInfo => ({
    id: module,
    summary: plain(settings.summary ?? `MCP server ${id}`),
    ...(settings.summary === undefined ? {} : { about: plain(settings.summary) }),
    origin: 'upstream',
    ...(settings.provides === undefined ? {} : { provides: settings.provides }),
    ...(settings.internal ? { internal: true } : {}),
    state: 'ready',
  })

  return {
    get tools() {
      settle()
      return count
    },
    get isQuarantined() {
      settle()
      return quarantined
    },
    get canWait() {
      return Object.keys(settings.tools).length === 0 && !settings.auth?.perPrincipal
    },
    publishUnread(others, sent, now) {
      const beforehand = createBeforehand({
        module,
        settings,
        unread: sent,
        passes,
        adapter: () => createAdapter(options),
        admits: (record, definition, own) =>
          trust?.admits({
            server: id,
            mode: settings.trust,
            tools: [record],
            definitions: new Map([[record.name, definition]]),
            strangers: strangersTo(catalog, module),
            names: own,
            loses: losing(() => namesIn(sent.sent)),
          }) ?? true,
        made,
      })
      const read = once(() => {
        settle = () => undefined
        const { tools, definitions, notes } = sent.read()
        const whole: Listing = { ...others, tools }
        held = look(whole, true, definitions)
        quarantined = isAllHeld(whole)
        return { records: tools, notes, ...admitted(whole), ...noticeFor(whole) }
      })
      let isRead = false
      const all = (): ReturnType<typeof read> => {
        isRead = true
        return read()
      }
      settle = () => void all()
      const listing: Listing = {
        ...others,
        get tools() {
          return all().records
        },
        get notes() {
          return all().notes ?? []
        },
      }
      catalog.set(
        { ...base(), ...now },
        {
          tools: {
            ...beforehand,
            read: all,
            get isRead() {
              return isRead
            },
          },
          ...besides(others, () => namesIn(sent.sent)),
        },
      )
      published = listing
      return listing
    },
    publish(listing, now, definitions) {
      settle()
      const before = reasonsOf(held)
      held = look(listing, now.state === 'ready', definitions)
      quarantined = isAllHeld(listing)
      if (published && before === reasonsOf(held) && isSame(published, listing)) return false
      catalog.set(
        { ...base(), ...noticeFor(listing), ...now },
        { ...admitted(listing), ...besides(listing, () => listing.tools.map(({ name }) => name)) },
      )
      published = listing
      tell()
      return true
    },
    brief({ tools }) {
      const tokens = tokensOf(tools)
      const seal = options.trust?.seal(id, tools)
      return {
        count: tools.length,
        prefix: settings.prefix,
        ...(tokens === undefined ? {} : { tokens }),
        ...(seal === undefined ? {} : { seal }),
      }
    },
    admit({ name }) {
      const why = held.get(name)
      if (why) throw new PegboardError(why.code, `${module}.${name} ${why.reason}.`, { hint: reviewHint(id) })
    },
    promptNamed: (exposed) => prompts.get(exposed) ?? exposed,
    problems,
  }
}

const namesIn = (sent: readonly unknown[]): string[] =>
  sent.flatMap((one) => (isRecord(one) && typeof one['name'] === 'string' ? [one['name']] : []))

function isSame(before: Listing, now: Listing): boolean {
  const others = ({ resources, templates, prompts }: Listing): string => JSON.stringify([resources, templates, prompts])
  if (before === now) return true
  return (
    before.tools.length === now.tools.length &&
    before.tools.every(({ text }, at) => text === now.tools[at]?.text) &&
    others(before) === others(now)
  )
}

const reasonsOf = (held: ReadonlyMap<string, Held>): string =>
  held.size === 0 ? '' : JSON.stringify([...held].map(([name, { code, reason }]) => [name, code, reason]))
