const MAX_CLAUSES = 7
/** Two sentences are often one need and a question about it. */
const MIN_CLAUSES = 3
const MIN_WORDS = 3
/** Ends of sentences, semicolons, and words between steps. Commas also separate the parts of one need. */
const BORDER =
  /[.;!?]+\s+|[。！？；]\s*|\s*,?\s+(?:additionally|after that|and also|and then|as well as|finally|then)\s+/i

/** The clauses of a long prompt, at most seven; empty if there are fewer than three. */
export function clausesOf(prompt: string): readonly string[] {
  const clauses = prompt
    .split(BORDER)
    .map((clause) => clause.trim())
    .filter((clause) => clause.split(/\s+/).length >= MIN_WORDS)
  return clauses.length < MIN_CLAUSES ? [] : clauses.slice(0, MAX_CLAUSES)
}
