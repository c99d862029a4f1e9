import { runWithTimeout } from '../core/run-with-timeout.ts'
import { type JsonSchema, type ParseResult, toSchema } from '../core/schema.ts'

const BUDGET_MS = 200

// Keywords whose cost is not bounded by the size of schema and arguments.
const COSTLY = /"(?:pattern|patternProperties|\$ref|\$dynamicRef|uniqueItems)":/

/**
 * Validates arguments against a schema from the document. Its expressions and references can be arbitrarily slow, so
 * a check that exceeded its time is not used again; the API validates as well.
 */
export function createCheck(schema: JsonSchema, onUnchecked: () => void): (value: unknown) => ParseResult {
  const { parse } = toSchema(schema)
  if (!COSTLY.test(JSON.stringify(schema))) return parse
  let gaveUp = false
  return (value) => {
    const checked = gaveUp ? undefined : runWithTimeout(BUDGET_MS, () => parse(value))
    if (checked) return checked.value
    // Otherwise every call would block the process for as long again.
    gaveUp = true
    onUnchecked()
    return { ok: true, value }
  }
}
