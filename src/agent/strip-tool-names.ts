const FENCE = /(```[\s\S]*?```)/
const IN_TICKS = /`([\w.:/-]{1,128})(?:\([^`\n]{0,200}\))?`/g
const WORD = /[A-Za-z][\w.:/-]{0,127}(?:\([^()\n]{0,200}\))?/g

/**
 * Removes tool names from an answer, because they mean nothing to the reader: "I used `weather__forecast`" becomes "I
 * used a tool". A name that is a plain word, such as `search`, is removed only in back-ticks. Code blocks stay
 * unchanged.
 * @param names of tools, in any spelling that may occur
 */
export function stripToolNames(text: string, names: Iterable<string>): string {
  const knownNames = new Set(names)
  const special = new Set([...knownNames].filter((name) => !/^[A-Za-z]+$/.test(name)))
  const prose = (part: string): string =>
    part
      .replaceAll(IN_TICKS, (all: string, name: string) => (knownNames.has(name) ? MARK : all))
      .replaceAll(WORD, (all: string) => replaceUnlessWord(all, special))
      .replaceAll(NAMED_TOOL, '$1')
      .replaceAll(ARTICLE, '$1 tool')
      .replaceAll(MARK, 'a tool')
  return text
    .split(FENCE)
    .map((part) => (part.startsWith('```') ? part : prose(part)))
    .join('')
}

/** Placeholder for a name until the surrounding words are processed. */
const MARK = '\u{F8FF}'
const NAMED_TOOL = new RegExp(`${MARK} (tools?|functions?)\\b`, 'g')
const ARTICLE = new RegExp(`\\b(the|The|a|A|an|An|this|This|that|That|my|My) ${MARK}`, 'g')

/** A full stop after a name ends the sentence; arguments after it are removed with it. */
function replaceUnlessWord(word: string, names: ReadonlySet<string>): string {
  const [name = '', rest] = word.split(/(?=\()/, 2)
  const end = /[.:/-]*$/.exec(name)?.[0] ?? ''
  const bare = name.slice(0, name.length - end.length)
  return names.has(bare) && (end === '' || rest === undefined) ? MARK + end : word
}
