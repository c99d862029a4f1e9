import { isUtf8 } from 'node:buffer'
import type { Caller, SentFile } from '../core/context.ts'
import { type PegboardError, sentences } from '../core/errors.ts'
import type { ContentBlock, McpResult, ToolResult } from '../core/result.ts'
import { OWN_META, withoutNotices } from '../core/sanitize.ts'
import { bytesOf } from '../services/sent-files.ts'
import type { FileOutlet } from './host.ts'

/** A run's end as an MCP tool result (or an `input_required` one, which has the same route). */
export function toMcpResult(result: ToolResult, outlet: FileOutlet, caller: Caller): McpResult {
  if (result.kind === 'mcp') return relayed(result.result)
  if (result.kind === 'input_required') return result.result as McpResult
  const { value } = result
  const structured =
    typeof value === 'object' && value !== null && !Array.isArray(value) ? { structuredContent: value } : {}
  return {
    content: [
      {
        type: 'text',
        text: typeof value === 'string' ? withoutNotices(value) : (JSON.stringify(value ?? null) ?? 'null'),
      },
      ...result.files.flatMap((file) => fileBlocks(file, outlet, caller)),
      ...result.warnings.map((warning) => ({ type: 'text', text: `Warning: ${warning}` })),
    ],
    ...structured,
  }
}

// What one hop says about itself is not the next hop's business.
const HOP_LOCAL = ['resultType', 'ttlMs', 'cacheScope'] as const
/** Where the structured part of an error is when it cannot be structured content. */
const ERROR_META = `${OWN_META}error`
const SERVER_INFO = 'io.modelcontextprotocol/serverInfo'

/** An upstream's result with what belonged to its own hop taken off; everything else is untouched. */
export function relayed<R extends Readonly<Record<string, unknown>>>(result: R): R {
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
 * A refusal as a tool result: the model reads the text, programs the structured part.
 * @param promised the tool was listed with an output schema. Clients of the 2025 era hold errors to it as well, so the
 *   structured part then goes into `_meta`
 */
export function toErrorResult(error: PegboardError, promised: boolean): McpResult {
  const structured = {
    success: false,
    error: {
      code: error.code,
      message: error.message,
      hint: error.hint,
      retryable: error.retryable,
      retryAfterMs: error.retryAfterMs,
      correlationId: error.correlationId ?? null,
    },
    ...(error.data === undefined ? {} : { data: error.data }),
  }
  return {
    content: [
      { type: 'text', text: `${error.code}: ${sentences(error.message, error.hint)}` },
      // What came of it all the same, such as the output of a command: most clients show models nothing but text.
      ...(error.data === undefined ? [] : [{ type: 'text', text: JSON.stringify(error.data) }]),
    ],
    ...(promised ? { _meta: { [ERROR_META]: structured } } : { structuredContent: structured }),
    isError: true,
  }
}

/** A file as content: its bytes, a link to read it by when they are many, and the address its sender gave. */
function fileBlocks(file: SentFile, { keep, inlineBytes }: FileOutlet, caller: Caller): ContentBlock[] {
  const { filename: name, mimetype: mimeType, fileUrl } = file
  const linked: ContentBlock[] =
    fileUrl === undefined ? [] : [{ type: 'resource_link', uri: fileUrl, name, ...(mimeType ? { mimeType } : {}) }]
  const bytes = bytesOf(file)
  if (bytes.length === 0 && fileUrl !== undefined) return linked
  const uri = keep(caller, file)
  if (bytes.length > inlineBytes || file.apart) {
    if (uri !== undefined) return [{ type: 'resource_link', uri, name, mimeType, size: bytes.length }, ...linked]
    const lost = `Warning: ${name} (${bytes.length} bytes) is too long to be sent; services.files.maxBytes is the most.`
    return [{ type: 'text', text: lost }, ...linked]
  }
  return [contentOf(bytes, file, uri ?? `sentfile:///${encodeURIComponent(name)}`), ...linked]
}

function contentOf(bytes: Buffer, { mimetype: mimeType }: SentFile, uri: string): ContentBlock {
  if (mimeType.startsWith('image/')) return { type: 'image', data: bytes.toString('base64'), mimeType }
  if (mimeType.startsWith('audio/')) return { type: 'audio', data: bytes.toString('base64'), mimeType }
  return { type: 'resource', resource: resourceOf(bytes, mimeType, uri) }
}

/** A file as a resource: text where it is some. */
export function resourceOf(bytes: Uint8Array, mimeType: string, uri: string) {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const isText = /^text\/|^application\/(?:[\w.-]+\+)?(?:json|xml|yaml)\b/.test(mimeType) && isUtf8(buffer)
  return { uri, mimeType, ...(isText ? { text: buffer.toString('utf8') } : { blob: buffer.toString('base64') }) }
}
