import { createInterface } from 'node:readline/promises'
import { canAsk } from './ask.ts'
import type { Io } from './io.ts'

/** Questions to a person at the terminal, one after the other. */
export interface Questions {
  /** The answer; undefined if nobody answers any more. */
  ask(question: string): Promise<string | undefined>
  close(): void
}

/** Undefined without a terminal. */
export function openQuestions(io: Io): Questions | undefined {
  if (!canAsk(io)) return undefined
  const lines = createInterface({ input: io.input, terminal: false })
  const gone = new AbortController()
  lines.once('close', () => gone.abort())
  const signal = AbortSignal.any([gone.signal, io.stop])
  // Lines that arrive between two questions would be lost.
  const waiting: string[] = []
  let take: ((line: string) => void) | undefined
  lines.on('line', (line) => {
    if (take) take(line)
    else waiting.push(line)
  })
  return {
    async ask(question) {
      io.stderr(question)
      const early = waiting.shift()
      if (early !== undefined) return early.trim()
      if (signal.aborted) return undefined
      return new Promise((resolve) => {
        const give = (line: string | undefined): void => {
          take = undefined
          signal.removeEventListener('abort', leave)
          resolve(line?.trim())
        }
        const leave = (): void => give(undefined)
        take = give
        signal.addEventListener('abort', leave)
      })
    },
    close: () => lines.close(),
  }
}

/**
 * The positions that an answer such as `1,3-5`, `all` or `none` names, from 0; undefined if it names others.
 * @param fallback for an empty answer
 */
export function parseChoice(answer: string, count: number, fallback: readonly number[]): readonly number[] | undefined {
  if (answer === '') return fallback
  if (/^none$/i.test(answer)) return []
  if (/^all$/i.test(answer)) return Array.from({ length: count }, (_, at) => at)
  const chosen = new Set<number>()
  for (const part of answer.split(/[\s,]+/)) {
    const [, first, last = first] = /^(\d{1,4})(?:-(\d{1,4}))?$/.exec(part) ?? []
    if (first === undefined || Number(first) < 1 || Number(last) > count || Number(first) > Number(last))
      return undefined
    for (let at = Number(first); at <= Number(last); at++) chosen.add(at - 1)
  }
  return [...chosen].sort((a, b) => a - b)
}
