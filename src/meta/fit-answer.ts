import type { Json } from '../core/is-record.ts'
import { isLongerThan } from '../core/text-tokens.ts'
import { readInteger } from './meta-input.ts'

/** The least and the most that `max_tokens` can ask for. */
export const MIN_TOKENS = 200
const MAX_TOKENS = 1_000_000

/** The `max_tokens` of a meta-tool's input; Infinity if it has none. @throws PegboardError E_VALIDATION */
export const readMaxTokens = (input: Json, tool: string): number =>
  input['max_tokens'] === undefined || input['max_tokens'] === null
    ? Number.POSITIVE_INFINITY
    : readInteger(input, 'max_tokens', tool, MIN_TOKENS, MAX_TOKENS, MAX_TOKENS)

/** The first of the answers that has at most so many tokens as JSON, else the last. @param answers the most useful first */
export function firstFitting(tokens: number, answers: Iterable<object>): object {
  let last: object = {}
  for (const answer of answers) {
    last = answer
    if (tokens === Number.POSITIVE_INFINITY || !isLongerThan(JSON.stringify(answer), tokens)) break
  }
  return last
}

/** A list with fewer and fewer entries, at least one. */
export function* shrinking<T>(rows: readonly T[]): Iterable<readonly T[]> {
  for (let count = rows.length; count > 1; count = Math.min(count - 1, Math.ceil(count * 0.8)))
    yield rows.slice(0, count)
  yield rows.slice(0, 1)
}
