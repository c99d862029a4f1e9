import { isUtf8 } from 'node:buffer'
import type { Caller, SentFile } from '../core/caller.ts'
import { joinSentences, type PegboardError } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { escapeNotices, OWN_META } from '../core/sanitize.ts'
import type { Tool } from '../core/tool.ts'
import type { ContentBlock, McpResult, ToolResult } from '../core/tool-result.ts'
import { truncate } from '../core/truncate.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import { bytesOf } from '../services/sent-files.ts'
import type { BaseHost, CallHost, FileOutlet } from './server-host.ts'

export function toMcpResult(result: ToolResult, outlet: FileOutlet, caller: Caller): McpResult {
  if (result.kind === 'mcp') return removeHopData(result.result)
  if (result.kind === 'input_required') return result.result as McpResult
  const { value, text: shown = value } = result
  const structured = isRecord(value) ? { structuredContent: value } : {}
  return {
    content: [
      {
        type: 'text',
        text: typeof shown === 'string' ? escapeNotices(shown) : (JSON.stringify(value ?? null) ?? 'null'),
      },
      ...result.files.flatMap((file) => fileBlocks(file, outlet, caller)),
      ...result.warnings.map((warning) => ({ type: 'text', text: `Warning: ${warning}` })),
    ],
    ...structured,
  }
}

/**
 * The result in the form that the client's model reads. Unknown clients get both forms, and every client that knows an output
 * schema gets the structured content that it requires.
 */
export function toClientResult(
  result: ToolResult,
  host: Pick<CallHost, 'files' | 'view' | 'catalog' | 'exposure' | 'surface'>,
  request: Pick<CallRequest, 'name' | 'caller'>,
): McpResult {
  const whole = toMcpResult(result, host.files, request.caller)
  const { reads } = host.view(request.caller).limits
  if (reads === undefined || !('structuredContent' in whole)) return whole
  if (result.kind === 'value' && !hasOutputSchema(host, request)) {
    const { structuredContent: _again, ...rest } = whole
    return rest
  }
  // A server may send structured content alone, which some clients do not read.
  if (reads === 'structured' || (whole.content ?? []).length > 0) return whole
  return { ...whole, content: [{ type: 'text', text: JSON.stringify(whole.structuredContent) }] }
}

// These describe the connection to the server, not the result.
const HOP_LOCAL = ['resultType', 'ttlMs', 'cacheScope'] as const
/** Marks errors of Pegboard. Servers cannot write this key. */
const ERROR_META = `${OWN_META}error`
/** For programs. The text has the whole message. */
const MAX_MESSAGE = 1_000
const SERVER_INFO = 'io.modelcontextprotocol/serverInfo'

/** A server's result without members that describe its connection; everything else is unchanged. */
export function removeHopData<R extends Json>(result: R): R {
  const meta = result._meta
  const ownMeta = typeof meta === 'object' && meta !== null && SERVER_INFO in meta
  if (
    result.resultType === 'input_required' ||
    result.resultType === 'task' ||
    (!ownMeta && !HOP_LOCAL.some((key) => key in result))
  )
    return result
  const copy: Record<string, unknown> = { ...result }
  for (const key of HOP_LOCAL) delete copy[key]
  if (ownMeta) {
    const { [SERVER_INFO]: _theirs, ...rest } = meta as Record<string, unknown>
    if (Object.keys(rest).length > 0) copy._meta = rest
    else delete copy._meta
  }
  return copy as R
}

/**
 * A refusal as a tool result: the model reads the text, programs read the structured content.
 * @param promised the tool was listed with an output schema. 2025 clients validate errors against it as well, so the
 *   structured content then goes into `_meta`
 */
export function toErrorResult(error: PegboardError, promised: boolean): McpResult {
  const structured = {
    success: false,
    error: {
      code: error.code,
      class: error.class ?? null,
      message: truncate(error.message, MAX_MESSAGE),
      hint: error.hint,
      retryable: error.retryable,
      retryAfterMs: error.retryAfterMs,
      correlationId: error.correlationId ?? null,
    },
    ...(error.data === undefined ? {} : { data: error.data }),
  }
  return {
    content: [
      { type: 'text', text: `${error.code}: ${joinSentences(error.message, error.hint)}` },
      // Partial output, such as that of a command, as text: most clients show models nothing else.
      ...(error.data === undefined ? [] : [{ type: 'text', text: JSON.stringify(error.data) }]),
    ],
    ...(promised
      ? { _meta: { [ERROR_META]: structured } }
      : { structuredContent: structured, _meta: { [ERROR_META]: { success: false, error: structured.error } } }),
    isError: true,
  }
}

/** A file as content: its bytes, or a link if it is large, and the address that its sender gave. */
function fileBlocks(file: SentFile, { keep, inlineBytes }: FileOutlet, caller: Caller): ContentBlock[] {
  const { filename: name, mimetype: mimeType, fileUrl } = file
  const linked: ContentBlock[] =
    fileUrl === undefined ? [] : [{ type: 'resource_link', uri: fileUrl, name, ...(mimeType ? { mimeType } : {}) }]
  const bytes = bytesOf(file)
  if (bytes.length === 0 && fileUrl !== undefined) return linked
  const uri = keep(caller, file)
  if (bytes.length > inlineBytes) {
    if (uri !== undefined) return [{ type: 'resource_link', uri, name, mimeType, size: bytes.length }, ...linked]
    const lost = `Warning: ${name} (${bytes.length} bytes) exceeds services.files.maxBytes and was not sent.`
    return [{ type: 'text', text: lost }, ...linked]
  }
  return [contentOf(bytes, file, uri ?? `sentfile:///${encodeURIComponent(name)}`), ...linked]
}

function contentOf(bytes: Buffer, { mimetype: mimeType }: SentFile, uri: string): ContentBlock {
  if (mimeType.startsWith('image/')) return { type: 'image', data: bytes.toString('base64'), mimeType }
  if (mimeType.startsWith('audio/')) return { type: 'audio', data: bytes.toString('base64'), mimeType }
  return { type: 'resource', resource: resourceOf(bytes, mimeType, uri) }
}

/** A file as a resource: text if its type and bytes are text. */
export function resourceOf(bytes: Uint8Array, mimeType: string, uri: string) {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const isText = /^text\/|^application\/(?:[\w.-]+\+)?(?:json|xml|yaml)\b/.test(mimeType) && isUtf8(buffer)
  return { uri, mimeType, ...(isText ? { text: buffer.toString('utf8') } : { blob: buffer.toString('base64') }) }
}

/** Whether the client may know an output schema of the tool, also after the tool left its list. */
export function hasOutputSchema(
  host: Pick<BaseHost, 'catalog' | 'exposure' | 'surface' | 'view'>,
  { name, caller }: Pick<CallRequest, 'name' | 'caller'>,
): boolean {
  const isListed = (tool: Tool): boolean =>
    // The schema is checked first, because `exposure` keeps an entry for each session, which may have ended.
    tool.output !== undefined && host.exposure(caller).mode === 'direct' && host.view(caller).listsOutput(tool)
  const { byName, byId } = host.catalog.snapshot()
  const tool = byName.get(name) ?? byId.get(name)
  // A denied tool is answered like an unknown one.
  if (tool) return isListed(tool) && host.view(caller).hidden.get(tool.id)?.kind !== 'denied'
  if (host.exposure(caller).mode !== 'direct') return false
  const found = host.view(caller).resolve(name)
  return found.kind === 'found' && isListed(found.tool.tool)
}
