import { z } from 'pegboard'

const describeMissing = (name: string): string => `missing required param: ${name}`

/** A text. The error for a missing one has the words that existing agents know. */
export const anyText = (name: string) =>
  z.string({ error: ({ input }) => (input === undefined ? describeMissing(name) : undefined) })

/** The same for a text that must not be empty. */
export const requiredText = (name: string) => anyText(name).min(1, describeMissing(name))
