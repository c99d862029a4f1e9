import { overrideOf } from '../catalog/naming.ts'
import { groupBy } from '../core/group-by.ts'
import { findFreeName, isToolName, wireName } from '../core/tool-names.ts'
import type { ApiSettings } from './openapi-options.ts'

/**
 * The last part of each tool's id, by operation name. Many APIs use names like `repos/delete`, which become
 * `repos_delete` without a hash. If several operations want the same id, it goes to the one that has it, then to one
 * that needs no review, then to one with exactly this name. The others get a hash.
 */
export function operationActions(
  names: readonly string[],
  settings: Pick<ApiSettings, 'tools'>,
  previous: ReadonlyMap<string, string>,
  isRejected: (name: string) => boolean,
): ReadonlyMap<string, string> {
  const namesByAction = groupBy(names, (name) => {
    const listedName = overrideOf(settings, name)?.rename ?? name
    return isToolName(listedName) ? listedName : wireName(listedName, 64)
  })
  const actions = new Map<string, string>()
  for (const [action, group] of namesByAction) {
    const tests: ReadonlyArray<(name: string) => boolean> = [
      (name) => overrideOf(settings, name)?.rename === action,
      (name) => previous.get(name) === action && !isRejected(name),
      (name) => !isRejected(name),
      (name) => name === action,
    ]
    const rank = (name: string): string => tests.map((test) => (test(name) ? 'a' : 'b')).join('')
    const [winner] = [...group].sort((a, b) => (rank(a) + a < rank(b) + b ? -1 : 1))
    const isTaken = (free: string): boolean => namesByAction.has(free)
    for (const name of group) actions.set(name, name === winner ? action : findFreeName(action, name, isTaken, 64))
  }
  return actions
}
