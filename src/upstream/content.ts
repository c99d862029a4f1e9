import { isRecord } from './envelope.ts'

/**
 * Whether clients can read the content of a result: absent, or a list of blocks that each say what they are. Clients drop a
 * whole result for one bad block, and their message names nobody. Kinds of blocks nobody knows yet may pass.
 */
export const isContent = (content: unknown): boolean =>
  content === undefined || (Array.isArray(content) && content.every(isBlock))

const isBlock = (block: unknown): boolean =>
  isRecord(block) &&
  typeof block['type'] === 'string' &&
  (block['type'] !== 'text' || typeof block['text'] === 'string')
