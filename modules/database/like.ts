/** SQL LIKE, ignoring case. Without backtracking: each `%` is matched once, from left to right. */
export function isLike(text: string, pattern: string): boolean {
  const [letters, patternLetters] = [[...text.toLowerCase()], [...pattern.toLowerCase()]]
  let [at, want, any, from] = [0, 0, -1, 0]
  while (at < letters.length)
    if (patternLetters[want] === '%') [any, from] = [want++, at]
    else if (patternLetters[want] === '_' || patternLetters[want] === letters[at]) [at, want] = [at + 1, want + 1]
    else if (any >= 0) [at, want] = [++from, any + 1]
    else return false
  return patternLetters.slice(want).every((one) => one === '%')
}
