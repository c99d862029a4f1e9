/** Characters that are invisible or that change how others appear. An ordinary space is not one of them. */
const HIDDEN = /(?! )[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\u27E8\u27E9]/gu

/** A run of white space in JSON, or any other escape, which is matched so that `\\n` is not read as a line break. */
const BLANKS = /((?:[\p{Z}\u2800]|\\[nrt]){17,})|\\[^u]/gu

/**
 * Writes every invisible character as `\u{202E}`. `⟨` and `⟩` are written that way too, because `⟨3000 spaces⟩`
 * stands for omitted white space.
 */
export const visibleText = (text: string): string =>
  text.replaceAll(HIDDEN, (char) => `\\u{${(char.codePointAt(0) as number).toString(16).toUpperCase()}}`)

/** A value as indented JSON in which a person sees everything: white space is counted, invisible characters escaped. */
export const visibleJson = (value: unknown): string =>
  (JSON.stringify(value, undefined, 2) ?? 'none').split('\n').map(visibleLine).join('\n')

function visibleLine(line: string): string {
  const start = line.search(/[^ ]/)
  const content = line.slice(start)
  let visible = ''
  let end = 0
  for (const match of content.matchAll(BLANKS)) {
    const blanks = match[1]
    if (blanks === undefined) continue
    visible += visibleText(content.slice(end, match.index)) + describeBlanks(blanks)
    end = match.index + blanks.length
  }
  return line.slice(0, start) + visible + visibleText(content.slice(end))
}

function describeBlanks(blanks: string): string {
  const count = [...blanks.replaceAll(/\\./g, ' ')].length
  if (/^ +$/.test(blanks)) return `⟨${count} spaces⟩`
  return /^(?:\\n)+$/.test(blanks) ? `⟨${count} line breaks⟩` : `⟨${count} blank characters⟩`
}
