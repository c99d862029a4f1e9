import { Validator } from '@cfworker/json-schema'
import { rawBytes, sizeOf } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import { WITHHELD } from '../core/result.ts'
import { unfolded } from '../core/unfolded.ts'
import { parseDefinition, type ToolRecord } from './definition.ts'

type Json = Readonly<Record<string, unknown>>

/** Larger results are not checked: the check runs on the thread that serves everybody. */
const MAX_BYTES = 256 * 1024
/** A schema of this many parts is applied to every value of a list. */
const MAX_PARTS = 2_000

/**
 * The result without structured content that does not match the `outputSchema` of its tool: programs rely on the schema.
 * The text stays, and says what is missing. The same object where all is well.
 */
export function withCheckedOutput(record: ToolRecord, result: Json): Json {
  const { structuredContent, isError, content, _meta } = result
  if (structuredContent === undefined || isError === true || sizeOf(result) > MAX_BYTES) return result
  const validator = validatorOf(record)
  if (!validator) return result
  const path = faultOf(validator, structuredContent)
  if (path === undefined) return result
  const { structuredContent: _withheld, ...rest } = rawBytes(result) ? { ...result } : result
  const at = /^[\w./-]{1,100}$/.test(path) ? ` (at ${path})` : ''
  const said = `The structured content was withheld: it does not match the tool's outputSchema${at}. The tool did run.`
  return {
    ...rest,
    content: [...(Array.isArray(content) ? content : []), { type: 'text', text: `[NOTICE] ${said}` }],
    _meta: { ...(isRecord(_meta) ? _meta : {}), [WITHHELD]: { structuredContent: said } },
  }
}

const validators = new WeakMap<ToolRecord, Validator | null>()

function validatorOf(record: ToolRecord): Validator | undefined {
  let known = validators.get(record)
  if (known === undefined) {
    const output = record.text.includes('"outputSchema"') ? parseDefinition(record).output : undefined
    const isSmall = output !== undefined && unfolded(output) <= MAX_PARTS
    known = isSmall ? new Validator(withoutPatterns(output) as object, '2020-12', true) : null
    validators.set(record, known)
  }
  return known ?? undefined
}

/** Where the value is wrong; undefined where it is not. */
function faultOf(validator: Validator, value: unknown): string | undefined {
  const first = validator.validate(value)
  if (first.valid) return undefined
  // Numbers that parsing would change came as texts.
  const { valid, errors } = validator.validate(withNumbers(value))
  return valid ? undefined : (errors.at(-1)?.instanceLocation.replace(/^#\/?/, '') ?? '')
}

function withNumbers(value: unknown): unknown {
  if (typeof value === 'string') return /^-?\d[\d.]*(?:[eE][+-]?\d+)?$/.test(value) && isChanged(value) ? 0 : value
  if (Array.isArray(value)) return value.map(withNumbers)
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withNumbers(one)]))
}

const isChanged = (text: string): boolean => {
  const value = Number(text)
  return !Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))
}

const PATTERNS: ReadonlySet<string> = new Set(['pattern', 'patternProperties', 'format', 'uniqueItems'])
const REST: ReadonlySet<string> = new Set(['additionalProperties', 'unevaluatedProperties'])
const NAMED: ReadonlySet<string> = new Set(['properties', '$defs', 'dependentSchemas', 'definitions'])
const DATA: ReadonlySet<string> = new Set(['enum', 'const', 'default', 'examples'])

/**
 * Without what would run on JavaScript's own engine for regular expressions, which a pattern can stop for hours, or take
 * more than one look at each item.
 */
function withoutPatterns(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutPatterns)
  if (!isRecord(schema)) return schema
  const names = Object.hasOwn(schema, 'patternProperties')
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([key]) => !PATTERNS.has(key) && !(names && REST.has(key)))
      .map(([key, value]) => {
        if (DATA.has(key)) return [key, value]
        if (!NAMED.has(key) || !isRecord(value)) return [key, withoutPatterns(value)]
        return [key, Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withoutPatterns(one)]))]
      }),
  )
}
