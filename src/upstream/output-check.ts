import { Validator } from '@cfworker/json-schema'
import { expandedSchemaSize } from '../core/expanded-schema-size.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { rawBytes, sizeOf } from '../core/raw-result.ts'
import { DATA_KEYWORDS, MAP_KEYWORDS } from '../core/schema-keywords.ts'
import { noticeBlock, WITHHELD } from '../core/tool-result.ts'
import { parseDefinition, type ToolRecord } from './tool-definition.ts'

/** Larger results are not validated, because validation blocks the event loop. */
const MAX_BYTES = 256 * 1024
/** Schemas with more nodes, references expanded, are not used. */
const MAX_PARTS = 2_000
/** Maximum work of one validation: nodes of schema and value, counted once per application. */
const MAX_WORK = 5_000_000
/** Cost of an empty node. */
const PART_COST = 10

/**
 * Removes structured content that does not match the tool's `outputSchema`, because programs rely on the schema. The
 * text stays and gets a note. Returns the same object if everything matches.
 */
export function withCheckedOutput(record: ToolRecord, result: Json): Json {
  // Reads members on demand, because raw results parse each one on access.
  const check = 'structuredContent' in result ? checkOf(record) : undefined
  if (!check || result['isError'] === true || sizeOf(result) > MAX_BYTES) return result
  const { structuredContent } = result
  const path = structuredContent === undefined ? undefined : check(structuredContent)
  if (path === undefined) return result
  const { content, _meta } = result
  if (path === UNCHECKED)
    return {
      ...result,
      content: [
        ...(Array.isArray(content) ? content : []),
        noticeBlock("The structured content was not checked: the tool's outputSchema takes too long."),
      ],
    }
  const { structuredContent: _withheld, ...rest } = rawBytes(result) ? { ...result } : result
  const at = /^[\w./-]{1,100}$/.test(path) ? ` (at ${path})` : ''
  const notice = `The structured content was withheld: it does not match the tool's outputSchema${at}. The tool did run.`
  return {
    ...rest,
    content: [...(Array.isArray(content) ? content : []), noticeBlock(notice)],
    _meta: { ...asRecord(_meta), [WITHHELD]: { structuredContent: notice } },
  }
}

const UNCHECKED = Symbol('unchecked')

/** Returns where a value is invalid; undefined if it is valid. */
type Check = (value: unknown) => string | typeof UNCHECKED | undefined

const checks = new WeakMap<ToolRecord, Check | null>()

const checkOf = (record: ToolRecord): Check | null =>
  getOrInsert(checks, record, () => {
    const output = record.text.includes('"outputSchema"') ? parseDefinition(record).output : undefined
    return output !== undefined && expandedSchemaSize(output) <= MAX_PARTS ? createCheck(output) : null
  })

/** Work done so far, and the cost of a node that examines all of its value. */
interface Work {
  done: number
  widest: number
}

class WorkLimitError extends Error {}

function createCheck(output: unknown): Check {
  const work: Work = { done: 0, widest: 0 }
  const validator = new Validator(toCheckable(output, work) as object, '2020-12', true)
  return (value) => {
    try {
      work.done = 0
      work.widest = widestIn(value)
      if (validator.validate(value).valid) return undefined
      // Numbers that parsing would change arrive as strings.
      const { valid, errors } = validator.validate(withNumbers(value))
      return valid ? undefined : (errors.at(-1)?.instanceLocation.replace(/^#\/?/, '') ?? '')
    } catch (error) {
      // A RangeError means that schema nodes contain each other endlessly.
      if (error instanceof WorkLimitError || error instanceof RangeError) return UNCHECKED
      throw error
    }
  }
}

/** The largest number of keys of an object, or a sixteenth of the length of a text. */
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
const OTHER_PROPERTIES: ReadonlySet<string> = new Set(['additionalProperties', 'unevaluatedProperties'])
/** Keywords of other drafts. */
const OTHER_DRAFTS: ReadonlySet<string> = new Set(['$recursiveRef', '$recursiveAnchor'])
/** Applied to each item or property, where even `true` has a cost. */
const PER_ITEM: ReadonlySet<string> = new Set([
  'items',
  'additionalItems',
  'contains',
  'unevaluatedItems',
  'propertyNames',
])
/** These examine the whole value. */
const WHOLE_VALUE: readonly string[] = [
  'additionalProperties',
  'unevaluatedProperties',
  'minProperties',
  'maxProperties',
  'propertyNames',
  'minLength',
  'maxLength',
]

/**
 * Removes what would run on JavaScript's backtracking regular expressions, which a pattern can block for hours, and
 * what examines items more than once. Each use of a node counts as work.
 */
function toCheckable(schema: unknown, work: Work): unknown {
  if (Array.isArray(schema)) return schema.map((one) => toCheckable(one, work))
  if (!isRecord(schema)) return schema
  const hasPatternProperties = Object.hasOwn(schema, 'patternProperties')
  const checkable = Object.fromEntries(
    Object.entries(schema)
      .filter(
        ([key]) => !PATTERNS.has(key) && !OTHER_DRAFTS.has(key) && !(hasPatternProperties && OTHER_PROPERTIES.has(key)),
      )
      .map(([key, value]) => {
        if (DATA_KEYWORDS.has(key)) return [key, value]
        if (PER_ITEM.has(key) && value === true) return [key, toCheckable({}, work)]
        if (!MAP_KEYWORDS.has(key) || !isRecord(value)) return [key, toCheckable(value, work)]
        return [key, Object.fromEntries(Object.entries(value).map(([name, one]) => [name, toCheckable(one, work)]))]
      }),
  )
  const baseCost = Object.entries(checkable).reduce((sum, [key, value]) => sum + costOf(key, value), PART_COST)
  const isWide = WHOLE_VALUE.some((key) => Object.hasOwn(checkable, key))
  // The validator has no limit of its own, but reads this keyword for every node it applies.
  return Object.defineProperty(checkable, '$recursiveRef', {
    get(): undefined {
      work.done += isWide ? baseCost + work.widest : baseCost
      if (work.done > MAX_WORK) throw new WorkLimitError()
    },
  })
}

function costOf(key: string, value: unknown): number {
  if (key === 'enum' || key === 'const') return JSON.stringify(value).length / 8
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 1
}
