/** SQL LIKE, ignoring case. Without backtracking: each `%` is matched once, from left to right. */
export function isLike(text: string, pattern: string): boolean {
  const [letters, wanted] = [[...text.toLowerCase()], [...pattern.toLowerCase()]]
  let [at, want, any, from] = [0, 0, -1, 0]
  while (at < letters.length)
    if (wanted[want] === '%') [any, from] = [want++, at]
    else if (wanted[want] === '_' || wanted[want] === letters[at]) [at, want] = [at + 1, want + 1]
    else if (any >= 0) [at, want] = [++from, any + 1]
    else return false
  return wanted.slice(want).every((one) => one === '%')
}
