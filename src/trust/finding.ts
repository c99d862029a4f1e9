/**
 * `block`: quarantined until a person approves, for every server. `doubt`: the same, except for servers with trust
 * mode `always`. `note`: shown in a review only.
 */
export type FindingLevel = 'block' | 'doubt' | 'note'

export type FindingCode =
  | 'hidden-tags'
  | 'hidden-bidi'
  | 'hidden-zero-width'
  | 'hidden-control'
  | 'hidden-private-use'
  | 'hidden-selectors'
  | 'mixed-script-name'
  | 'look-alike-name'
  | 'reserved-name'
  | 'cloned-tool'
  | 'instructs-other-tool'
  | 'instructs-secrecy'
  | 'instructs-override'
  | 'instructs-secrets'
  | 'instructs-order'
  | 'imitates-markup'
  | 'oversized-text'
  | 'repeated-text'

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
