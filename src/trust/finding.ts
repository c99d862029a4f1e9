/**
 * `block`: kept out until a person lets it in, whatever the server. `doubt`: the same, but not for servers the operator
 * trusts always. `note`: shown in a review, keeps nothing out.
 */
export type Level = 'block' | 'doubt' | 'note'

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

/** One thing about a definition that a person should know. */
export interface Finding {
  readonly code: FindingCode
  readonly level: Level
  /** Where it stands: `description`, `inputSchema.properties.path.description`. */
  readonly where: string
  /** What it is, as the end of "it …": `has hidden Unicode tags that say "…"`. */
  readonly what: string
  /** The text around it, everything unseen escaped. */
  readonly evidence: string
}
