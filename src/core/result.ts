import type { SentFile } from './context.ts'

/** An MCP content block; relayed as it is. */
export type ContentBlock = Readonly<Record<string, unknown>> & { readonly type: string }

/** An MCP tool result as upstream servers send it. Kept loose: what we do not know must pass through unaltered. */
export interface McpResult {
  readonly content?: readonly ContentBlock[]
  readonly structuredContent?: unknown
  readonly isError?: boolean
  readonly _meta?: Readonly<Record<string, unknown>>
  readonly [key: string]: unknown
}

/** In `_meta`: what of a result was withheld, and why. */
export const WITHHELD = 'pegboard/withheld'

/** How a run ends. */
export type ToolResult =
  /** What a module's `run` returned. */
  | {
      readonly kind: 'value'
      readonly value: unknown
      readonly files: readonly SentFile[]
      readonly warnings: readonly string[]
    }
  /** An upstream's result, relayed unchanged on every route. */
  | { readonly kind: 'mcp'; readonly result: McpResult }
  /** The upstream needs answers from the client first; the same call comes again with them. Relayed unchanged. */
  | { readonly kind: 'input_required'; readonly result: Readonly<Record<string, unknown>> }

export function valueResult(
  value: unknown,
  files: readonly SentFile[] = [],
  warnings: readonly string[] = [],
): ToolResult {
  return { kind: 'value', value, files, warnings }
}
