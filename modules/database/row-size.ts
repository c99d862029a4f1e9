import type { Readable } from 'node:stream'
import { ToolError } from 'pegboard'

export const MAX_ROW_BYTES = 32 * 1024 * 1024

export const createRowTooLargeError = (cause?: unknown): ToolError =>
  new ToolError('A row of the result is too large; the statement was stopped.', {
    code: 'E_TOO_LARGE',
    retryable: false,
    hint: 'Select part of the value (substr, left) or fewer columns.',
    ...(cause !== undefined && { cause }),
  })

/** Limits the size of a single row, which drivers buffer completely. Call `next` for each complete row. */
export function limitRowSize(stream: Readable, onTooLarge: () => void): { next(): void; stop(): void } {
  let bytes = 0
  const countBytes = (chunk: Buffer): void => {
    bytes += chunk.length
    if (bytes <= MAX_ROW_BYTES) return
    stream.off('data', countBytes)
    onTooLarge()
  }
  stream.on('data', countBytes)
  return {
    next: () => {
      bytes = 0
    },
    stop: () => void stream.off('data', countBytes),
  }
}
