import { groupBy } from '../core/group-by.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { joinNames } from '../core/join-names.ts'
import { resolvePointer } from '../core/json-pointer.ts'
import { toPrintable } from '../core/printable.ts'
import { lookUp } from './api-document.ts'
import { findOperation, type OperationRecord, placeholdersIn } from './operations.ts'
import { LOCATIONS, type ParameterLocation } from './plan-operation.ts'

const MAX_PROBLEMS = 10

/**
 * Warnings for the operator about mistakes in a document, which tools lack something for.
 * @param used operations that become tools
 * @param all operations, also those that the settings leave out
 */
export function findDocumentProblems(
  id: string,
  document: Json,
  used: readonly OperationRecord[],
  all: readonly OperationRecord[],
): string[] {
  const problems = [
    ...findDuplicateIds(document, used, all),
    ...used.flatMap((operation) => findParameterProblems(document, operation)),
    ...findBrokenReferences(document).map(
      (ref) => `its document refers to "${ref}", which does not exist, so Pegboard ignores the reference.`,
    ),
  ]
  const more = problems.length - MAX_PROBLEMS
  return [...problems.slice(0, MAX_PROBLEMS), ...(more > 0 ? [`its document has ${more} more problems.`] : [])].map(
    (problem) => `openapi.${id}: ${toPrintable(problem)}`,
  )
}

function findDuplicateIds(document: Json, used: readonly OperationRecord[], all: readonly OperationRecord[]): string[] {
  const byId = groupBy(all, (operation) => findOperation(document, operation).operation['operationId'])
  return [...byId].flatMap(([operationId, operations]) =>
    operationId === undefined || operations.length === 1 || !operations.some((operation) => used.includes(operation))
      ? []
      : [
          `${operations.length} operations have the operationId "${operationId}". Pegboard names them ${joinNames(
            operations.map(({ name }) => name),
            5,
          )}.`,
        ],
  )
}

function findParameterProblems(document: Json, record: OperationRecord): string[] {
  const { item, operation } = findOperation(document, record)
  const place = `${record.method.toUpperCase()} ${record.path}`
  const parameters = [item['parameters'], operation['parameters']]
    .flat()
    .map((raw) => lookUp(document, raw))
    .filter((parameter) => parameter !== undefined)
  const problems = parameters.flatMap(({ name, in: location }) => {
    if (typeof name !== 'string') return [`${place}: a parameter has no "name", so Pegboard ignores it.`]
    if (location === undefined) return [`${place}: the parameter "${name}" has no "in", so Pegboard ignores it.`]
    return LOCATIONS.includes(location as ParameterLocation)
      ? []
      : [
          `${place}: "in" of the parameter "${name}" is ${JSON.stringify(location)}, so Pegboard ignores the parameter. It must be "path", "query", "header" or "cookie".`,
        ]
  })
  const undeclared = placeholdersIn(record.path).filter(
    (name) => !parameters.some((parameter) => parameter['in'] === 'path' && parameter['name'] === name),
  )
  return [
    ...problems,
    ...undeclared.map(
      (name) => `${place} does not declare its parameter "${name}", so Pegboard takes any text for it.`,
    ),
  ]
}

/** Keywords whose value is data, so that `$ref` in it is no reference. */
const DATA = new Set(['example', 'examples', 'default', 'enum', 'const', 'value'])

function findBrokenReferences(document: Json): string[] {
  const broken = new Set<string>()
  const open: unknown[] = [document]
  // Not recursive, because a document can be very deep. The loop also visits what it adds.
  for (const node of open) {
    if (Array.isArray(node)) for (const child of node) open.push(child)
    if (!isRecord(node)) continue
    const ref = node['$ref']
    if (typeof ref === 'string' && resolvePointer(document, ref) === undefined) broken.add(ref)
    for (const [key, value] of Object.entries(node)) if (!DATA.has(key)) open.push(value)
  }
  return [...broken]
}
