/** SQL LIKE, ignoring case. Without backtracking: each `%` is matched once, from left to right. */
export function isLike(text: string, pattern: string): boolean {
  const [characters, patternCharacters] = [[...text.toLowerCase()], [...pattern.toLowerCase()]]
  let [position, patternPosition, percent, retryFrom] = [0, 0, -1, 0]
  while (position < characters.length)
    if (patternCharacters[patternPosition] === '%') [percent, retryFrom] = [patternPosition++, position]
    else if (patternCharacters[patternPosition] === '_' || patternCharacters[patternPosition] === characters[position])
      [position, patternPosition] = [position + 1, patternPosition + 1]
    else if (percent >= 0) [position, patternPosition] = [++retryFrom, percent + 1]
    else return false
  return patternCharacters.slice(patternPosition).every((one) => one === '%')
}
