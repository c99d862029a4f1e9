import type { Readable } from 'node:stream'
import { ToolError } from 'pegboard'

/** Bytes of one row that are waited for. */
const MOST = 32 * 1024 * 1024

export const tooLarge = (cause?: unknown): ToolError =>
  new ToolError('A row of the answer is too large to be held, and the statement was ended.', {
    code: 'E_TOO_LARGE',
    retryable: false,
    hint: 'Ask for a part of the value: substr, left, fewer columns.',
    ...(cause !== undefined && { cause }),
  })

/** Looks how much arrives of one row, which drivers give only when it is there whole. `next` is told of each that is. */
export function rowGuard(stream: Readable, tooMuch: () => void): { next(): void; stop(): void } {
  let arrived = 0
  const count = (piece: Buffer): void => {
    arrived += piece.length
    if (arrived <= MOST) return
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
