import { Validator } from '@cfworker/json-schema'
import { rawBytes, sizeOf } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import { WITHHELD } from '../core/result.ts'
import { unfolded } from '../core/unfolded.ts'
import { parseDefinition, type ToolRecord } from './definition.ts'

type Json = Readonly<Record<string, unknown>>

/** Larger results are not checked: the check runs on the thread that serves everybody. */
const MAX_BYTES = 256 * 1024
/** A schema of this many parts, with its references followed, is not looked at. */
const MAX_PARTS = 2_000
/** What one check may compare: parts of the schema and what is in them, once for each value that they apply to. */
const MAX_WORK = 5_000_000
/** Of a part that is empty. */
const PART_COST = 10

/**
 * The result without structured content that does not match the `outputSchema` of its tool: programs rely on the schema.
 * The text stays, and says what is missing. The same object where all is well.
 */
export function withCheckedOutput(record: ToolRecord, result: Json): Json {
  const { structuredContent, isError, content, _meta } = result
  if (structuredContent === undefined || isError === true || sizeOf(result) > MAX_BYTES) return result
  const check = checkOf(record)
  if (!check) return result
  const path = check(structuredContent)
  if (path === undefined) return result
  if (path === UNCHECKED)
    return {
      ...result,
      content: [
        ...(Array.isArray(content) ? content : []),
        {
          type: 'text',
          text: "[NOTICE] The structured content was not checked: the tool's outputSchema takes too long.",
        },
      ],
    }
  const { structuredContent: _withheld, ...rest } = rawBytes(result) ? { ...result } : result
  const at = /^[\w./-]{1,100}$/.test(path) ? ` (at ${path})` : ''
  const said = `The structured content was withheld: it does not match the tool's outputSchema${at}. The tool did run.`
  return {
    ...rest,
    content: [...(Array.isArray(content) ? content : []), { type: 'text', text: `[NOTICE] ${said}` }],
    _meta: { ...(isRecord(_meta) ? _meta : {}), [WITHHELD]: { structuredContent: said } },
  }
}

const UNCHECKED = Symbol('unchecked')

/** Where a value is wrong; undefined where it is not. */
type Check = (value: unknown) => string | typeof UNCHECKED | undefined

const checks = new WeakMap<ToolRecord, Check | null>()

function checkOf(record: ToolRecord): Check | undefined {
  let known = checks.get(record)
  if (known === undefined) {
    const output = record.text.includes('"outputSchema"') ? parseDefinition(record).output : undefined
    known = output !== undefined && unfolded(output) <= MAX_PARTS ? createCheck(output) : null
    checks.set(record, known)
  }
  return known ?? undefined
}

/** What was done so far, and how much a part costs that looks at all of its value. */
interface Work {
  done: number
  widest: number
}

class TooMuch extends Error {}

function createCheck(output: unknown): Check {
  const work: Work = { done: 0, widest: 0 }
  const validator = new Validator(checkable(output, work) as object, '2020-12', true)
  return (value) => {
    try {
      work.done = 0
      work.widest = widestIn(value)
      if (validator.validate(value).valid) return undefined
      // Numbers that parsing would change came as texts.
      const { valid, errors } = validator.validate(withNumbers(value))
      return valid ? undefined : (errors.at(-1)?.instanceLocation.replace(/^#\/?/, '') ?? '')
    } catch (error) {
      // Parts that contain each other without end, too.
      if (error instanceof TooMuch || error instanceof RangeError) return UNCHECKED
      throw error
    }
  }
}

/** The most keys of an object, or sixteenths of a text. */
function widestIn(value: unknown): number {
  if (typeof value === 'string') return value.length / 16
  if (typeof value !== 'object' || value === null) return 0
  const inner = Object.values(value)
  return inner.reduce((most: number, one) => Math.max(most, widestIn(one)), Array.isArray(value) ? 0 : inner.length)
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
/** Of another draft. */
const OLD: ReadonlySet<string> = new Set(['$recursiveRef', '$recursiveAnchor'])
/** Applied to each item or property, where `true` is not free either. */
const EACH: ReadonlySet<string> = new Set(['items', 'additionalItems', 'contains', 'unevaluatedItems', 'propertyNames'])
/** These look at all of their value. */
const WIDE: readonly string[] = [
  'additionalProperties',
  'unevaluatedProperties',
  'minProperties',
  'maxProperties',
  'propertyNames',
  'minLength',
  'maxLength',
]

/**
 * Without what would run on JavaScript's own engine for regular expressions, which a pattern can stop for hours, or take
 * more than one look at each item. Every use of a part counts as work.
 */
function checkable(schema: unknown, work: Work): unknown {
  if (Array.isArray(schema)) return schema.map((one) => checkable(one, work))
  if (!isRecord(schema)) return schema
  const names = Object.hasOwn(schema, 'patternProperties')
  const part = Object.fromEntries(
    Object.entries(schema)
      .filter(([key]) => !PATTERNS.has(key) && !OLD.has(key) && !(names && REST.has(key)))
      .map(([key, value]) => {
        if (DATA.has(key)) return [key, value]
        if (EACH.has(key) && value === true) return [key, checkable({}, work)]
        if (!NAMED.has(key) || !isRecord(value)) return [key, checkable(value, work)]
        return [key, Object.fromEntries(Object.entries(value).map(([name, one]) => [name, checkable(one, work)]))]
      }),
  )
  const own = Object.entries(part).reduce((sum, [key, value]) => sum + costOf(key, value), PART_COST)
  const isWide = WIDE.some((key) => Object.hasOwn(part, key))
  // The validator has no limit of its own. It reads this keyword of every part that it applies, each time.
  return Object.defineProperty(part, '$recursiveRef', {
    get(): undefined {
      work.done += isWide ? own + work.widest : own
      if (work.done > MAX_WORK) throw new TooMuch()
    },
  })
}

function costOf(key: string, value: unknown): number {
  if (key === 'enum' || key === 'const') return JSON.stringify(value).length / 8
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 1
}
