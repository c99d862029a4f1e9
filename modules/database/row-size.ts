import type { Readable } from 'node:stream'
import { ToolError } from 'pegboard'

export const MAX_ROW_BYTES = 32 * 1024 * 1024

export const tooLarge = (cause?: unknown): ToolError =>
  new ToolError('A row of the result is too large; the statement was stopped.', {
    code: 'E_TOO_LARGE',
    retryable: false,
    hint: 'Select part of the value (substr, left) or fewer columns.',
    ...(cause !== undefined && { cause }),
  })

/** Limits the size of a single row, which drivers buffer completely. Call `next` for each complete row. */
export function rowGuard(stream: Readable, tooMuch: () => void): { next(): void; stop(): void } {
  let arrived = 0
  const count = (piece: Buffer): void => {
    arrived += piece.length
    if (arrived <= MAX_ROW_BYTES) return
    stream.off('data', count)
    tooMuch()
  }
  stream.on('data', count)
  return {
    next: () => {
      arrived = 0
    },
    stop: () => void stream.off('data', count),
  }
}
