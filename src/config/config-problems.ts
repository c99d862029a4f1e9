import type { z } from 'zod'
import { PegboardError } from '../core/errors.ts'
import { describeSettingError } from '../core/setting-error.ts'
import { findNearest } from '../core/tool-names.ts'
import { configJsonSchema, type FileSettings, fileSchema, knownKeys, parseFile } from './config-schema.ts'
import type { FilledValue } from './variables.ts'

// Keys that other clients have too. A file that has only these was written for another client.
const SHARED = new Set(['$schema', 'mcpServers', 'servers', 'inputs'])

/** Collects all problems of a configuration file, with their lines, to report them together. */
export function createProblemCollector(shown: string, lines: ReadonlyMap<string, number>) {
  const found: Array<{ readonly line: number | undefined; readonly text: string }> = []
  const reported = new Set<string>()
  let unset = 0
  // Created for the first problem, because it slows down the start.
  let json: Record<string, unknown> | undefined
  const keysAt = (path: readonly string[]): readonly string[] => {
    json ??= configJsonSchema()
    return knownKeys(json, path) ?? []
  }

  const add = (path: readonly string[], text: string): void => {
    let line: number | undefined
    for (let end = path.length; end > 0 && line === undefined; end--) line = lines.get(path.slice(0, end).join('.'))
    found.push({ line, text })
    reported.add(path.join('.'))
  }

  return {
    add,
    /** Reports a `${…}` that has no value. */
    unset(path: readonly string[], what: string): void {
      add(path, what)
      unset++
    },
    /**
     * Checks the root keys. Unknown keys are dropped with a warning in a file of another client; in Pegboard's own file
     * `check` reports them.
     */
    ownKeys(root: Readonly<Record<string, unknown>>, warnings: string[]): Record<string, unknown> {
      const keys = Object.keys(root)
      const validKeys = Object.keys(fileSchema.shape)
      const foreign =
        ('mcpServers' in root || 'servers' in root) && !keys.some((key) => validKeys.includes(key) && !SHARED.has(key))
      if (!foreign) return { ...root }
      // Keys that are nearly ours are kept, so that they are reported as misspelled.
      const dropped = keys.filter(
        (key) =>
          !validKeys.includes(key) && findNearest(key, validKeys, Math.min(2, Math.floor(key.length / 3))).length === 0,
      )
      if (dropped.length > 0) warnings.push(`Ignored unknown keys: ${dropped.join(', ')}.`)
      return Object.fromEntries(Object.entries(root).filter(([key]) => !dropped.includes(key)))
    },
    /**
     * Validates `value`. Adds problems and returns undefined if it is invalid. `more` is validated with it, but its
     * variables are not replaced.
     */
    check(filled: FilledValue, more: Readonly<Record<string, unknown>>): FileSettings | undefined {
      const given = Object.entries(more).filter(([, value]) => value !== undefined)
      const value = { ...(filled.value as object), ...Object.fromEntries(given) }
      let result = parseFile(value)
      if (!result.success && convertVariables(value, result.error.issues, filled.whole)) result = parseFile(value)
      if (result.success) return result.data
      for (const issue of result.error.issues) {
        const path = issue.path.map(String)
        // The variable was reported already; its missing value is no second problem.
        if (reported.has(path.join('.'))) continue
        if (issue.code !== 'unrecognized_keys') add(path, `${path.join('.')}: ${describeSettingError(issue, value)}`)
        else for (const key of issue.keys) add([...path, key], unknownKey(path, key, keysAt(path)))
      }
      return undefined
    },
    /** @throws PegboardError E_CONFIG_INVALID with every problem */
    throwIfAny(): void {
      const [first] = found
      if (!first) return
      const sorted = [...found].sort((a, b) => (a.line ?? 0) - (b.line ?? 0))
      const describeProblem = ({ line, text }: (typeof found)[number]): string =>
        line === undefined ? text : `line ${line}: ${text}`
      if (sorted.length === 1)
        throw new PegboardError(
          'E_CONFIG_INVALID',
          `${shown}, ${describeProblem(first)}`,
          unset > 0 ? { hint: 'Set the variable, or remove the reference to it.' } : {},
        )
      const list = sorted.map((problem) => `\n  ${describeProblem(problem)}`).join('')
      throw new PegboardError('E_CONFIG_INVALID', `${shown} has ${sorted.length} problems:${list}\n`, {
        hint: [
          ...(unset < found.length ? ['Correct the named keys'] : []),
          ...(unset > 0 ? ['Set the named variables, or remove the references to them'] : []),
        ]
          .join('. ')
          .concat('.'),
      })
    },
  }
}

function unknownKey(path: readonly string[], key: string, allowed: readonly string[]): string {
  const full = [...path, key].join('.')
  const [near] = findNearest(key, allowed, Math.max(2, Math.floor(key.length / 3)))
  if (near) return `unknown key "${full}"; did you mean "${near}"?`
  // Each module has its own settings; the keys around them are ours.
  if (path[0] === 'modules' && path.length === 2)
    return `unknown key "${full}"; options of the module itself are in ${path.join('.')}.config`
  return allowed.length > 0
    ? `unknown key "${full}"; valid keys: ${allowed.filter((one) => one !== '$schema').join(', ')}`
    : `unknown key "${full}"`
}

/**
 * Converts variables to numbers and booleans, as in `"port": "${PORT}"`. Only strings that consist of one variable are
 * converted. Changes `value`, which is a copy.
 * @returns true if anything was converted
 */
function convertVariables(value: object, issues: readonly z.core.$ZodIssue[], whole: ReadonlySet<string>): boolean {
  let converted = false
  for (const issue of issues) {
    const path = issue.path.map(String)
    if (issue.code !== 'invalid_type' || !whole.has(path.join('.'))) continue
    const last = path.pop() as string
    const holder = path.reduce((at, key) => at[key] as Record<string, unknown>, value as Record<string, unknown>)
    const text = String(holder[last]).trim()
    const boolean = issue.expected === 'boolean' && /^(true|false)$/i.test(text)
    const number =
      (issue.expected === 'number' || issue.expected === 'int') && text !== '' && Number.isFinite(Number(text))
    if (!boolean && !number) continue
    holder[last] = boolean ? text.toLowerCase() === 'true' : Number(text)
    converted = true
  }
  return converted
}
