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
import { findAddressProblem, originsOf } from './api-origins.ts'
import { baseOf, buildRequest } from './build-request.ts'
import { findCredentialProblems } from './credential-problems.ts'
import { findDocumentProblems } from './document-problems.ts'
import { type ApiSettings, isUrl } from './openapi-options.ts'
import { isTooLarge, sourceOf } from './operation-source.ts'
import { isOperation, type ListedOperation, type OperationRecord, operationsOf } from './operations.ts'
import { defineOperation, type OperationDefinition } from './plan-operation.ts'
import { createFileReader, createUrlReader, fetchText } from './read-document.ts'
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
  /**
   * Shows the stored operations at once, and checks the document after `delayMs`. Without stored operations, reads the
   * document now.
   * @returns resolves when its operations are known, without waiting for the network
   */
  start(delayMs: number): Promise<void>
  /** Called after a review decision. */
  applyReview(): void
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
const UNKNOWN_DEFINITION: OperationDefinition = {
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
  const isAllowed = (name: string): boolean => leftOutBy(filters, name) === undefined
  const origins = originsOf(settings)
  const sender = createSender(id, origins.mayBePrivate, `openapi.${id}.allowPrivate`)
  const auth = createAuth(id, settings, sender.send, clock, origins.mayHaveSecrets)
  const isRemote = isUrl(settings.document)

  let state: OwnerState = 'connecting'
  let reason: string | undefined
  let storedList: StoredList | undefined
  let document: Json | undefined
  /** The stored document is missing or does not match the stored list. */
  let isDocumentLost = false
  /** Filtering tens of thousands of operations takes a while. */
  let usedCache: { readonly of: readonly ListedOperation[]; readonly list: readonly ListedOperation[] } | undefined
  let rejections: ReadonlyMap<string, OperationRejection> = new Map()
  let tools: readonly Tool[] = []
  let actions: ReadonlyMap<string, string> = new Map()
  let toolsByName: ReadonlyMap<string, Tool | undefined> = new Map()
  let runningCheck: Promise<void> | undefined
  let cancel: (() => void) | undefined
  let stopped = false
  const reportedProblems = new Set<string>()

  const host: ToolHost = {
    id,
    module,
    settings,
    get version() {
      return JSON.stringify(storedList?.parts)
    },
    define,
    onUnchecked: reportUnchecked,
    call,
  }

  function getDocument(): Json | undefined {
    document ??= isDocumentLost ? undefined : documents.get(key)
    if (!document) rereadDocument()
    return document
  }

  function rereadDocument(): void {
    document = undefined
    if (isDocumentLost) return
    isDocumentLost = true
    void refresh()
  }

  function define(record: ListedOperation): OperationDefinition {
    const apiDocument = getDocument()
    if (!apiDocument) return UNKNOWN_DEFINITION
    try {
      const source = sourceOf(apiDocument, record)
      // Another process may have stored a newer document, which this process has not assessed.
      if (approval.fingerprint(source) !== record.hash) {
        if (storedList?.operations.includes(record)) rereadDocument()
        return { ...UNKNOWN_DEFINITION, unusable: true }
      }
      const result = isTooLarge(source)
        ? undefined
        : runWithTimeout(DEFINE_MS, () => {
            const definition = defineOperation(apiDocument, record)
            return expandedSchemaSize(definition.input) > MAX_EXPANDED_SCHEMA_SIZE ? undefined : definition
          })?.value
      if (result) return result
      log.warn('an operation cannot be used: its schema is too large or too deep', { operation: record.name })
    } catch (error) {
      log.warn('an operation cannot be understood', { operation: record.name, error: messageOf(error) })
    }
    return { ...UNKNOWN_DEFINITION, unusable: true }
  }

  function reportUnchecked({ name }: OperationRecord): void {
    const problem = `the arguments of ${name} are not checked here: its schema takes too long`
    if (reportedProblems.has(problem)) return
    reportedProblems.add(problem)
    log.warn(problem)
  }

  /** @param force check even if it was checked today */
  async function checkDocument(force: boolean): Promise<void> {
    cancel?.()
    try {
      if (isRemote) await checkRemote(force)
      else await checkFile()
      setState('ready')
    } catch (error) {
      const message = messageOf(error)
      log.warn('the document of an API cannot be used', { error: message })
      // The stored operations still work as before.
      setState(tools.length > 0 ? 'degraded' : 'failing', message)
    }
    if (stopped) return
    const delayMs = state === 'ready' ? (isRemote ? DAY_MS : undefined) : RETRY_MS
    if (delayMs !== undefined) cancel = clock.after(delayMs, () => void refresh())
  }

  async function checkFile(): Promise<void> {
    const read = createFileReader(settings.document)
    if (storedList && !isDocumentLost && (await hasSameParts(storedList, read))) return
    await useDocument(await loadDocument(settings.document, read))
  }

  async function checkRemote(force: boolean): Promise<void> {
    const isFresh = storedList !== undefined && clock.now() - storedList.checkedAt < DAY_MS
    if (isFresh && !force) return
    const fetched = await fetchText(settings.document, sender.send, isDocumentLost ? undefined : storedList?.etag)
    const isUnchanged =
      storedList &&
      !isDocumentLost &&
      (fetched === undefined || storedList.parts[settings.document] === hashOf(fetched.text))
    if (storedList && isUnchanged) {
      storedList = { ...storedList, checkedAt: clock.now() }
      lists.set(key, storedList)
    } else if (fetched)
      await useDocument(
        await loadDocument(settings.document, createUrlReader(fetched, settings.document, sender.send)),
        fetched.etag,
      )
  }

  async function useDocument(loaded: LoadedDocument, etag?: string): Promise<void> {
    const operations = await listOperations(loaded.document)
    // A typing error must not use up the first look, or all operations would need a review after it is corrected.
    if (operations.length === 0) throw createDocumentError('it describes no operations; check "paths"')
    // Each step takes up to 100 ms for a large document; other work runs between them.
    const pause = createPause(0)
    await pause()
    if (stopped) return
    documents.set(key, loaded.document)
    await pause()
    if (stopped) return
    const { info } = loaded.document
    document = loaded.document
    isDocumentLost = false
    storedList = {
      format: 2,
      location: settings.document,
      parts: loaded.parts,
      ...(etag === undefined ? {} : { etag }),
      checkedAt: clock.now(),
      ...(isRecord(info) && typeof info['title'] === 'string' ? { title: info['title'].slice(0, 200) } : {}),
      operations,
    }
    const count = operations.filter(({ name }) => isAllowed(name)).length
    if (count > MAX_OPERATIONS)
      log.warn(`the document has ${count} operations; only the first ${MAX_OPERATIONS} are used (openapi.${id}.allow)`)
    assessOperations(loaded.document)
    await pause()
    if (stopped) return
    publish()
    await pause()
    if (!stopped) lists.set(key, storedList)
  }

  async function listOperations(apiDocument: Json): Promise<ListedOperation[]> {
    const operations: ListedOperation[] = []
    const pause = createPause()
    for (const record of await operationsOf(apiDocument, pause)) {
      operations.push({ ...record, hash: approval.fingerprint(sourceOf(apiDocument, record)) })
      await pause()
    }
    return operations
  }

  /** Assesses all operations that are not approved as they are. @param freshDocument the document, if it was read just now */
  function assessOperations(freshDocument?: Json): void {
    if (!storedList) return
    const { seal } = storedList
    const operations = usedOperations()
    // Which operations of a large document are used depends on the settings, too.
    if (!freshDocument && operations === storedList.operations && approval.isSealValid(id, seal)) {
      rejections = new Map()
      return
    }
    const candidates = freshDocument
      ? listForAssessment(operations, () => freshDocument)
      : listForAssessment(operations, getDocument, approval.fingerprint)
    rejections = approval.assess(id, settings, candidates)
    const currentSeal = approval.seal(id, operations)
    if (currentSeal === undefined || currentSeal === seal) return
    storedList = { ...storedList, seal: currentSeal }
    // So that the next start need not compare them.
    if (!freshDocument) lists.set(key, storedList)
  }

  function reviewNotice(): { readonly notice?: string } {
    const names = [...rejections].filter(([name, { needsReview }]) => needsReview && isAllowed(name))
    return names.length === 0 ? {} : { notice: approval.notice(id, names.length) }
  }

  /** Of a document with more operations than are used, the first that the settings allow. */
  function usedOperations(): readonly ListedOperation[] {
    const all = storedList?.operations ?? []
    if (all.length <= MAX_OPERATIONS) return all
    if (usedCache?.of !== all) {
      usedCache = { of: all, list: all.filter(({ name }) => isAllowed(name)).slice(0, MAX_OPERATIONS) }
    }
    return usedCache.list
  }

  function publish(): void {
    const operations = storedList?.operations ?? []
    const allowedOperations = usedOperations().filter(({ name }) => isAllowed(name))
    actions = operationActions(
      allowedOperations.map(({ name }) => name),
      settings,
      actions,
      (name) => rejections.has(name),
    )
    const byName = new Map<string, Tool | undefined>(operations.map(({ name }) => [name, undefined]))
    // Rejected operations keep their ids, so that no other operation takes them.
    const adapted = allowedOperations.map((record) => {
      const tool = adaptOperation(record, host, actions.get(record.name) ?? record.name)
      byName.set(record.name, tool)
      return { tool, why: rejections.get(record.name) }
    })
    tools = adapted.flatMap(({ tool, why }) => (why ? [] : [tool]))
    const quarantined = adapted.flatMap(({ tool, why }) => {
      if (!why) return []
      const { needsReview, ...reasons } = why
      return [{ tool, ...reasons, ...(needsReview ? {} : { rejected: true as const }) }]
    })
    toolsByName = byName
    const summary = settings.summary ?? (storedList?.title ? `The API ${storedList.title}` : '')
    catalog.set(
      {
        id: module,
        summary,
        ...(summary === '' ? {} : { about: summary }),
        origin: 'upstream',
        state,
        ...reviewNotice(),
        ...(reason === undefined ? {} : { reason }),
      },
      { tools, quarantined },
    )
    for (const problem of findProblems()) {
      if (mayAppearLater(problem) || reportedProblems.has(problem)) continue
      reportedProblems.add(problem)
      log.warn(problem)
    }
  }

  function setState(nextState: OwnerState, nextReason?: string): void {
    if (stopped || (state === nextState && reason === nextReason)) return
    state = nextState
    reason = nextReason
    catalog.describe(module, { state, ...(nextReason === undefined ? {} : { reason: nextReason }) })
  }

  const findProblems = (): string[] => namingProblems(`openapi.${id}.tools`, id, settings, toolsByName, catalog)

  function listDocumentProblems(): string[] {
    const apiDocument = document ?? (isDocumentLost ? undefined : documents.get(key))
    if (!apiDocument) return []
    const used = usedOperations().filter(({ name }) => isAllowed(name))
    return [
      ...findAddressProblem(id, settings, apiDocument),
      ...findCredentialProblems(id, settings, apiDocument),
      ...findDocumentProblems(id, apiDocument, used, storedList?.operations ?? []),
    ]
  }

  async function call(
    record: OperationRecord,
    { plan, output, unusable }: OperationDefinition,
    input: unknown,
    ctx: CallContext,
  ): Promise<ToolResult> {
    const rejection = rejections.get(record.name)
    if (rejection)
      throw new PegboardError(rejection.code, `${module}.${record.name} ${rejection.reason}.`, { hint: rejection.hint })
    if (unusable)
      throw new PegboardError(
        'E_BACKEND_UNAVAILABLE',
        `Pegboard cannot use the description of ${record.name} by the API ${id}.`,
        {
          class: 'server_setup',
          hint: 'The log of Pegboard has the reason.',
        },
      )
    const apiDocument = getDocument()
    if (!apiDocument)
      throw new PegboardError('E_BACKEND_UNAVAILABLE', `The document of the API ${id} is being read again.`)
    const timeoutMs = settings.tools[record.name]?.timeoutMs ?? settings.timeoutMs
    const base = baseOf(id, plan, settings.baseUrl, settings.document)
    const sendRequest = async () => {
      const draft = buildRequest(record.path, plan, base, asRecord(input))
      for (const [name, value] of Object.entries(settings.headers)) draft.headers[name.toLowerCase()] = value
      await auth.sign(draft, plan, apiDocument, ctx.signal)
      return await sender.send({
        ...draft,
        method: record.method.toUpperCase(),
        timeoutMs,
        maxBytes: settings.maxResponseBytes,
        signal: ctx.signal,
      })
    }
    let response = await sendRequest()
    // The API did not execute the request, so it can be repeated safely.
    if (response.status === 401 && auth.discardTokens()) response = await sendRequest()
    const result = resultOf(`${id} ${record.name}`, response, auth.redact, output !== undefined, clock.now())
    attributeErrors(id, result)
    return { kind: 'mcp', result }
  }

  async function refresh(): Promise<void> {
    await runningCheck
    await checkOnce(true)
  }

  function checkOnce(force: boolean): Promise<void> {
    runningCheck ??= checkDocument(force).finally(() => {
      runningCheck = undefined
    })
    return runningCheck
  }

  return {
    async start(delayMs) {
      const stored = lists.get(key)
      if (isStoredList(stored) && stored.location === settings.document) {
        storedList = stored
        state = 'known'
      }
      assessOperations()
      publish()
      if (storedList) {
        cancel = clock.after(delayMs, () => void checkOnce(false))
        return
      }
      const reading = checkOnce(false)
      if (!isRemote) await reading
    },
    applyReview() {
      if (stopped || !storedList) return
      const previousReasons = reasonsOf(rejections)
      assessOperations()
      if (reasonsOf(rejections) !== previousReasons) publish()
    },
    refresh,
    status: () => ({ id, module, state, tools: tools.length, ...(reason === undefined ? {} : { reason }) }),
    problems: () => [...findProblems(), ...listDocumentProblems()],
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

async function hasSameParts({ parts }: StoredList, read: (location: string) => Promise<string>): Promise<boolean> {
  for (const [location, hash] of Object.entries(parts)) {
    // A missing document is reported when it is read.
    const text = await read(location).catch(() => undefined)
    if (text === undefined || hashOf(text) !== hash) return false
  }
  return true
}
