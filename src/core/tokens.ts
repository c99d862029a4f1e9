/**
 * Estimated model tokens of a text. Four bytes a token is what JSON of tool definitions measures
 * to within ten percent with o200k; CJK counts a token a character.
 */
export function estimateTokens(text: string): number {
  let wide = 0
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x2e7f) wide++
  return Math.ceil((text.length - wide) / 4 + wide)
}
