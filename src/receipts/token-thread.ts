import { parentPort } from 'node:worker_threads'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { tokensOfText } from '../core/text-tokens.ts'

export interface CountRequest {
  readonly id: number
  readonly texts: readonly string[]
}

/** For each text, its tokens and what the estimate says. */
export interface CountAnswer {
  readonly id: number
  readonly counts: readonly TextTokens[]
}

export interface TextTokens {
  readonly exact: number
  readonly estimate: number
}

/** Merging takes quadratic time in the length of a word, which a server chooses. */
const MAX_PIECE = 2_000
/** Names of special tokens in a text are text. */
const PLAIN = { disallowedSpecial: new Set<string>() }

/** Tokens of a text as o200k counts them. A word longer than a piece is cut, which adds at most one token each time. */
export function countText(text: string): number {
  let sum = 0
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + MAX_PIECE)
    if (end < text.length) {
      const space = text.lastIndexOf(' ', end)
      const line = text.lastIndexOf('\n', end)
      const cut = Math.max(space, line)
      if (cut > at) end = cut
    }
    sum += countTokens(text.slice(at, end), PLAIN)
    at = end
  }
  return sum
}

// Runs only as a thread; importing it elsewhere must not start it.
parentPort?.on('message', ({ id, texts }: CountRequest) => {
  const counts = texts.map((text) => ({ exact: countText(text), estimate: tokensOfText(text) }))
  parentPort?.postMessage({ id, counts } satisfies CountAnswer)
})
