import { createInterface } from 'node:readline'
import type { Io } from './io.ts'

/** True if a person can answer. */
export const canAsk = (io: Io): boolean => io.input.isTTY === true && io.terminal?.err === true

/** Questions to a person at the terminal, one after the other. */
export interface Questions {
  /** The answer; undefined if nobody answers any more. */
  ask(question: string): Promise<string | undefined>
  close(): void
}

/** Undefined without a terminal. @param signal ends the questions, as `io.stop` does */
export function openQuestions(io: Io, signal: AbortSignal = io.stop): Questions | undefined {
  if (!canAsk(io)) return undefined
  const lines = createInterface({ input: io.input, terminal: false, signal: AbortSignal.any([signal, io.stop]) })
  // It keeps lines that arrive between two questions.
  const lineIterator = lines[Symbol.asyncIterator]()
  return {
    async ask(question) {
      io.stderr(question)
      const { value, done } = await lineIterator.next()
      return done ? undefined : value.trim()
    },
    close: () => lines.close(),
  }
}

/** One line of the person at the terminal; undefined if nobody answers. */
export async function askLine(question: string, io: Io): Promise<string | undefined> {
  const questions = openQuestions(io)
  try {
    return await questions?.ask(question)
  } finally {
    questions?.close()
  }
}

export const isYes = (answer: string | undefined): boolean => /^y(?:es)?$/i.test(answer ?? '')

export const askYes = async (question: string, io: Io): Promise<boolean> =>
  isYes(await askLine(`${question} [y/N] `, io))

/**
 * The positions that an answer such as `1,3-5`, `all` or `none` names, from 0; undefined if it names others.
 * @param fallback for an empty answer
 */
export function parseChoice(answer: string, count: number, fallback: readonly number[]): readonly number[] | undefined {
  if (answer === '') return fallback
  if (/^none$/i.test(answer)) return []
  if (/^all$/i.test(answer)) return Array.from({ length: count }, (_, index) => index)
  const chosen = new Set<number>()
  for (const part of answer.split(/[\s,]+/)) {
    const [, first, last = first] = /^(\d{1,4})(?:-(\d{1,4}))?$/.exec(part) ?? []
    if (first === undefined || Number(first) < 1 || Number(last) > count || Number(first) > Number(last))
      return undefined
    for (let index = Number(first); index <= Number(last); index++) chosen.add(index - 1)
  }
  return [...chosen].sort((a, b) => a - b)
}
