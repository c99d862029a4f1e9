import type { FindingLevel } from './finding.ts'

/** A set, or the keys of a map. */
export type NameSet = Pick<ReadonlySet<string>, 'has'>

/** The tools that exist besides the one that is checked. */
export interface KnownToolNames {
  /** Names of tools of the same server. */
  readonly ownNames: NameSet
  /** True if a text may mean another owner's tool by this spelling, which is normalized or lower case. */
  isOther(spelling: string): boolean
  /** The definition's own parameter names and values, which a text may mean by the same words. */
  readonly words?: (() => NameSet) | undefined
  /** Called with each mention of a missing tool, in every spelling that `isOther` could get. */
  readonly onUnknownTool?: ((spelling: string) => void) | undefined
}

/** A sentence that mentions another tool, at the position of its name. */
export interface Mention {
  /** `doubt` if it says how to use that tool, `note` if it only says when. */
  readonly level: FindingLevel
  readonly name: string
  readonly start: number
  readonly length: number
}

// Where two words are joined as in names: send_mail, mail.send, mail::send, sendMail. Tested first, because few texts
// contain any.
const JOINT = /[-_./:](?=[A-Za-z0-9])|(?<=[a-z])[A-Z]/g
const COMPOUND = /[./:]|__/
const TOOL_SHAPED = /[A-Za-z0-9][-_.:/]+[A-Za-z0-9]|[a-z][A-Z]/
const MAX_NAME_LENGTH = 200
const MAX_PIECES = 12

/** True if a name is spelled like a tool and not like a word: `send_mail`, `sendMail`, `mail.send`. */
export const isToolShaped = (name: string): boolean => TOOL_SHAPED.test(name)

/** Normalizes the ways to join owner and name: mail__send, mail:send and mail/send become mail.send. */
export const normalizeName = (name: string): string => unifySeparators(name).toLowerCase()

const splitName = (name: string): string[] => unifySeparators(name).split('.', MAX_PIECES)

const unifySeparators = (name: string): string => (COMPOUND.test(name) ? name.replaceAll(/[./:]+|_{2,}/g, '.') : name)

// A line break ends a sentence if the next line starts like a list item, unless the sentence is incomplete.
const SENTENCE_ENDS =
  /(?<!\b(?:e\.g|i\.e))[.!?](?=\s)|(?<![,;:][ \t\r]{0,4})\n[ \t]{0,40}(?=[-*•A-Z\d]|\w{1,40}:)|\n[ \t\r]{0,40}\n/g
const MAX_SENTENCE = 400

const INSISTS =
  /\b(?:must|shall|should|ought|always|never|(?:has|have|having|needs?) to|required?|first|instead|do(?:es)? not|don['’]t|cannot|rather than|prefer|avoid|stop|ignore|disregard|no longer|deprecated|obsolete|replaces|supersedes|overrides?)\b/i
const ALTERS =
  /\b(?:change|set|add|replace|b?cc|recipients?|forward|pass|send|upload|transmit|exfiltrate|post|copy|leak|append|prepend|include|embed|insert|modify|alter|redirect|rewrite|substitute|remove|omit|skip|drop|put|fill|make|ensure|remember)\b/i
const CALLS = /\b(?:call|use|invoke|run|execute|try)\b/i
const IN_ORDER = /\b(?:before|prior to|ahead of|after|afterwards|in place of|until|unless)\b/i
const CALLS_IT =
  /(?<!\b(?:can|may|could|might|to|you|they|we|that|which|who|not)\s)\b(?:call|use|invoke|run|execute)\s+(?:the\s+)?[`"'“‘]?$/i
const ABOUT_USE =
  /\b(?:before|prior to|when(?:ever)?|after|instead of|each time|every time)\s+(?:you\s+|the (?:user|assistant|model|agent)\s+)?(?:us(?:e|es|ing)|call(?:s|ing)?|invok(?:e|es|ing)|run(?:s|ning)?|execut(?:e|es|ing))\s+(?:the\s+|any\s+)?[`"'“‘]?$/i
/** Verbs that have something sent elsewhere. */
export const SENDING_VERB = /\b(?:send|upload|forward|transmit|exfiltrate|post|copy|leak|pass|append|include|embed)\b/i
const COMPARES =
  /\b(?:like|similar(?:ly)? to|same as|as (?:with|in|for|does)|unlike|equivalent (?:to|of)|compar(?:ed|able) (?:to|with)|alternative to|see(?: also)?|cf\.?)\s+(?:the\s+)?[`"'“‘]?$/i
// Verbs used for tools, not for values.
const OF_TOOLS = /\b(?:call(?:s|ed|ing)?|invok(?:es?|ed|ing)|execut(?:es?|ed|ing)|tools?|b?cc|recipients?)\b/i
// GitHub and YouTube are spelled like some tools, so such a name needs a verb that is used for tools.
const PROPER = /^[A-Z][a-z\d]*[A-Z][A-Za-z\d]*$/
const TOOL_COMES =
  /(?:[`"'“‘]|\b(?:call(?:s|ed|ing)?|invok(?:es?|ed|ing)|execut(?:es?|ed|ing)|recipients? (?:of|for|in))\s+(?:the\s+)?)$/i
const TOOL_WAS =
  /^(?:\(|\s+(?:tool|(?:(?:is|are|be|being|gets?|must|should|shall|has|have|to|will|always|never)\s+){1,4}(?:call|invok|execut|us|run)))/i

// "When using multipart/form-data, send …" is not about a tool.
const MEDIA_TYPE = /^(?:application|audio|font|image|message|multipart|text|video)\//i

/** Finds the worst mentions of other owners' tools in a text, at most one per level. */
export function findMentions(text: string, context: KnownToolNames): Mention[] {
  let firstNote: Mention | undefined
  JOINT.lastIndex = 0
  while (JOINT.test(text)) {
    const jointIndex = JOINT.lastIndex - 1
    const start = startOfName(text, jointIndex)
    // A dot or dash before a word joins nothing.
    if (start === jointIndex) continue
    const end = endOfName(text, jointIndex)
    JOINT.lastIndex = end
    const name = text.slice(start, end)
    const level = levelOf(text, name, start, context)
    if (level === undefined) continue
    const mention = { level, name, start, length: name.length }
    if (level === 'doubt') return firstNote ? [mention, firstNote] : [mention]
    firstNote ??= mention
  }
  return firstNote ? [firstNote] : []
}

interface Sentence {
  readonly whole: string
  readonly before: string
  /** Includes the name itself. */
  readonly after: string
}

function sentenceAround(text: string, at: number): Sentence {
  const preceding = text.slice(Math.max(0, at - MAX_SENTENCE), at)
  let start = 0
  SENTENCE_ENDS.lastIndex = 0
  while (SENTENCE_ENDS.test(preceding)) start = SENTENCE_ENDS.lastIndex
  const following = text.slice(at, at + MAX_SENTENCE)
  SENTENCE_ENDS.lastIndex = 0
  const end = SENTENCE_ENDS.exec(following)?.index
  const before = preceding.slice(start)
  const after = following.slice(0, end)
  return { whole: before + after, before, after }
}

function levelOf(text: string, name: string, at: number, context: KnownToolNames): FindingLevel | undefined {
  const owner = ownerOfName(name, context)
  if (owner === 'own') return undefined
  // Nobody is known to have this tool, but only tools are spelled with an owner and said to be called.
  if (!owner) {
    reportUnknownTool(text, name, at, context)
    return /[.:/]/.test(name) &&
      !MEDIA_TYPE.test(name) &&
      ABOUT_USE.test(text.slice(Math.max(0, at - 80), at)) &&
      SENDING_VERB.test(sentenceAround(text, at).after)
      ? 'doubt'
      : undefined
  }
  const { whole, before, after } = sentenceAround(text, at)
  if (PROPER.test(name) && !TOOL_COMES.test(before) && !TOOL_WAS.test(after.slice(name.length))) return undefined
  const isAboutUse = ABOUT_USE.test(before)
  const isOrdered = CALLS_IT.test(before)
  const isSteered =
    isOrdered ||
    INSISTS.test(whole) ||
    ALTERS.test(COMPARES.test(before) ? after : whole) ||
    (CALLS.test(whole) && IN_ORDER.test(whole))
  if (!isSteered) return isAboutUse ? 'note' : undefined
  const isSaidOfTools = isOrdered || isAboutUse || OF_TOOLS.test(whole)
  return !isSaidOfTools && context.words?.().has(owner.other) ? 'note' : 'doubt'
}

/** Whose tool a name, or a part of it, means: `mail__send_mail`, `mcp.mail.send_mail`, `send_mail.bcc`. */
function ownerOfName(
  name: string,
  { ownNames, isOther }: KnownToolNames,
): 'own' | { readonly other: string } | undefined {
  if (ownNames.has(name)) return 'own'
  if (isOther(normalizeName(name))) return { other: name }
  return COMPOUND.test(name) && !name.includes('://') ? ownerOfNamePart(name, { ownNames, isOther }) : undefined
}

function ownerOfNamePart(name: string, { ownNames, isOther }: KnownToolNames): ReturnType<typeof ownerOfName> {
  const isOtherTool = (spelling: string): boolean => isToolShaped(spelling) && isOther(spelling.toLowerCase())
  const pieces = splitName(name)
  let owner: 'own' | undefined
  for (const [index, piece] of pieces.entries()) {
    const pair = index + 1 < pieces.length ? `${piece}.${pieces[index + 1]}` : piece
    if (ownNames.has(pair) || ownNames.has(piece)) owner = 'own'
    else if (isOtherTool(pair)) return { other: pair }
    else if (isOtherTool(piece)) return { other: piece }
  }
  return owner
}

const CONTEXT_LENGTH = 80
const AS_TOOLS = /\b(?:call|us(?:e|ing)|invo[ck]|run|execut|try|tools?\b|b?cc\b|recipient)/i

function reportUnknownTool(text: string, name: string, at: number, { onUnknownTool }: KnownToolNames): void {
  if (!onUnknownTool || name.includes('://')) return
  if (!AS_TOOLS.test(text.slice(Math.max(0, at - CONTEXT_LENGTH), at + name.length + CONTEXT_LENGTH))) return
  const pieces = splitName(name).filter(isToolShaped)
  for (const spelling of new Set([normalizeName(name), ...pieces.map((piece) => piece.toLowerCase())]))
    onUnknownTool(spelling)
}

function startOfName(text: string, at: number): number {
  let start = at
  for (let i = at - 1; i >= 0 && at - i < MAX_NAME_LENGTH && isNameCharacter(text.charCodeAt(i)); i--)
    if (isAlphanumeric(text.charCodeAt(i))) start = i
  return start
}

function endOfName(text: string, at: number): number {
  let end = at
  for (let i = at; i - at < MAX_NAME_LENGTH && isNameCharacter(text.charCodeAt(i)); i++)
    if (isAlphanumeric(text.charCodeAt(i))) end = i + 1
  return end
}

const isAlphanumeric = (code: number): boolean =>
  (code >= 97 && code <= 122) || (code >= 48 && code <= 57) || (code >= 65 && code <= 90)
/** Letters, digits and `-./:_`. */
const isNameCharacter = (code: number): boolean =>
  isAlphanumeric(code) || (code >= 45 && code <= 47) || code === 58 || code === 95
