const MOST = 7
/** Two sentences are often one need and a question about it. */
const LEAST_CLAUSES = 3
const LEAST_WORDS = 3
/** Ends of sentences, semicolons, and words between steps. Commas also separate the parts of one need. */
const BORDER =
  /[.;!?]+\s+|[。！？；]\s*|\s*,?\s+(?:additionally|after that|and also|and then|as well as|finally|then)\s+/i

/** The clauses of a long prompt, at most seven; empty if there are fewer than three. */
export function clausesOf(prompt: string): readonly string[] {
  const clauses = prompt
    .split(BORDER)
    .map((clause) => clause.trim())
    .filter((clause) => clause.split(/\s+/).length >= LEAST_WORDS)
  return clauses.length < LEAST_CLAUSES ? [] : clauses.slice(0, MOST)
}
