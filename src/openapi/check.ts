import { type JsonSchema, type Parsed, toSchema } from '../core/schema.ts'
import { within } from '../core/within.ts'

const BUDGET_MS = 200

// All that can cost more than the schema and the arguments are long.
const COSTLY = /"(?:pattern|patternProperties|\$ref|\$dynamicRef|uniqueItems)":/

/**
 * The check of arguments by a schema that a document brought. Its expressions and references may cost any amount of
 * time: one that took too long is not used again, because the API checks as well.
 */
export function checkOf(schema: JsonSchema, unchecked: () => void): (value: unknown) => Parsed {
  const { parse } = toSchema(schema)
  if (!COSTLY.test(JSON.stringify(schema))) return parse
  let gaveUp = false
  return (value) => {
    const checked = gaveUp ? undefined : within(BUDGET_MS, () => parse(value))
    if (checked) return checked.value
    // Once is enough: every call would stop the process for as long again.
    gaveUp = true
    unchecked()
    return { ok: true, value }
  }
}
