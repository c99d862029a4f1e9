/** A user request that can be recognized without a model. */
export interface Intent<Value> {
  readonly name: string
  /** Higher priorities are tried first; default 0. Ties are tried in the given order. */
  readonly priority?: number
  /** An expression, or a function that returns what it found; undefined and false mean no match. */
  readonly match: RegExp | ((text: string) => unknown)
  /**
   * The value for a match: an answer, the name of a tool, or anything else that the application uses. Undefined lets
   * the next intent try.
   * @param match what `match` returned; for an expression its `RegExpExecArray`
   */
  // biome-ignore lint/suspicious/noExplicitAny: what a check finds is known where the intent is written
  readonly route: (match: any, text: string) => Value | undefined
}

/** Routes a text before a model sees it. The same text always gives the same result. */
export type IntentRouter<Value> = (text: string) => { readonly intent: string; readonly value: Value } | undefined

// The list's type is kept, so that the values of all intents are inferred and not only that of the first.
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

/** Resets `lastIndex`, because `g` and `y` expressions remember their position. */
function matched(expression: RegExp, text: string): RegExpExecArray | null {
  expression.lastIndex = 0
  const found = expression.exec(text)
  expression.lastIndex = 0
  return found
}
