/** A name that several tools or prompts want. Upper and lower case count as the same. */
export interface NameClash {
  readonly name: string
  /** Ids of the tools, or owners of the prompts, that want the name; sorted. */
  readonly ids: readonly string[]
  /** The one of `ids` that has the name; absent if none has it. The others get the name with a hash. */
  readonly kept?: string
  readonly isPrompt?: true
  /** `kept` waits for a review, or its server is not connected. */
  readonly isAway?: true
  /** The names differ only in case, so all keep their own. */
  readonly isCase?: true
  /** Another owner whose name the wanted name begins with. */
  readonly owner?: string
}

/** The clash as a sentence for the operator. */
export function clashSentence({ name, ids, kept, isCase, owner }: NameClash): string {
  const all = ids.length > 1 ? `${ids.slice(0, -1).join(', ')} and ${ids.at(-1)}` : ids[0]
  if (owner !== undefined)
    return `${all} wants the name "${name}", which begins with the name of ${owner}; it got another. Rename it, or set a prefix.`
  if (kept === undefined && ids.length > 1)
    return `${all} both want the name "${name}"; each got a different name. Rename one, or set a prefix.`
  if (kept === undefined)
    return `${all} wants the name "${name}", which is a built-in tool's; it got another. Rename it, or set a prefix.`
  if (isCase) return `${all} differ in upper and lower case only; rules about one cover both. Rename one.`
  const others = ids.length > 2 ? 'the others got names' : 'the other got a name'
  return `${all} both want the name "${name}"; ${kept} keeps it, ${others} with a hash. Rename one, or set a prefix.`
}
