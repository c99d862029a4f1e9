const MAX_READ = 2_000
/** Line breaks before a blank line, a list item, a heading, an emoji or a label such as `Args:`. Others only wrap. */
const BREAK = /\n\s*(?:\n|(?=[-*#•<]|\d+[.)]\s|\p{Extended_Pictographic}|\p{Lu}[\p{L} ]{0,30}:))/u
const END = /(?<!\b(?:e\.g|i\.e|cf|vs|\d+))[.!?](?:\s|$)|[。！？]/
/** Tags, list marks, brackets, emoji, and the server's name: `Notion | Retrieve a page`. */
const LEAD = /^(?:<[\w-]+>|[^\p{L}\p{N}"'`$“]|\d+[.)]\s+|\p{L}[\w .-]{0,23} \| )+/u
/** Labels, warnings, and what is the same for all tools of a server. */
const SAYS_LITTLE =
  /^[^ ]+(?: [^ ]+){0,2}:$|^[^ ]+$|^(?:caution|important|mandatory|note|required|warning)\b[\]:!]|^(?:always|never|do not|don't|only) |^[\p{L} ]{0,40}\bwarning:|\bthis is (?:the|an?)\b.*\bAPI\b/iu

/** A cut at the end of a clause keeps at least this share of `max`. Otherwise, the sentence is cut at a word. */
const MIN_SHARE = 0.6
/** Where a sentence can end early: after punctuation, or before a word that begins another phrase. */
const CLAUSE =
  /[,;:](?= )| [-–—(]| (?=(?:and|as|by|for|from|in|including|or|so|that|to|using|via|when|which|while|with)\b)/g

/** The first sentence that describes what something does, cut after a clause or a word if it is longer than `max`. */
export function firstSentence(text: string, max: number): string {
  const sentences = text.slice(0, MAX_READ).split(BREAK).flatMap(sentencesOf)
  const sentence = sentences.find((sentence) => !SAYS_LITTLE.test(sentence)) ?? sentences[0] ?? ''
  if (sentence.length <= max) return sentence
  const cut = sentence.slice(0, max - 1)
  const clause = [...sentence.slice(0, max).matchAll(CLAUSE)].at(-1)?.index ?? 0
  const end = clause > max * MIN_SHARE ? clause : cut.lastIndexOf(' ')
  return `${end > max / 2 ? cut.slice(0, end) : cut}…`
}

function sentencesOf(part: string): string[] {
  const found: string[] = []
  for (let rest = part.replaceAll('**', '').replaceAll(/\s+/g, ' ').trim(); rest !== ''; ) {
    const line = rest.replace(LEAD, '') || rest
    const end = line.search(END)
    found.push(end >= 0 ? line.slice(0, end + 1) : line)
    rest = end >= 0 ? line.slice(end + 1).trim() : ''
  }
  return found
}
