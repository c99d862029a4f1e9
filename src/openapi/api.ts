import type { Catalog } from '../catalog/catalog.ts'
import { createFilters, leftOutBy, mayAppearLater, namingProblems } from '../catalog/naming.ts'
import type { OwnerState } from '../catalog/owner.ts'
import type { CallContext } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { attributeErrors } from '../core/error-attribution.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { expandedSchemaSize, MAX_EXPANDED_SCHEMA_SIZE } from '../core/expanded-schema-size.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import { createPause } from '../core/pause.ts'
import { runWithTimeout } from '../core/run-with-timeout.ts'
import type { Tool } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { operationActions } from './actions.ts'
import { adaptOperation, type ToolHost } from './adapt-operation.ts'
import { resultOf } from './api-answer.ts'
import { type Approval, listForAssessment, type OperationRejection } from './api-approval.ts'
import { createAuth } from './api-auth.ts'
import { createDocumentError, hashOf, type LoadedDocument, loadDocument } from './api-document.ts'
import { addressProblem, originsOf } from './api-origins.ts'
import { baseOf, buildRequest } from './build-request.ts'
import { type ApiSettings, isUrl } from './openapi-options.ts'
import { isTooLarge, sourceOf } from './operation-source.ts'
import { isOperation, type ListedOperation, type OperationRecord, operationsOf } from './operations.ts'
import { defineOperation, type OperationDefinition } from './plan-operation.ts'
import { fetchText, fileReader, urlReader } from './read-document.ts'
import { createSender } from './send-request.ts'

/** What is stored about a document between runs, besides the document itself. */
export interface StoredList {
  readonly format: 2
  readonly location: string
  /** Hashes of its source texts. */
  readonly parts: Readonly<Record<string, string>>
  readonly etag?: string
  /** When it was last checked, in milliseconds since 1970. */
  readonly checkedAt: number
  readonly title?: string
  readonly operations: readonly ListedOperation[]
  /** Seal of the approval of all its operations. */
  readonly seal?: string
}

export interface Store<Value> {
  get(key: string): Value | undefined
  set(key: string, value: Value): void
}

export interface ApiShared {
  readonly catalog: Catalog
  readonly log: Log
  readonly clock: Clock
  readonly lists: Store<StoredList>
  readonly documents: Store<Json>
  readonly approval: Approval
}

export interface ApiStatus {
  readonly id: string
  readonly module: string
  readonly state: OwnerState
  readonly reason?: string
  readonly tools: number
}

export interface Api {
  /** Shows the stored operations at once; the document is checked after `delayMs`. */
  start(delayMs: number): void
  /** Called after a review decision. */
  reviewed(): void
  /** Checks the document again now. Failures are logged, and the stored operations stay. */
  refresh(): Promise<void>
  status(): ApiStatus
  problems(): readonly string[]
  stop(): Promise<void>
}

const DAY_MS = 86_400_000
/** Limits the number of operations, because comparing and indexing more blocks other requests for seconds. */
const MAX_OPERATIONS = 2_000
const RETRY_MS = 60_000
/** Building the schema of the largest operation of GitHub's document takes a tenth of this. */
const DEFINE_MS = 500
const NOTHING_KNOWN: OperationDefinition = {
  input: { type: 'object' },
  output: undefined,
  examples: [],
  plan: { parameters: [], accept: '*/*', servers: [], security: undefined },
}

export function createApi(id: string, module: string, settings: ApiSettings, shared: ApiShared): Api {
  const { catalog, clock, lists, documents, approval } = shared
  const log = shared.log.scoped(module)
  const key = listKey(settings)
  const filters = createFilters(settings)
  const passes = (name: string): boolean => leftOutBy(filters, name) === undefined
  const origins = originsOf(settings)
  const sender = createSender(id, origins.mayBePrivate, `openapi.${id}.allowPrivate`)
  const auth = createAuth(id, settings.auth, settings.headers, sender.send, clock, origins.mayHaveSecrets)
  const remote = isUrl(settings.document)

  let state: OwnerState = 'connecting'
  let reason: string | undefined
  let storedList: StoredList | undefined
  let document: Json | undefined
  /** The stored document does not match the stored list. */
  let lost = false
  /** Filtering tens of thousands of operations takes a while. */
  let used: { readonly of: readonly ListedOperation[]; readonly list: readonly ListedOperation[] } | undefined
  let rejections: ReadonlyMap<string, OperationRejection> = new Map()
  let tools: readonly Tool[] = []
  let actions: ReadonlyMap<string, string> = new Map()
  let named: ReadonlyMap<string, Tool | undefined> = new Map()
  let looking: Promise<void> | undefined
  let cancel: (() => void) | undefined
  let stopped = false
  const reported = new Set<string>()

  const host: ToolHost = {
    id,
    module,
    settings,
    get version() {
      return JSON.stringify(storedList?.parts)
    },
    define,
    unchecked,
    call,
  }

  function getDocument(): Json | undefined {
    document ??= lost ? undefined : documents.get(key)
    if (!document) readAgain()
    return document
  }

  function readAgain(): void {
    document = undefined
    if (lost) return
    lost = true
    void refresh()
  }

  function define(record: ListedOperation): OperationDefinition {
    const whole = getDocument()
    if (!whole) return NOTHING_KNOWN
    try {
      const source = sourceOf(whole, record)
      // Another process may have stored a newer document, which this process has not assessed.
      if (approval.fingerprint(source) !== record.hash) {
        if (storedList?.operations.includes(record)) readAgain()
        return { ...NOTHING_KNOWN, unusable: true }
      }
      const result = isTooLarge(source)
        ? undefined
        : runWithTimeout(DEFINE_MS, () => {
            const definition = defineOperation(whole, record)
            return expandedSchemaSize(definition.input) > MAX_EXPANDED_SCHEMA_SIZE ? undefined : definition
          })?.value
      if (result) return result
      log.warn('an operation cannot be used: its schema is too large or too deep', { operation: record.name })
    } catch (error) {
      log.warn('an operation cannot be understood', { operation: record.name, error: messageOf(error) })
    }
    return { ...NOTHING_KNOWN, unusable: true }
  }

  function unchecked({ name }: OperationRecord): void {
    const problem = `the arguments of ${name} are not checked here: its schema takes too long`
    if (reported.has(problem)) return
    reported.add(problem)
    log.warn(problem)
  }

  /** @param force check even if it was checked today */
  async function look(force: boolean): Promise<void> {
    cancel?.()
    try {
      if (remote) await lookThere(force)
      else await lookHere()
      become('ready')
    } catch (error) {
      const why = messageOf(error)
      log.warn('the document of an API cannot be used', { error: why })
      // The stored operations still work as before.
      become(tools.length > 0 ? 'degraded' : 'failing', why)
    }
    if (stopped) return
    const again = state === 'ready' ? (remote ? DAY_MS : undefined) : RETRY_MS
    if (again !== undefined) cancel = clock.after(again, () => void refresh())
  }

  async function lookHere(): Promise<void> {
    const read = fileReader(settings.document)
    if (storedList && !lost && (await isSame(storedList, read))) return
    await take(await loadDocument(settings.document, read))
  }

  async function lookThere(force: boolean): Promise<void> {
    const fresh = storedList !== undefined && clock.now() - storedList.checkedAt < DAY_MS
    if (fresh && !force) return
    const fetched = await fetchText(settings.document, sender.send, lost ? undefined : storedList?.etag)
    const same =
      storedList && !lost && (fetched === undefined || storedList.parts[settings.document] === hashOf(fetched.text))
    if (storedList && same) {
      storedList = { ...storedList, checkedAt: clock.now() }
      lists.set(key, storedList)
    } else if (fetched)
      await take(
        await loadDocument(settings.document, urlReader(fetched, settings.document, sender.send)),
        fetched.etag,
      )
  }

  async function take(loaded: LoadedDocument, etag?: string): Promise<void> {
    const operations = await listed(loaded.document)
    // A typing error must not use up the first look, or all operations would need a review after it is corrected.
    if (operations.length === 0) throw createDocumentError('it describes no operations; check "paths"')
    // Each step takes up to 100 ms for a large document; other work runs between them.
    const turn = createPause(0)
    await turn()
    if (stopped) return
    documents.set(key, loaded.document)
    await turn()
    if (stopped) return
    const { info } = loaded.document
    document = loaded.document
    lost = false
    storedList = {
      format: 2,
      location: settings.document,
      parts: loaded.parts,
      ...(etag === undefined ? {} : { etag }),
      checkedAt: clock.now(),
      ...(isRecord(info) && typeof info['title'] === 'string' ? { title: info['title'].slice(0, 200) } : {}),
      operations,
    }
    const count = operations.filter(({ name }) => passes(name)).length
    if (count > MAX_OPERATIONS)
      log.warn(`the document has ${count} operations; only the first ${MAX_OPERATIONS} are used (openapi.${id}.allow)`)
    admit(loaded.document)
    await turn()
    if (stopped) return
    publish()
    await turn()
    if (!stopped) lists.set(key, storedList)
  }

  async function listed(whole: Json): Promise<ListedOperation[]> {
    const operations: ListedOperation[] = []
    const pause = createPause()
    for (const record of await operationsOf(whole, pause)) {
      operations.push({ ...record, hash: approval.fingerprint(sourceOf(whole, record)) })
      await pause()
    }
    return operations
  }

  /** Assesses all operations that are not approved as they are. @param read the document, if it was read just now */
  function admit(read?: Json): void {
    if (!storedList) return
    const { seal } = storedList
    const operations = usedOperations()
    // Which operations of a large document are used depends on the settings, too.
    if (!read && operations === storedList.operations && approval.holds(id, seal)) {
      rejections = new Map()
      return
    }
    const seen = read
      ? listForAssessment(operations, () => read)
      : listForAssessment(operations, getDocument, approval.fingerprint)
    rejections = approval.look(id, settings, seen)
    const now = approval.seal(id, operations)
    if (now === undefined || now === seal) return
    storedList = { ...storedList, seal: now }
    // So that the next start need not compare them.
    if (!read) lists.set(key, storedList)
  }

  function waiting(): { readonly notice?: string } {
    const names = [...rejections].filter(([name, { waits }]) => waits && passes(name))
    return names.length === 0 ? {} : { notice: approval.notice(id, names.length) }
  }

  /** Of a document with more operations than are used, the first that the settings allow. */
  function usedOperations(): readonly ListedOperation[] {
    const all = storedList?.operations ?? []
    if (all.length <= MAX_OPERATIONS) return all
    if (used?.of !== all) {
      used = { of: all, list: all.filter(({ name }) => passes(name)).slice(0, MAX_OPERATIONS) }
    }
    return used.list
  }

  function publish(): void {
    const operations = storedList?.operations ?? []
    const passing = usedOperations().filter(({ name }) => passes(name))
    actions = operationActions(
      passing.map(({ name }) => name),
      settings,
      actions,
      (name) => rejections.has(name),
    )
    const own = new Map<string, Tool | undefined>(operations.map(({ name }) => [name, undefined]))
    // Rejected operations keep their ids, so that no other operation takes them.
    const adapted = passing.map((record) => {
      const tool = adaptOperation(record, host, actions.get(record.name) ?? record.name)
      own.set(record.name, tool)
      return { tool, why: rejections.get(record.name) }
    })
    tools = adapted.flatMap(({ tool, why }) => (why ? [] : [tool]))
    const quarantined = adapted.flatMap(({ tool, why }) => (why ? [{ tool, ...why }] : []))
    named = own
    const summary = settings.summary ?? (storedList?.title ? `The API ${storedList.title}` : '')
    catalog.set(
      {
        id: module,
        summary,
        ...(summary === '' ? {} : { about: summary }),
        origin: 'upstream',
        state,
        ...waiting(),
        ...(reason === undefined ? {} : { reason }),
      },
      { tools, quarantined },
    )
    for (const problem of problems().filter((one) => !mayAppearLater(one) && !reported.has(one))) {
      reported.add(problem)
      log.warn(problem)
    }
  }

  function become(next: OwnerState, why?: string): void {
    if (stopped || (state === next && reason === why)) return
    state = next
    reason = why
    catalog.describe(module, { state, ...(why === undefined ? {} : { reason: why }) })
  }

  const problems = (): string[] => namingProblems(`openapi.${id}.tools`, id, settings, named, catalog)

  function addressProblems(): string[] {
    const whole = document ?? (lost ? undefined : documents.get(key))
    return whole ? addressProblem(id, settings, whole) : []
  }

  async function call(
    record: OperationRecord,
    { plan, output, unusable }: OperationDefinition,
    input: unknown,
    ctx: CallContext,
  ): Promise<ToolResult> {
    const why = rejections.get(record.name)
    if (why) throw new PegboardError(why.code, `${module}.${record.name} ${why.reason}.`, { hint: why.hint })
    if (unusable)
      throw new PegboardError(
        'E_BACKEND_UNAVAILABLE',
        `Pegboard cannot use the description of ${record.name} by the API ${id}.`,
        {
          class: 'server_setup',
          hint: 'The log of Pegboard has the reason.',
        },
      )
    const whole = getDocument()
    if (!whole) throw new PegboardError('E_BACKEND_UNAVAILABLE', `The document of the API ${id} is being read again.`)
    const timeoutMs = settings.tools[record.name]?.timeoutMs ?? settings.timeoutMs
    const base = baseOf(id, plan, settings.baseUrl, settings.document)
    const attempt = async () => {
      const draft = await buildRequest(record.path, plan, base, asRecord(input))
      for (const [name, value] of Object.entries(settings.headers)) draft.headers[name.toLowerCase()] = value
      await auth.sign(draft, plan, whole, ctx.signal)
      return await sender.send({
        ...draft,
        method: record.method.toUpperCase(),
        timeoutMs,
        maxBytes: settings.maxResponseBytes,
        signal: ctx.signal,
      })
    }
    let answer = await attempt()
    // The API did not execute the request, so it can be repeated safely.
    if (answer.status === 401 && auth.refused()) answer = await attempt()
    const result = resultOf(`${id} ${record.name}`, answer, auth.redact, output !== undefined, clock.now())
    attributeErrors(id, result)
    return { kind: 'mcp', result }
  }

  async function refresh(): Promise<void> {
    await looking
    await lookOnce(true)
  }

  function lookOnce(force: boolean): Promise<void> {
    looking ??= look(force).finally(() => {
      looking = undefined
    })
    return looking
  }

  return {
    start(delayMs) {
      const before = lists.get(key)
      if (isStoredList(before) && before.location === settings.document) {
        storedList = before
        state = 'known'
      }
      admit()
      publish()
      cancel = clock.after(delayMs, () => void lookOnce(false))
    },
    reviewed() {
      if (stopped || !storedList) return
      const before = reasonsOf(rejections)
      admit()
      if (reasonsOf(rejections) !== before) publish()
    },
    refresh,
    status: () => ({ id, module, state, tools: tools.length, ...(reason === undefined ? {} : { reason }) }),
    problems: () => [...problems(), ...addressProblems()],
    async stop() {
      stopped = true
      cancel?.()
      await sender.close()
    },
  }
}

/** Storage key of an API's list, and of its document. */
export const listKey = ({ document }: Pick<ApiSettings, 'document'>): string => hashOf(document).slice(0, 32)

const reasonsOf = (rejections: ReadonlyMap<string, OperationRejection>): string =>
  JSON.stringify([...rejections].map(([name, { code, reason }]) => [name, code, reason]))

/** Anything that does not have this shape is read from the document again. */
export const isStoredList = (list: unknown): list is StoredList =>
  isRecord(list) &&
  list['format'] === 2 &&
  isRecord(list['parts']) &&
  typeof list['checkedAt'] === 'number' &&
  (list['seal'] === undefined || typeof list['seal'] === 'string') &&
  Array.isArray(list['operations']) &&
  list['operations'].every(isOperation)

async function isSame({ parts }: StoredList, read: (location: string) => Promise<string>): Promise<boolean> {
  for (const [location, hash] of Object.entries(parts)) {
    // A missing document is reported when it is read.
    const text = await read(location).catch(() => undefined)
    if (text === undefined || hashOf(text) !== hash) return false
  }
  return true
}
