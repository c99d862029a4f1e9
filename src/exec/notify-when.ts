import { isRecord } from '../core/is-record.ts'
import type { Outcome } from './outcome.ts'

export const STRATEGIES = ['on_change', 'on_error', 'on_threshold', 'summary', 'always'] as const
export type Strategy = (typeof STRATEGIES)[number]

/** A comparison of the value at a dotted path, such as `result.value > 1`. Nothing is evaluated. */
export interface Threshold {
  readonly path: readonly string[]
  readonly operator: string
  readonly value: unknown
}

const COMPARISON = /^\s*((?:result|error)(?:\.[\w-]{1,64}){0,16})\s*(!=|>=|<=|==|>|<)\s*(.{1,200}?)\s*$/

/** `undefined` if the text is not a single comparison. */
export function thresholdOf(expression: string): Threshold | undefined {
  const [, path = '', operator = '', raw = ''] = COMPARISON.exec(expression.slice(0, 1_500)) ?? []
  if (path === '') return undefined
  return { path: path.split('.'), operator, value: parseLiteral(raw) }
}

function parseLiteral(raw: string): unknown {
  const quoted = /^(['"])(.*)\1$/.exec(raw)
  if (quoted) return quoted[2]
  try {
    return JSON.parse(raw) as unknown
  } catch {
    return raw
  }
}

/** The value at a path, which begins with `result` or `error`. */
function valueAt([root, ...keys]: Threshold['path'], outcome: Outcome): unknown {
  const { error, data }: { error?: unknown; data?: unknown } = outcome
  return keys.reduce(
    (value, key) => {
      if (isRecord(value) && Object.hasOwn(value, key)) return value[key]
      return Array.isArray(value) ? value[Number(key)] : undefined
    },
    root === 'error' ? error : data,
  )
}

function meetsThreshold({ path, operator, value }: Threshold, outcome: Outcome): boolean {
  const actual = valueAt(path, outcome)
  if (operator === '==') return isEqual(actual, value)
  if (operator === '!=') return !isEqual(actual, value)
  const [left, right] = [Number(actual), Number(value)]
  if (actual === undefined || actual === null || Number.isNaN(left) || Number.isNaN(right)) return false
  if (operator === '>') return left > right
  if (operator === '<') return left < right
  return operator === '>=' ? left >= right : left <= right
}

const isEqual = (a: unknown, b: unknown): boolean => JSON.stringify(a ?? null) === JSON.stringify(b ?? null)

export interface Check {
  /** Number of the check, from 1. */
  readonly number: number
  readonly now: Outcome
  readonly before: Outcome | undefined
  readonly threshold?: Threshold
  readonly batchSize: number
}

/** True if the owner should be notified of a check. With `on_change`, the first check notifies nobody. */
export function shouldNotify(strategy: Strategy, { number, now, before, threshold, batchSize }: Check): boolean {
  switch (strategy) {
    case 'always':
      return true
    case 'summary':
      return number % batchSize === 0
    case 'on_threshold':
      return threshold !== undefined && meetsThreshold(threshold, now)
    case 'on_error':
      return !now.success || before?.success === false
    case 'on_change':
      return before !== undefined && JSON.stringify(before) !== JSON.stringify(now)
  }
}
