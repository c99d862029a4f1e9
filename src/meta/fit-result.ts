import type { Owner } from '../catalog/owner.ts'
import type { Caller } from '../core/caller.ts'
import { mediaInBlock, textInBlock } from '../core/content-block.ts'
import { formatCount, formatNumber } from '../core/format-count.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { parseJsonText } from '../core/parse-json-text.ts'
import { sizeOf } from '../core/raw-result.ts'
import { OWN_META, sanitize } from '../core/sanitize.ts'
import { cutText, isLongerThan, maxTokensOf, tokensOfText } from '../core/text-tokens.ts'
import type { ContentBlock, McpResult } from '../core/tool-result.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import type { ResultSummary } from '../results/result-query.ts'
import { type KeptResult, type NewResult, RESULT_SCHEME } from '../results/result-store.ts'
import { bareName, calledName } from './execute_tool.ts'
import { MIN_TOKENS } from './fit-answer.ts'
import type { MetaHost } from './meta-host.ts'

/** Tokens of an image or a sound, which clients pass on as such. */
const MEDIA_TOKENS = 1_500
/** A client that shows larger ones as text would fill the context. */
const MAX_MEDIA_BYTES = 1024 * 1024
const PREVIEW_TOKENS = 1_000
const SHAPE_CHARS = 1_200
/** Maximum tokens that are shown of a longer result, whatever the limit is. */
const MAX_SHOWN_TOKENS = 8_000
/** More blocks than this are kept together. */
const MAX_BLOCKS = 20

/** A part of a result that is kept. */
type ResultPart = NewResult & { readonly count?: number }

/**
 * Makes a result fit the limit of its tool and client. A longer one is kept, and replaced by its shape, its beginning and a
 * handle.
 * @param promised whether the client knows an output schema of the tool. It then gets an error instead, because errors need
 *   no structured content
 * @param isMeta whether a name means a meta-tool of this caller
 */
export async function fitResult(
  host: MetaHost,
  request: Pick<CallRequest, 'name' | 'input' | 'caller'>,
  result: McpResult,
  promised: () => boolean,
  isMeta: (name: string) => boolean,
): Promise<McpResult> {
  if (result['resultType'] !== undefined) return result
  const limits = limitsOf(host, request, isMeta)
  const exceeded = findExceeded(result, limits)
  if (!exceeded) return result
  const { title } = limits
  const { content = [], isError, _meta } = result
  const text = content.flatMap((block) => textInBlock(block) ?? []).join('\n')
  // The text of an error contains everything.
  const structuredContent = isError === true && text !== '' ? undefined : result.structuredContent
  const { value, isSame } = unwrap(structuredContent, text)
  const isPromised = structuredContent !== undefined && isError !== true && promised()
  if (isSame && !isPromised) {
    // The text and the structured content are the same. With only one of them, the result may fit.
    const { structuredContent: _again, ...single } = result
    if (sizeOf(single) <= limits.bytes && !isLongResult({ content }, limits.shownTokens)) return single
  }
  const texts: ResultPart[] = []
  if (structuredContent !== undefined) texts.push(toDataPart(value, title))
  if (!isSame && text !== '') texts.push(toTextPart(text, title))
  const others = content.filter((block) => textInBlock(block) === undefined)
  const { kept, shown } = splitParts(texts, others, limits)
  const share = Math.floor(Math.min(limits.shownTokens, MAX_SHOWN_TOKENS) / Math.max(1, kept.length))
  const keep = async (part: ResultPart, tokens: number): Promise<ContentBlock> => ({
    type: 'text',
    text: await keepAndDescribe(host, request.caller, part, tokens, exceeded),
  })
  const notes: ContentBlock[] = []
  for (const part of kept) notes.push(await keep(part, share))
  let blocks = [...notes, ...shown]
  // If the descriptions of many parts exceed a small limit, the whole result is kept under one handle.
  if (isLongResult({ content: blocks }, limits.tokens))
    blocks = [await keep({ data: JSON.stringify(result), mimeType: 'application/json', title }, limits.shownTokens)]
  return {
    content: blocks,
    ...(isError === true || isPromised ? { isError: true } : {}),
    ...(_meta === undefined ? {} : { _meta }),
  }
}

interface ResultLimits {
  /** Id of the tool, or the name that was called. */
  readonly title: string
  readonly reads: 'content' | 'structured' | undefined
  readonly tokens: number
  readonly bytes: number
  /** Maximum tokens of a shortened result. */
  readonly shownTokens: number
}

/** The limits of the tool that a request runs, also through a meta-tool, of the client, and of the request itself. */
function limitsOf(
  host: MetaHost,
  { name, input, caller }: Pick<CallRequest, 'name' | 'input' | 'caller'>,
  isMeta: (name: string) => boolean,
): ResultLimits {
  const view = host.view(caller)
  const toolName = calledName(name, input)
  const found = isMeta(toolName) ? undefined : view.resolve(toolName)
  const tool = found?.kind === 'found' ? found.tool.tool : undefined
  const hasMaximum = toolName !== name || bareName(name) === 'run_code'
  const requestedTokens = Number(hasMaximum && asRecord(input)['max_tokens'])
  const maxTokens = requestedTokens >= MIN_TOKENS ? requestedTokens : Number.POSITIVE_INFINITY
  const tokens = Math.min(view.maxResultTokens(tool), maxTokens)
  const { reads, maxResultBytes: bytes = Number.POSITIVE_INFINITY } = view.limits
  // The shown text has four bytes for each token.
  return { title: tool?.id ?? toolName.slice(0, 80), reads, tokens, bytes, shownTokens: Math.min(tokens, bytes / 4) }
}

function findExceeded(result: McpResult, { reads, tokens, bytes }: ResultLimits): ExceededLimit | undefined {
  const size = sizeOf(result)
  // No byte costs more than one token.
  if (size <= tokens && size <= bytes) return undefined
  if (isLongResult(partForModel(result, reads), tokens)) return tokenLimit(tokens)
  return size > bytes ? { text: `${formatBytes(bytes)} of this client` } : undefined
}

/** Which parts of a long result are kept, and which are shown. @param others blocks that are not text */
function splitParts(
  texts: readonly ResultPart[],
  others: readonly ContentBlock[],
  { title, shownTokens, bytes }: ResultLimits,
): { readonly kept: readonly ResultPart[]; readonly shown: readonly ContentBlock[] } {
  const kept: ResultPart[] = []
  const shown: ContentBlock[] = []
  for (const part of texts)
    if (isLongerThan(String(part.data), shownTokens / 4)) kept.push(part)
    else shown.push({ type: 'text', text: String(part.data) })
  const room = { tokens: Math.min(shownTokens / 2, MAX_SHOWN_TOKENS), bytes: bytes / 2 }
  const remaining: ContentBlock[] = []
  for (const block of others) {
    const media = mediaInBlock(block)
    if (takeRoom(room, block, media)) shown.push(block)
    else if (media && kept.length < MAX_BLOCKS) kept.push({ ...media, title })
    else remaining.push(block)
  }
  if (remaining.length > 0)
    kept.push({ data: JSON.stringify(remaining), mimeType: 'application/json', title, count: remaining.length })
  return { kept, shown }
}

/** True if a block fits. Its size is then subtracted from the room. */
function takeRoom(
  room: { tokens: number; bytes: number },
  block: ContentBlock,
  media: ReturnType<typeof mediaInBlock>,
): boolean {
  if (media && !isShownAsMedia(media)) return false
  const tokens = media ? MEDIA_TOKENS : maxTokensOf(JSON.stringify(block))
  const bytes = sizeOf(block)
  if (tokens > room.tokens || bytes > room.bytes) return false
  room.tokens -= tokens
  room.bytes -= bytes
  return true
}

/** A part of a resource, as `resources/read` returns it. */
type ResourceContent = Json

/** Key in `_meta` of a replaced part, for the URI of the whole part. */
const WHOLE_META = `${OWN_META}whole`

/**
 * Makes a resource fit the limit of its server and client. A part that is too long keeps its address and type, and its text
 * becomes a description, its beginning and a handle. Pictures and sounds stay as they are, like those of results.
 * @param owner the server
 */
export async function fitResource(
  host: MetaHost,
  caller: Caller,
  title: string,
  contents: readonly ResourceContent[],
  owner?: Owner,
): Promise<readonly ResourceContent[]> {
  const view = host.view(caller)
  const { maxResultBytes = Number.POSITIVE_INFINITY, wholeResources } = view.limits
  if (wholeResources === true) return contents
  const most = view.maxResultTokens(owner)
  return await shareLimit(contents, Math.min(most, maxResultBytes / 4), tokensOfContent, async (one, share, tokens) =>
    tokens <= share ? one : await replaceContent(host, caller, title, one, share, most),
  )
}

/** Fits parts into a limit that they share: each has what the shorter ones leave. The order stays. */
async function shareLimit<T, Fitted>(
  parts: readonly T[],
  limit: number,
  tokensOf: (part: T) => number,
  fitOne: (part: T, share: number, tokens: number) => Promise<Fitted>,
): Promise<readonly Fitted[]> {
  const sized = parts.map((part, at) => ({ part, at, tokens: tokensOf(part) })).sort((a, b) => a.tokens - b.tokens)
  let room = limit
  const fitted: Fitted[] = []
  for (const [done, { part, at, tokens }] of sized.entries()) {
    const share = room / (sized.length - done)
    fitted[at] = await fitOne(part, share, tokens)
    room -= Math.min(share, tokens)
  }
  return fitted
}

function tokensOfContent(content: ResourceContent): number {
  const media = mediaInBlock({ type: 'resource', resource: content })
  return media && isShownAsMedia(media) ? MEDIA_TOKENS : maxTokensOf(String(content['text'] ?? content['blob'] ?? ''))
}

async function replaceContent(
  host: MetaHost,
  caller: Caller,
  title: string,
  content: ResourceContent,
  tokens: number,
  most: number,
): Promise<ResourceContent> {
  const { text, blob: _bytes, _meta, ...rest } = content
  const body = mediaInBlock({ type: 'resource', resource: content }) ?? { data: String(text), mimeType: 'text/plain' }
  const named = { ...body, title }
  const stored = await host.results.keep(caller, named)
  return {
    ...rest,
    text: stored
      ? await describeKept(host, caller, stored, named, tokens, tokenLimit(most))
      : describeLost(named, tokens),
    _meta: { ...asRecord(_meta), ...(stored ? { [WHOLE_META]: `${RESULT_SCHEME}${stored.handle}` } : {}) },
  }
}

/** What the model of a client reads of a result: texts, and the tokens of pictures and sounds. */
export function readByModel(
  result: McpResult,
  reads: 'content' | 'structured' | undefined,
): { readonly texts: readonly string[]; readonly media: number } {
  const { content = [], structuredContent } = partForModel(result, reads)
  const texts = structuredContent === undefined ? [] : [JSON.stringify(structuredContent) ?? '']
  let media = 0
  for (const block of content) {
    const found = textInBlock(block) === undefined ? mediaInBlock(block) : undefined
    if (found && isShownAsMedia(found)) media += MEDIA_TOKENS
    else texts.push(textInBlock(block) ?? JSON.stringify(block))
  }
  return { texts, media }
}

/** The part of a result that the client's model reads; both if that is unknown. */
function partForModel(result: McpResult, reads: 'content' | 'structured' | undefined): McpResult {
  const { content = [], structuredContent, isError } = result
  if (reads === 'content') return { content }
  // Models read the content of errors.
  return reads === 'structured' && structuredContent !== undefined && isError !== true ? { structuredContent } : result
}

/** Beginning of the envelope of a module's result, as JSON. */
const ENVELOPE = '{"success":true,"data":'

function toDataPart(value: unknown, title: string): ResultPart {
  if (typeof value === 'string') return { data: value, mimeType: 'text/plain', title }
  return { data: JSON.stringify(value) ?? 'null', mimeType: 'application/json', title }
}

/** A text to keep, without the envelope. */
function toTextPart(text: string, title: string): ResultPart {
  const isWrapped = text.startsWith(ENVELOPE) && text.endsWith('}')
  return { data: isWrapped ? text.slice(ENVELOPE.length, -1) : text, mimeType: 'text/plain', title }
}

/** True if the model may read more than `limit` tokens when the client passes all of this on. */
function isLongResult({ content = [], structuredContent }: McpResult, limit: number): boolean {
  let tokensLeft = limit
  const take = (text: string): boolean => {
    if (isLongerThan(text, tokensLeft)) return false
    tokensLeft -= maxTokensOf(text)
    return true
  }
  for (const block of content) {
    const text = textInBlock(block)
    const media = text === undefined ? mediaInBlock(block) : undefined
    if (media && isShownAsMedia(media)) tokensLeft -= MEDIA_TOKENS
    else if (!take(text ?? JSON.stringify(block))) return true
    if (tokensLeft < 0) return true
  }
  return structuredContent !== undefined && !take(JSON.stringify(structuredContent) ?? '')
}

/** Clients show models pictures and sounds; other bytes they show as base64. */
const isShownAsMedia = ({ data, mimeType }: Omit<ResultPart, 'title'>): boolean =>
  /^(?:image|audio)\//.test(mimeType) && data.length <= MAX_MEDIA_BYTES

/**
 * The value in the envelope of a module's result, or the only value of an object if the text is the same, and whether the text
 * says the same as the structured content, also as JSON. Servers wrap a text like that, because structured content must be an
 * object.
 */
function unwrap(structured: unknown, text: string): { readonly value: unknown; readonly isSame: boolean } {
  const names = isRecord(structured) ? Object.keys(structured) : []
  const { success, data, [names[0] ?? '']: first } = asRecord(structured)
  const isEnvelope = names.length === 2 && success === true && data !== undefined
  const inner = isEnvelope ? data : names.length === 1 ? first : undefined
  const candidates = inner === undefined ? [structured] : [inner, structured]
  const written = candidates.map((one) => JSON.stringify(one))
  let at = candidates.findIndex((one, index) => one === text || written[index] === text)
  // Last, because parsing long JSON blocks all other requests.
  if (at === -1 && structured !== undefined) at = written.indexOf(JSON.stringify(tryParseJson(text)) ?? '')
  return { value: isEnvelope ? data : (candidates[at] ?? structured), isSame: at !== -1 }
}

/** The limit that a result exceeds. */
interface ExceededLimit {
  readonly text: string
  /** Absent for a limit in bytes. */
  readonly tokens?: number
}

const tokenLimit = (tokens: number): ExceededLimit => ({ text: formatNumber(tokens), tokens })

/** Keeps a part of a result, and says what it is and how to read it. @param tokens for the note */
async function keepAndDescribe(
  host: MetaHost,
  caller: Caller,
  body: ResultPart,
  tokens: number,
  exceeded: ExceededLimit,
): Promise<string> {
  const stored = await host.results.keep(caller, body)
  return stored ? await describeKept(host, caller, stored, body, tokens, exceeded) : describeLost(body, tokens)
}

async function describeKept(
  host: MetaHost,
  caller: Caller,
  stored: KeptResult,
  body: ResultPart,
  tokens: number,
  exceeded: ExceededLimit,
): Promise<string> {
  const readCommand = `${readerFor(host, caller)} {"handle":"${stored.handle}"}`
  const min = Math.round((stored.until - host.now()) / 60_000)
  if (!stored.isText)
    return `[${describeBytes(stored)}, kept as ${stored.handle} for ${min} min. ${readCommand} shows how to get it.]`
  const summary = await summarize(host, caller, stored, body, tokens * 0.4)
  const count = body.count === undefined ? '' : `${formatCount(body.count, 'block')}, `
  // The limit applies to the whole result, and to the most tokens that its text can have.
  const isAbove = summary.tokens > (exceeded.tokens ?? 0)
  const relation = isAbove ? ', above the limit of' : '. The whole result may exceed the limit of'
  const ways = summary.isJson ? `path, where, select, ${WAYS}` : WAYS
  const describe = (shape: string | undefined, preview: string): string =>
    [
      `[${stored.title}: ${count}${describeSize(stored, summary)}${relation} ${exceeded.text}. Kept as ${stored.handle} for ${min} min.]`,
      ...(shape ? [`Shape: ${shape}`] : []),
      ...(preview ? ['Beginning:', preview] : []),
      `[Not all of it. Read on with ${readCommand}: page, ${ways}.]`,
    ].join('\n')
  const description = describe(summary.shape?.slice(0, Math.min(SHAPE_CHARS, tokens)), summary.preview)
  return isLongerThan(description, tokens) ? describe(undefined, '') : description
}

const WAYS = 'lines, grep, context, head, tail, sample, count'

/** A kept part of a result that holds several. */
interface KeptPart {
  readonly kept: string
  readonly size: string
  readonly shape?: string
  readonly beginning?: unknown
  readonly hint: string
}

/** Descriptions that have replaced kept parts. */
const keptParts = new WeakSet<object>()

/** A part of a result, without JSON inside JSON; one that is too long is kept, and replaced by its description. */
export async function fitPart(
  host: MetaHost,
  caller: Caller,
  title: string,
  data: unknown,
  tokens: number,
): Promise<unknown> {
  const value = parseJsonText(data)
  if (typeof value === 'object' && value !== null) {
    if (keptParts.has(value))
      return isLongerThan(JSON.stringify(value), tokens) ? withoutBeginning(value as KeptPart) : value
    // Parsing has turned escapes in the text into characters.
    if (value !== data) sanitize(value)
  }
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'null')
  if (!isLongerThan(text, tokens)) return value
  const body = { data: text, mimeType: 'text/plain', title }
  const stored = await host.results.keep(caller, body)
  if (!stored) return describeLost(body, tokens)
  const summary = await summarize(host, caller, stored, body, (tokens - PART_TOKENS) * 0.6)
  const part: KeptPart = {
    kept: stored.handle,
    size: describeSize(stored, summary),
    ...(summary.shape === undefined ? {} : { shape: summary.shape.slice(0, Math.min(SHAPE_CHARS, tokens)) }),
    ...(summary.preview === '' ? {} : { beginning: Array.isArray(value) ? rowsIn(summary.preview) : summary.preview }),
    hint: `Read it with ${readerFor(host, caller)}.`,
  }
  keptParts.add(part)
  return part
}

/** Shortens the description of a kept part, because many of them share the limit. */
const withoutBeginning = ({ kept, size, hint }: KeptPart): KeptPart => ({ kept, size, hint })

/** Tokens of the description of a kept part, without its beginning. */
const PART_TOKENS = 120

/** The same for parts that share the limit of the caller. The texts of failures are cut like others. */
export async function fitParts(
  host: MetaHost,
  caller: Caller,
  parts: readonly { readonly title: string; readonly data: unknown }[],
): Promise<readonly unknown[]> {
  const limit = Math.min(Number.MAX_SAFE_INTEGER, host.view(caller).maxResultTokens() * 0.8)
  const tokensOf = ({ data }: { readonly data: unknown }): number => maxTokensOf(JSON.stringify(data) ?? '')
  return await shareLimit(parts, limit, tokensOf, ({ title, data }, share) => fitPart(host, caller, title, data, share))
}

/** The complete rows of a list that was cut. */
function rowsIn(text: string): readonly unknown[] {
  return text
    .split('\n')
    .map(tryParseJson)
    .filter((row) => row !== undefined)
}

async function summarize(
  host: MetaHost,
  caller: Caller,
  { handle }: KeptResult,
  { data }: ResultPart,
  tokens: number,
): Promise<ResultSummary> {
  const most = Math.max(0, Math.min(PREVIEW_TOKENS, Math.floor(tokens)))
  // If the thread fails, the summary has only the beginning.
  const summary = await host.results.summarize(caller, handle, most).catch(() => {
    const text = String(data)
    const preview = text.slice(0, cutText(text, most))
    return { isJson: false, lines: text.split('\n').length, unit: 'line' as const, preview, tokens: tokensOfText(text) }
  })
  return most === 0 ? { ...summary, preview: '' } : summary
}

const describeSize = ({ bytes }: KeptResult, { lines, unit, isJson, tokens }: ResultSummary): string =>
  `${formatBytes(bytes)}, ${formatCount(lines, unit)}${isJson ? ' of JSON' : ''}, about ${formatNumber(tokens)} tokens`

const describeLost = ({ data, title, mimeType }: ResultPart, tokens: number): string => {
  const message = `[E_TOO_LARGE: ${title} returned ${formatBytes(data.length)} of ${mimeType}, which cannot be kept: the disk is full, or execution.results.maxBytes is too small. Ask for a part.]`
  return typeof data === 'string'
    ? `${message}\nBeginning:\n${data.slice(0, cutText(data, Math.min(PREVIEW_TOKENS, tokens * 0.4)))}`
    : message
}

/** How this caller calls `read_result`, which is not listed in discovery and code mode. */
function readerFor(host: MetaHost, caller: Caller): string {
  const { mode } = host.exposure(caller)
  if (mode === 'code') return 'tools.pegboard.read_result in a script,'
  return mode === 'discovery' ? 'execute_tool read_result' : 'read_result'
}

export const describeBytes = ({ title, mimeType, bytes }: KeptResult): string =>
  `${title}: ${mimeType}, ${formatBytes(bytes)}`

const UNITS = ['bytes', 'kB', 'MB', 'GB'] as const
function formatBytes(bytes: number): string {
  const unit = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
  return `${unit === 0 ? bytes : (bytes / 1_000 ** unit).toFixed(1)} ${UNITS[unit]}`
}
