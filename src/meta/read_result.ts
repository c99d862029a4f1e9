import { isRecord, type Json } from '../core/is-record.ts'
import { escapeNotices } from '../core/sanitize.ts'
import type { ToolResult } from '../core/tool-result.ts'
import type { ResultQuery } from '../results/result-query.ts'
import { RESULT_SCHEME } from '../results/result-store.ts'
import { MIN_TOKENS } from './fit-answer.ts'
import { describeBytes } from './fit-result.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'
import { createInputError, inputSchema, READS, readInteger, readText, TEXT } from './meta-input.ts'

const NAME = 'read_result'
/** Its name in scripts. */
export const READ_RESULT = `pegboard.${NAME}`
/** Tokens of one answer, unless the caller asks for another number. */
const PAGE_TOKENS = 3_500
/** Tokens of the note before the text. */
const NOTE_TOKENS = 150
const MAX_LINES = 1_000_000_000
const INTEGERS = ['page', 'context', 'head', 'tail', 'sample'] as const
const MAX_SELECT = 100
const MAX_PATTERN = 1_000

/** Reads on in a result that was too long for the model. */
export const readResultTool = (host: MetaHost): MetaTool => ({
  name: NAME,
  title: 'Read result',
  description: () =>
    'Read on in a long result kept under a handle: by page, lines "10-20", grep, head, tail, sample or count; JSON by path ("$.items[0:9].id"), its rows by where ({"price":{">":5}}) and select.',
  inputSchema: inputSchema(
    {
      handle: TEXT,
      page: { type: 'integer' },
      lines: TEXT,
      grep: TEXT,
      context: { type: 'integer' },
      ignore_case: { type: 'boolean' },
      head: { type: 'integer' },
      tail: { type: 'integer' },
      sample: { type: 'integer' },
      count: { type: 'boolean' },
      path: TEXT,
      where: { type: 'object', properties: {}, additionalProperties: true },
      select: { type: 'array', items: TEXT },
      max_tokens: { type: 'integer' },
      keep: { type: 'boolean' },
    },
    'handle',
  ),
  hints: READS,
  async run(input, { caller, signal, abort }): Promise<ToolResult> {
    const handle = readText(input, 'handle', NAME, 200).trim()
    const stored = host.results.require(caller, handle)
    if (readFlag(input, 'keep')) host.results.keepAfterSession(caller, handle)
    if (!stored.isText) {
      const text = `${describeBytes(stored)}. It is not text; the client can read the linked resource.`
      const { mimeType, bytes: size } = stored
      const link = { type: 'resource_link', uri: `${RESULT_SCHEME}${handle}`, name: handle, mimeType, size }
      return { kind: 'mcp', result: { content: [{ type: 'text', text }, link] } }
    }
    const most = Math.max(MIN_TOKENS, Math.floor(host.view(caller).maxResultTokens() * 0.9) - NOTE_TOKENS)
    const tokens = readInteger(input, 'max_tokens', NAME, MIN_TOKENS, MAX_LINES, PAGE_TOKENS)
    const room = Math.max(50, Math.min(most, tokens - NOTE_TOKENS))
    const answer = await host.results.query(caller, handle, readQuery(input), room, signal ?? abort?.signal)
    const text = answer.text === '' ? `[${answer.note}]` : `[${answer.note}]\n${answer.text}`
    // As text only, even for clients that otherwise get structured content, too.
    return { kind: 'mcp', result: { content: [{ type: 'text', text: escapeNotices(text) }] } }
  },
})

/** @throws PegboardError E_VALIDATION */
function readQuery(input: Json): ResultQuery {
  const has = (key: string): boolean => input[key] !== undefined && input[key] !== null
  const text = (key: string): object =>
    has(key) ? { [key]: readText({ [key]: String(input[key]) }, key, NAME, MAX_PATTERN) } : {}
  const integer = (key: string): number => readInteger(input, key, NAME, key === 'page' ? 1 : 0, MAX_LINES, 1)
  const numbers = INTEGERS.filter(has).map((key) => [key, integer(key)])
  const { where, select } = input
  if (has('where') && !isRecord(where))
    throw createInputError(NAME, 'where: an object is required, such as {"state":"open"}')
  const keys = typeof select === 'string' ? select.split(',').map((key) => key.trim()) : select
  const isList = Array.isArray(keys) && keys.length <= MAX_SELECT && keys.every((key) => typeof key === 'string')
  if (has('select') && !isList) throw createInputError(NAME, `select: a list of at most ${MAX_SELECT} keys is required`)
  return {
    ...Object.fromEntries(numbers),
    ...text('path'),
    ...text('lines'),
    ...text('grep'),
    ...(isRecord(where) ? { where } : {}),
    ...(Array.isArray(keys) ? { select: keys } : {}),
    ...(readFlag(input, 'ignore_case') ? { ignoreCase: true } : {}),
    ...(readFlag(input, 'count') ? { count: true } : {}),
  }
}

const readFlag = (input: Json, key: string): boolean => input[key] === true || input[key] === 'true'
