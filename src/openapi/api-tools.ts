import { createFilters, leftOutBy, mayAppearLater, namingProblems } from '../catalog/naming.ts'
import type { OwnerInfo } from '../catalog/owner.ts'
import type { Json } from '../core/is-record.ts'
import type { Tool } from '../core/tool.ts'
import { operationActions } from './actions.ts'
import { adaptOperation, type ToolHost } from './adapt-operation.ts'
import type { ApiShared } from './api.ts'
import { listForAssessment, type OperationRejection } from './api-approval.ts'
import { findAddressProblem } from './api-origins.ts'
import { findCredentialProblems } from './credential-problems.ts'
import { findDocumentProblems } from './document-problems.ts'
import type { ListedOperation } from './operations.ts'
import type { StoredList } from './stored-list.ts'

/** Limits the number of operations, because comparing and indexing more blocks other requests for seconds. */
const MAX_OPERATIONS = 2_000

/**
 * The operations of one API as tools in the catalog: which are used, which the operator has approved, and their names.
 * @param getDocument returns the document of the list, if it is stored
 */
export function createApiTools(
  host: ToolHost,
  { catalog, log, approval }: Pick<ApiShared, 'catalog' | 'log' | 'approval'>,
  getDocument: () => Json | undefined,
) {
  const { id, module, settings } = host
  const filters = createFilters(settings)
  const isAllowed = ({ name }: { readonly name: string }): boolean => leftOutBy(filters, name) === undefined
  /** Filtering tens of thousands of operations takes a while. */
  let usedCache: { readonly of: readonly ListedOperation[]; readonly list: readonly ListedOperation[] } | undefined
  let rejections: ReadonlyMap<string, OperationRejection> = new Map()
  let tools: readonly Tool[] = []
  let actions: ReadonlyMap<string, string> = new Map()
  let toolsByName: ReadonlyMap<string, Tool | undefined> = new Map()
  const warned = new Set<string>()

  function warnOnce(problem: string): void {
    if (warned.has(problem)) return
    warned.add(problem)
    log.warn(problem)
  }

  /** Of a document with more operations than are used, the first that the settings allow. */
  function usedOperations({ operations }: StoredList): readonly ListedOperation[] {
    if (operations.length <= MAX_OPERATIONS) return operations
    if (usedCache?.of !== operations)
      usedCache = { of: operations, list: operations.filter(isAllowed).slice(0, MAX_OPERATIONS) }
    return usedCache.list
  }

  const allowedOf = (list: StoredList | undefined): readonly ListedOperation[] =>
    list ? usedOperations(list).filter(isAllowed) : []

  function warnOfLimit({ operations }: StoredList): void {
    const count = operations.filter(isAllowed).length
    if (count > MAX_OPERATIONS)
      log.warn(`the document has ${count} operations; only the first ${MAX_OPERATIONS} are used (openapi.${id}.allow)`)
  }

  function reviewNotice(): { readonly notice?: string } {
    const waiting = [...rejections].filter(([name, { needsReview }]) => needsReview && isAllowed({ name }))
    return waiting.length === 0 ? {} : { notice: approval.notice(id, waiting.length) }
  }

  const findProblems = (): string[] => namingProblems(`openapi.${id}.tools`, id, settings, toolsByName, catalog)

  return {
    /** Logs a problem, unless it was logged before. */
    warnOnce,
    /** Number of tools in the catalog. */
    get count(): number {
      return tools.length
    },
    rejectionOf: (name: string): OperationRejection | undefined => rejections.get(name),
    /** The rejections as a text, to compare them. */
    rejectionsText: (): string =>
      JSON.stringify([...rejections].map(([name, { code, reason }]) => [name, code, reason])),
    /**
     * Assesses all operations that are not approved as they are.
     * @param freshDocument the document, if it was read just now
     * @returns the list, with a new seal if all its operations have been approved since the last one
     */
    assess(list: StoredList, freshDocument?: Json): StoredList {
      if (freshDocument) warnOfLimit(list)
      const { seal } = list
      const operations = usedOperations(list)
      // Which operations of a large document are used depends on the settings, too.
      const areAllUsed = operations === list.operations
      if (!freshDocument && areAllUsed && approval.isSealValid(id, seal)) {
        rejections = new Map()
        return list
      }
      const candidates = freshDocument
        ? listForAssessment(operations, () => freshDocument)
        : listForAssessment(operations, getDocument, approval.fingerprint)
      rejections = approval.assess(id, settings, candidates)
      const currentSeal = approval.seal(id, operations)
      return currentSeal === undefined || currentSeal === seal ? list : { ...list, seal: currentSeal }
    },
    /** Replaces the tools in the catalog. */
    publish(list: StoredList | undefined, status: Pick<OwnerInfo, 'state' | 'reason'>): void {
      const allowed = allowedOf(list)
      actions = operationActions(
        allowed.map(({ name }) => name),
        settings,
        actions,
        (name) => rejections.has(name),
      )
      const byName = new Map<string, Tool | undefined>(list?.operations.map(({ name }) => [name, undefined]))
      // Rejected operations keep their ids, so that no other operation takes them.
      const adapted = allowed.map((record) => {
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
      const summary = settings.summary ?? (list?.title ? `The API ${list.title}` : '')
      const about = summary === '' ? {} : { about: summary }
      catalog.set(
        { id: module, summary, ...about, origin: 'upstream', ...reviewNotice(), ...status },
        { tools, quarantined },
      )
      for (const problem of findProblems()) if (!mayAppearLater(problem)) warnOnce(problem)
    },
    /** Settings without effect, and problems of the document. */
    problems(list: StoredList | undefined, document: Json | undefined): string[] {
      if (!document) return findProblems()
      return [
        ...findProblems(),
        ...findAddressProblem(id, settings, document),
        ...findCredentialProblems(id, settings, document),
        ...findDocumentProblems(id, document, allowedOf(list), list?.operations ?? []),
      ]
    },
  }
}
