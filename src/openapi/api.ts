import type { Catalog } from '../catalog/catalog.ts'
import type { OwnerState } from '../catalog/owner.ts'
import type { CallContext } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { expandedSchemaSize, MAX_EXPANDED_SCHEMA_SIZE } from '../core/expanded-schema-size.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { createPause } from '../core/pause.ts'
import { runWithTimeout } from '../core/run-with-timeout.ts'
import type { ToolResult } from '../core/tool-result.ts'
import type { ToolHost } from './adapt-operation.ts'
import type { Approval } from './api-approval.ts'
import { createAuth } from './api-auth.ts'
import { createDocumentError, type LoadedDocument } from './api-document.ts'
import { originsOf } from './api-origins.ts'
import { createApiTools } from './api-tools.ts'
import { callOperation } from './call-operation.ts'
import { type ApiSettings, isUrl } from './openapi-options.ts'
import { isTooLarge, sourceOf } from './operation-source.ts'
import { type ListedOperation, type OperationRecord, operationsOf } from './operations.ts'
import { defineOperation, type OperationDefinition } from './plan-operation.ts'
import { createSender } from './send-request.ts'
import { isStoredList, listKey, readIfChanged, type StoredList } from './stored-list.ts'

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
  let runningCheck: Promise<void> | undefined
  let cancel: (() => void) | undefined
  let stopped = false

  const host: ToolHost = {
    id,
    module,
    settings,
    get version() {
      return JSON.stringify(storedList?.parts)
    },
    define,
    onUnchecked: ({ name }) =>
      apiTools.warnOnce(`the arguments of ${name} are not checked here: its schema takes too long`),
    call,
  }
  const apiTools = createApiTools(host, { catalog, log, approval }, getDocument)

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

  /** @param force check even if it was checked today */
  async function checkDocument(force: boolean): Promise<void> {
    cancel?.()
    try {
      await updateDocument(force)
      setState('ready')
    } catch (error) {
      const message = messageOf(error)
      log.warn('the document of an API cannot be used', { error: message })
      // The stored operations still work as before.
      setState(apiTools.count > 0 ? 'degraded' : 'failing', message)
    }
    if (stopped) return
    const delayMs = state === 'ready' ? (isRemote ? DAY_MS : undefined) : RETRY_MS
    if (delayMs !== undefined) cancel = clock.after(delayMs, () => void refresh())
  }

  async function updateDocument(force: boolean): Promise<void> {
    const isFresh = isRemote && storedList !== undefined && clock.now() - storedList.checkedAt < DAY_MS
    if (isFresh && !force) return
    const getList = () => (isDocumentLost ? undefined : storedList)
    const changed = await readIfChanged(settings.document, getList, sender.send)
    if (changed) return await useDocument(changed.loaded, changed.etag)
    if (!isRemote || !storedList || isDocumentLost) return
    storedList = { ...storedList, checkedAt: clock.now() }
    lists.set(key, storedList)
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

  /** Decides which operations become tools. @param freshDocument the document, if it was read just now */
  function assessOperations(freshDocument?: Json): void {
    if (!storedList) return
    const assessed = apiTools.assess(storedList, freshDocument)
    const isSealed = assessed !== storedList
    storedList = assessed
    // So that the next start need not compare them.
    if (isSealed && !freshDocument) lists.set(key, storedList)
  }

  const ownerStatus = () => ({ state, ...omitUndefined({ reason }) })
  const publish = (): void => apiTools.publish(storedList, ownerStatus())

  function setState(nextState: OwnerState, nextReason?: string): void {
    if (stopped || (state === nextState && reason === nextReason)) return
    state = nextState
    reason = nextReason
    catalog.describe(module, ownerStatus())
  }

  async function call(
    record: OperationRecord,
    definition: OperationDefinition,
    input: unknown,
    { signal }: CallContext,
  ): Promise<ToolResult> {
    const rejection = apiTools.rejectionOf(record.name)
    if (rejection)
      throw new PegboardError(rejection.code, `${module}.${record.name} ${rejection.reason}.`, { hint: rejection.hint })
    if (definition.unusable)
      throw new PegboardError(
        'E_BACKEND_UNAVAILABLE',
        `Pegboard cannot use the description of ${record.name} by the API ${id}.`,
        { class: 'server_setup', hint: 'The log of Pegboard has the reason.' },
      )
    const apiDocument = getDocument()
    if (!apiDocument)
      throw new PegboardError('E_BACKEND_UNAVAILABLE', `The document of the API ${id} is being read again.`)
    const { send } = sender
    return await callOperation({ id, settings, clock, auth, send }, record, definition, input, apiDocument, signal)
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
      const rejectionsBefore = apiTools.rejectionsText()
      assessOperations()
      if (apiTools.rejectionsText() !== rejectionsBefore) publish()
    },
    refresh,
    status: () => ({ id, module, tools: apiTools.count, ...ownerStatus() }),
    problems: () => apiTools.problems(storedList, document ?? (isDocumentLost ? undefined : documents.get(key))),
    async stop() {
      stopped = true
      cancel?.()
      await sender.close()
    },
  }
}
