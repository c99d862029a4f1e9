/**
 * `block`: quarantined until a person approves, for every server. `doubt`: the same, except for servers with trust
 * mode `always`. `note`: shown in a review only.
 */
export type FindingLevel = 'block' | 'doubt' | 'note'

/** What a definition with the finding has, for people and models. Contains no text of the server. */
export const findingWords = {
  'hidden-tags': 'hidden text',
  'hidden-bidi': 'characters that change the direction of text',
  'hidden-zero-width': 'characters without width',
  'hidden-control': 'control characters',
  'hidden-private-use': 'characters without a meaning',
  'hidden-selectors': 'hidden text',
  'mixed-script-name': 'letters of several scripts in its name',
  'look-alike-name': 'a name that looks like that of another tool',
  'reserved-name': 'a reserved name',
  'cloned-tool': 'the definition of another tool',
  'instructs-other-tool': 'instructions about another tool',
  'instructs-secrecy': 'instructions to hide something from the user',
  'instructs-override': 'instructions to ignore other instructions',
  'instructs-secrets': 'instructions to read secrets',
  'instructs-order': 'instructions to call it first',
  'imitates-markup': 'an imitation of system instructions',
  'oversized-text': 'a very long text',
  'repeated-text': 'a text repeated many times',
} as const

export type FindingCode = keyof typeof findingWords

/** Something in a definition that a person should know. */
export interface Finding {
  readonly code: FindingCode
  readonly level: FindingLevel
  /** Path in the definition: `description`, `inputSchema.properties.path.description`. */
  readonly where: string
  /** Completes the sentence "it …": `has hidden Unicode tags that say "…"`. */
  readonly what: string
  /** The surrounding text, with invisible characters escaped. */
  readonly evidence: string
}
