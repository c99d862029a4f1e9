/** Something a user may want that needs no model to be recognised. */
export interface Intent<Value> {
  readonly name: string
  /** Higher is asked first; default 0. Equal ones are asked in the order in which they were given. */
  readonly priority?: number
  /** The words that mean it, or a check that answers with what it found; undefined and false mean no. */
  readonly match: RegExp | ((text: string) => unknown)
  /**
   * What to do: an answer, a tool to call, whatever the application makes of it. Undefined passes on to the next.
   * @param match what `match` found: of an expression its `RegExpExecArray`
   */
  // biome-ignore lint/suspicious/noExplicitAny: what a check finds is known where the intent is written
  readonly route: (match: any, text: string) => Value | undefined
}

/** Decides before the model does: the same text always goes the same way. */
export type IntentRouter<Value> = (text: string) => { readonly intent: string; readonly value: Value } | undefined

// From a list of intents as it stands, the values of all of them are inferred, where `Value` would be that of the first.
export function createIntentRouter<const Intents extends readonly Intent<unknown>[]>(
  intents: Intents,
): IntentRouter<Exclude<ReturnType<Intents[number]['route']>, undefined>>
export function createIntentRouter<Value>(intents: readonly Intent<Value>[]): IntentRouter<Value>
export function createIntentRouter<Value>(intents: readonly Intent<Value>[]): IntentRouter<Value> {
  const inOrder = intents.toSorted((a, b) => (b.priority ?? 0) - (a.priority ?? 0))
  return (text) => {
    for (const { name, match, route } of inOrder) {
      const found = match instanceof RegExp ? (matched(match, text) ?? undefined) : match(text)
      if (found === undefined || found === null || found === false) continue
      const value = route(found, text)
      if (value !== undefined) return { intent: name, value }
    }
    return undefined
  }
}

/** A `g` or `y` expression remembers where it was, which would make two equal questions differ. */
function matched(expression: RegExp, text: string): RegExpExecArray | null {
  expression.lastIndex = 0
  const found = expression.exec(text)
  expression.lastIndex = 0
  return found
}
