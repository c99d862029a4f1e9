import type { SentFile } from '../core/context.ts'
import { type PegboardError, sentences } from '../core/errors.ts'
import type { ContentBlock, McpResult, ToolResult } from '../core/result.ts'

/** A run's end as an MCP tool result (or an `input_required` one, which has the same route). */
export function toMcpResult(result: ToolResult): McpResult {
  if (result.kind === 'mcp') return relayed(result.result)
  if (result.kind === 'input_required') return result.result as McpResult
  const { value } = result
  const structured =
    typeof value === 'object' && value !== null && !Array.isArray(value) ? { structuredContent: value } : {}
  return {
    content: [
      { type: 'text', text: typeof value === 'string' ? value : (JSON.stringify(value ?? null) ?? 'null') },
      ...result.files.map(fileBlock),
      ...result.warnings.map((warning) => ({ type: 'text', text: `Warning: ${warning}` })),
    ],
    ...structured,
  }
}

// What one hop says about itself is not the next hop's business.
const HOP_LOCAL = ['resultType', 'ttlMs', 'cacheScope'] as const
/** Where the structured part of an error is when it cannot be structured content. */
const ERROR_META = 'pegboard/error'
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
    content: [{ type: 'text', text: `${error.code}: ${sentences(error.message, error.hint)}` }],
    ...(promised ? { _meta: { [ERROR_META]: structured } } : { structuredContent: structured }),
    isError: true,
  }
}

function fileBlock(file: SentFile): ContentBlock {
  const bytes = typeof file.data === 'string' ? Buffer.from(file.data) : Buffer.from(file.data)
  if (file.mimetype.startsWith('image/'))
    return { type: 'image', data: bytes.toString('base64'), mimeType: file.mimetype }
  if (file.mimetype.startsWith('audio/'))
    return { type: 'audio', data: bytes.toString('base64'), mimeType: file.mimetype }
  const uri = file.fileUrl ?? `sentfile:///${encodeURIComponent(file.filename)}`
  const text = file.mimetype.startsWith('text/') || file.mimetype === 'application/json'
  return {
    type: 'resource',
    resource: {
      uri,
      mimeType: file.mimetype,
      ...(text ? { text: bytes.toString('utf8') } : { blob: bytes.toString('base64') }),
    },
  }
}
