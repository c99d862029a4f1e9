import { join } from 'node:path'
import type { Catalog, Snapshot } from '../catalog/catalog.ts'
import type { Caller } from '../core/caller.ts'
import { digestOf } from '../core/canonical.ts'
import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { isRecord } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import type { Llm } from '../core/service-types.ts'
import type { Relay, Tool } from '../core/tool.ts'
import type { Atlas } from '../search/atlas.ts'
import { bareNameOf, type SearchSource } from '../search/search-document.ts'
import type { SearchSettings } from '../search/search-options.ts'
import type { SearchStatus } from '../search/tool-search.ts'
import { hashOf } from '../search/word-pieces.ts'
import {
  createWrittenRequests,
  type StoredTexts,
  type UnknownTool,
  type WrittenText,
} from '../search/written-requests.ts'
import { samplingLlm } from '../services/sampling-llm.ts'
import { createFileStore } from '../state/file-store.ts'
import { checkEntry } from '../trust/definition-checks.ts'

export interface SearchExpansionOptions {
  readonly kind: NonNullable<Exclude<SearchSettings['expand'], false>>
  readonly questionsPerDay: number
  readonly stateDir: string
  readonly catalog: Catalog
  readonly atlas: () => Atlas | undefined
  /** The model of `services.llm`. */
  readonly llm: (signal: AbortSignal) => Llm | undefined
  readonly clock: Clock
  readonly log: Log
  onWritten(): void
}

const FAILURES_BEFORE_PAUSE = 3
const PAUSE_MS = 60 * 60_000
const CLIENT_TIMEOUT_MS = 60_000

/** Lets a language model write search text for tools of servers that the atlas does not know. */
export function createSearchExpansion(options: SearchExpansionOptions) {
  const { kind, catalog, atlas, clock, log } = options
  const stopped = new AbortController()
  const written = createWrittenRequests({
    store: createFileStore<StoredTexts>(join(options.stateDir, 'search'), (error) =>
      log.warn('cannot store or read written search text', { error: messageOf(error) }),
    ),
    clock,
    log,
    questionsPerDay: options.questionsPerDay,
    isClean,
  })
  const keys = new WeakMap<Tool, string>()
  const refused = new Set<string>()
  let version = 0
  let running = false
  let isWarned = false
  let failures = 0
  let cancelPause: (() => void) | undefined

  const keyOf = (tool: Tool): string =>
    getOrInsert(keys, tool, () =>
      digestOf([bareNameOf(tool), tool.stamp ?? [tool.description, tool.input.json]]).slice(0, 32),
    )

  let cachedUnknown: { readonly tools: Snapshot['tools']; readonly unknown: readonly UnknownTool[] } | undefined
  /** Tools of servers and APIs that are not in the atlas. */
  function listUnknownTools(): readonly UnknownTool[] {
    const { tools } = catalog.snapshot()
    if (cachedUnknown?.tools === tools) return cachedUnknown.unknown
    const knownTools = atlas()
    const found = tools.filter((tool) => tool.origin === 'upstream' && !knownTools?.requestsOf(sourceOf(tool))?.length)
    const unknownTools = found.map((tool): UnknownTool => {
      const { properties } = tool.input.json
      return {
        key: keyOf(tool),
        owner: tool.module,
        name: bareNameOf(tool),
        description: tool.description,
        parameters: isRecord(properties) ? Object.keys(properties) : [],
      }
    })
    cachedUnknown = { tools, unknown: unknownTools }
    return unknownTools
  }

  async function write(missing: readonly UnknownTool[], llm: Llm): Promise<boolean> {
    const isAnswered = await written.writeNext(missing, (request) => llm.complete(request))
    failures = isAnswered ? 0 : failures + 1
    if (!isAnswered) return false
    version++
    options.onWritten()
    return true
  }

  async function writeAll(): Promise<void> {
    for (;;) {
      const missing = written.missing(listUnknownTools())
      if (missing.length === 0 || stopped.signal.aborted) return
      const llm = options.llm(stopped.signal)
      if (!llm) {
        if (!isWarned) log.warn('search.expand is "llm", but services.llm is not set, so no search text is written')
        isWarned = true
        return
      }
      if (!written.hasBudget() || failures >= FAILURES_BEFORE_PAUSE) {
        failures = 0
        cancelPause = clock.after(PAUSE_MS, () => {
          cancelPause = undefined
          begin()
        })
        return
      }
      await write(missing, llm)
    }
  }

  /** With `llm`: writes in the background until nothing is missing. Call it when the index is complete. */
  function begin(): void {
    if (kind !== 'llm' || running || cancelPause || stopped.signal.aborted) return
    running = true
    writeAll()
      .catch((error: unknown) => log.error('writing search text failed', { error }))
      .finally(() => {
        running = false
      })
  }

  return {
    /** The sources with the text that was written for them. */
    withText: (sources: readonly SearchSource[]): readonly SearchSource[] => {
      const { byId } = catalog.snapshot()
      return sources.map((source) => {
        const tool = byId.get(source.id)
        const text = tool?.origin === 'upstream' ? written.get(keyOf(tool)) : undefined
        if (!text) return source
        const requests = [text.when, ...text.requests].filter(Boolean)
        const more = { requests, ...(source.stamp !== undefined && { stamp: stampWith(source.stamp, requests) }) }
        return Object.assign(Object.create(source), more) as SearchSource
      })
    },
    of: (tool: Tool): WrittenText | undefined => written.get(keyOf(tool)),
    /** Changes when text was written. */
    get version(): number {
      return version
    },
    get status(): NonNullable<SearchStatus['expand']> {
      const all = listUnknownTools()
      const done = all.filter(({ key }) => written.get(key)).length
      const state = running ? 'writing' : cancelPause ? 'paused' : 'idle'
      return { state, written: done, missing: all.length - done }
    },
    begin,
    /**
     * With `client`: asks the client's model once, about tools of these owners first. The client asks its user.
     * @returns whether text was written
     */
    async ask(
      caller: Caller,
      relay: Relay | undefined,
      owners: readonly string[],
      signal?: AbortSignal,
    ): Promise<boolean> {
      const request = relay?.request
      const missing = written.missing(listUnknownTools())
      if (kind !== 'client' || running || missing.length === 0 || !request || !caller.supports.sampling) return false
      if (refused.has(caller.principal) || !written.hasBudget()) return false
      const isNear = ({ owner }: UnknownTool): number => Number(owners.includes(owner))
      const nearest = [...missing].sort((a, b) => isNear(b) - isNear(a))
      const timeout = new AbortController()
      const cancel = clock.after(CLIENT_TIMEOUT_MS, () => timeout.abort(new Error('the client did not answer in time')))
      const stopSignal = AbortSignal.any([timeout.signal, stopped.signal, ...(signal ? [signal] : [])])
      running = true
      try {
        const isWritten = await write(nearest, samplingLlm(request, stopSignal))
        // A person who refuses is not asked again. A question without an answer may be repeated.
        if (!isWritten && !stopSignal.aborted) refused.add(caller.principal)
        return isWritten
      } finally {
        running = false
        cancel()
      }
    },
    stop() {
      stopped.abort(new Error('Pegboard stops'))
      cancelPause?.()
    },
  }
}

const sourceOf = ({ id, module, name, description }: Tool): SearchSource => ({
  id,
  module,
  name,
  description,
  title: '',
  aliases: [],
  tags: [],
  sideEffects: [],
  inputJson: {},
  origin: 'upstream',
})

/** A sum of 50 bits is exact in a double. */
const stampWith = (stamp: number, requests: readonly string[]): number =>
  stamp + hashOf(requests.join('\n')) * 0x10000 + 1

/** Applies the checks of definitions, because the text is derived from definitions of servers. */
const isClean = (text: string): boolean =>
  checkEntry({ description: text }, { ownNames: new Set<string>(), isOther: () => false }).every(
    ({ level }) => level === 'note',
  )
