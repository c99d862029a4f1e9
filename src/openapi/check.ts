import { type JsonSchema, type Parsed, toSchema } from '../core/schema.ts'
import { within } from '../core/within.ts'

const BUDGET_MS = 200

// All that can cost more than the schema and the arguments are long.
const COSTLY = /"(?:pattern|patternProperties|\$ref|\$dynamicRef|uniqueItems)":/

/**
 * The check of arguments by a schema that a document brought. Its expressions and references may cost any amount of
 * time: what takes too long counts as checked, because the API checks as well.
 */
export function checkOf(schema: JsonSchema, unchecked: () => void): (value: unknown) => Parsed {
  const { parse } = toSchema(schema)
  if (!COSTLY.test(JSON.stringify(schema))) return parse
  return (value) => {
    const checked = within(BUDGET_MS, () => parse(value))
    if (checked) return checked.value
    unchecked()
    return { ok: true, value }
  }
}
