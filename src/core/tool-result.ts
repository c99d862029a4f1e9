import type { SentFile } from './caller.ts'

/** An MCP content block, passed on unchanged. */
export type ContentBlock = Readonly<Record<string, unknown>> & { readonly type: string }

/** An MCP tool result of an upstream server. Loosely typed, because unknown members must pass unchanged. */
export interface McpResult {
  readonly content?: readonly ContentBlock[]
  readonly structuredContent?: unknown
  readonly isError?: boolean
  readonly _meta?: Readonly<Record<string, unknown>>
  readonly [key: string]: unknown
}

/** The key in `_meta` of a result that was withheld. Servers cannot write it. */
export const WITHHELD = 'pegboard/withheld'

/** The key in `_meta` for the class of a server's failure. Servers cannot write it. */
export const FAILURE_META = 'pegboard/failure'

/** A notice. Pegboard removes its `_meta` key from everything that servers send, so that no server can forge one. */
export const noticeBlock = (line: string): ContentBlock => ({
  type: 'text',
  text: `[NOTICE] ${line}`,
  _meta: { 'pegboard/notice': true },
})

/** The outcome of a run. */
export type ToolResult =
  /** The value that a module's `run` returned. */
  | {
      readonly kind: 'value'
      readonly value: unknown
      readonly files: readonly SentFile[]
      readonly warnings: readonly string[]
      /** What the model reads instead of the value as JSON. */
      readonly text?: string
    }
  /** An upstream server's result, passed on unchanged. */
  | { readonly kind: 'mcp'; readonly result: McpResult }
  /** The upstream server needs answers from the client and expects the same call with them. Passed on unchanged. */
  | { readonly kind: 'input_required'; readonly result: Readonly<Record<string, unknown>> }

/** True for the result of a server's tool that failed. */
export const isFailedResult = (result: ToolResult): boolean => result.kind === 'mcp' && result.result.isError === true

export function valueResult(
  value: unknown,
  files: readonly SentFile[] = [],
  warnings: readonly string[] = [],
): ToolResult {
  return { kind: 'value', value, files, warnings }
}
