import { escapeInvisible } from './find-hidden-text.ts'
import type { Finding, FindingCode, FindingLevel } from './finding.ts'
import { findMentions, type KnownToolNames, SENDING_VERB } from './steering.ts'

const NOT_SAY =
  /\b(?:do(?:n['’]?t| not)|never)\s+(?:ever\s+)?(?:mention|reveal|disclose|say|admit)\s+(?:that|how)\s+you\b/i
/** All of the following contain it. */
const USER = /user\b/i
const NOT_TELL =
  /\b(?:do(?:n['’]?t| not)|never|without)\s+(?:ever\s+)?(?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|notify(?:ing)?|alert(?:ing)?|let(?:ting)?)\s+(?:(?:this|it|that|anything|any of this|about (?:this|it))\s+)?(?:to\s+)?the\s+user\b/i
const HIDE =
  /\b(?:hide|conceal|keep)\s+(?:this|it|these|that)(?:\s+\w+){0,3}?\s+(?:secret\s+|hidden\s+)?from\s+the\s+user\b/i
const STAYS_HIDDEN = /\b(?:stay|remain|kept?)\s+(?:hidden|secret|invisible|concealed)\s+(?:from|to)\s+the\s+user\b/i
const NOT_NOTICE =
  /\buser\s+(?:must|should|shall|may|need|does|will|can)\s*(?:not|n['’]t|never)\s+(?:notice|know\s+(?:about|of|that)|find\s+out|be\s+(?:told|informed|aware|made\s+aware))\b/i
const UNKNOWN_TO =
  /\bwithout\s+(?:the\s+user(?:['’]s\s+knowledge|\s+(?:knowing|noticing))|the\s+knowledge\s+of\s+the\s+user)\b/i
const SECRECY = [NOT_TELL, HIDE, STAYS_HIDDEN, NOT_NOTICE, UNKNOWN_TO]

const OVERRIDE =
  /\b(?:ignore|disregard|forget|override|bypass)\s+(?:all\s+|any\s+|the\s+|your\s+|every\s+)*(?:previous|prior|earlier|preceding|above|former|existing|system)\s+(?:instructions?|prompts?|rules?|directions?|messages?|guidelines?)/gi
const QUOTE_BEFORE =
  /(?:["'`“‘«(]|\b(?:such as|like|e\.g\.|example|examples|detects?|phrases?|attempts?|to|or|and)\b)[\s:,]*(?:to\s+)?$/i

const SECRET =
  /(?:~|\$HOME|%USERPROFILE%)[/\\]\.(?:ssh|aws|cursor|claude|gnupg|config|kube|netrc)|[/\\]\.(?:ssh|gnupg)[/\\]|\bid_(?:rsa|ed25519)\b|\/etc\/(?:passwd|shadow)|\bmcp\.json\b|(?<![\w.])\.env\b/gi
/** Of these, the files that have nothing but keys. Others are named in many instructions for the setup. */
const KEYS = /\.(?:ssh|aws|gnupg|netrc)\b|id_|shadow/i
const DOT_ENV = '.env'
const PUBLIC_KEY = /^[\w./\\-]{0,80}\.pub\b/i
/** Characters that are read on each side of the name of a secret. */
const AROUND = 200
/** A text that names more secrets is hostile, and takes long to read. */
const MAX_SECRETS = 100
const HANDS_OVER =
  /\b(?:send|upload|forward|transmit|exfiltrate|post|pass|give)\b[^.\n]{0,40}\b(?:contents?|text|body|key)\b[^\n]{0,60}?(?:~|\$HOME|%USERPROFILE%|\/etc|\bid_(?:rsa|ed25519)\b|\bmcp\.json\b)/i
// The following four are tested on the text directly before or after the name.
const READ_BEFORE = /\b(?:read|open|load|cat|fetch|get|access)\b[^.\n]{0,40}$/i
const FILLS_AFTER =
  /^[^\n]{0,80}\b(?:put|paste|insert|fill|add|give|provide|write|encode|pass|send|include|append)\b[^.\n]{0,40}\b(?:its|the|their)\s+(?:\w+\s+)?(?:contents?|text|output)\b/i
const CONTENT_OF =
  /\b(?:must|shall|should|set|fill|put|pass|provide|give|send|add|include|paste|insert)\b[^.\n]{0,60}\bcontents?\s+of\s+(?:the\s+)?(?:file\s+)?["'`]?\S{0,40}$/i
const ORDERED_BEFORE =
  /\b(?:before|prior to|first|also|always|must|should|please|then|make sure|needs? to|remember to)\b[^.\n]{0,60}\b(?:read|open|load|cat|fetch|access|include|copy)\b[^.\n]{0,40}$/i
const READS = /\b(?:read|open|load|cat|fetch|get|access)\b/i

const ORDER =
  /\b(?:must|always|should)\s+(?:always\s+)?(?:be\s+)?(?:call(?:ed)?|use[d]?|invoke[d]?|run)\b[^.\n]{0,60}\b(?:before|prior to|instead of)\s+(?:any|all|every)\s+other\s+(?:tools?|servers?|actions?)\b/i
const MARKUP =
  /<\/?(?:IMPORTANT|SYSTEM|system|instructions?|INSTRUCTIONS?|secret|SECRET)>|\[\/?INST\]|<\|(?:im_start|im_end|system|user|assistant)\|>/

/** Finds instructions about other tools, about what the user sees, about earlier instructions, and about secrets. */
export function findInstructions(text: string, where: string, context: KnownToolNames): Finding[] {
  const findings: Finding[] = []
  const addFinding = (code: FindingCode, level: FindingLevel, what: string, start: number, length: number): void => {
    if (findings.some((finding) => finding.code === code && finding.level === level)) return
    findings.push({ code, level, where, what, evidence: excerptOf(text, start, length) })
  }
  const search = (pattern: RegExp, code: FindingCode, level: FindingLevel, what: string): void => {
    const match = pattern.exec(text)
    if (match) addFinding(code, level, what, match.index, match[0].length)
  }

  for (const { level, name, start, length } of findMentions(text, context))
    addFinding(
      'instructs-other-tool',
      level,
      `gives instructions about another tool, ${JSON.stringify(name)}`,
      start,
      length,
    )
  for (const pattern of USER.test(text) ? [NOT_SAY, ...SECRECY] : [NOT_SAY])
    search(pattern, 'instructs-secrecy', 'doubt', 'tells the model to hide something from the user')
  for (const match of text.matchAll(OVERRIDE)) {
    const before = text.slice(Math.max(0, match.index - 40), match.index)
    const isQuoted = QUOTE_BEFORE.test(before)
    const startsSentence = /(?:^|[.!?:\n>]\s*|\bplease\s+)$/i.test(before)
    const isCommand = startsSentence && !isQuoted
    addFinding(
      'instructs-override',
      isCommand ? 'doubt' : 'note',
      isCommand ? 'tells the model to ignore its instructions' : 'mentions ignoring instructions',
      match.index,
      match[0].length,
    )
  }
  const secrets = findSecretMention(text)
  if (secrets) addFinding('instructs-secrets', secrets.level, secrets.what, secrets.start, secrets.length)
  search(ORDER, 'instructs-order', 'note', 'wants to be called before all other tools')
  search(MARKUP, 'imitates-markup', 'note', 'imitates the markup of system instructions')
  return findings
}

/**
 * Finds the worst sentence about a file with secrets: `doubt` if it tells the model to read the file or to pass it on,
 * `note` if it only mentions a file with keys.
 */
function findSecretMention(
  text: string,
): { what: string; level: FindingLevel; start: number; length: number } | undefined {
  let firstNote: ReturnType<typeof findSecretMention>
  let count = 0
  for (const { 0: file, index: start } of text.matchAll(SECRET)) {
    const { length } = file
    const after = text.slice(start + length, start + length + AROUND)
    if (PUBLIC_KEY.test(after)) continue
    const createDoubt = (what: string) => ({ what, level: 'doubt', start, length }) as const
    if (++count > MAX_SECRETS) return createDoubt('names many files with secrets')
    const before = text.slice(Math.max(0, start - AROUND), start)
    const surroundings = `${before}${file}${after}`
    const isKeys = KEYS.test(file)
    const isSent =
      file !== DOT_ENV &&
      ((READS.test(surroundings) && SENDING_VERB.test(surroundings)) || HANDS_OVER.test(surroundings))
    const isFilled = READ_BEFORE.test(before) && FILLS_AFTER.test(after)
    if (isSent || isFilled || CONTENT_OF.test(before))
      return createDoubt('tells the model to read secrets and send them')
    if (isKeys && ORDERED_BEFORE.test(before)) return createDoubt('tells the model to read a file with keys')
    if (isKeys) firstNote ??= { what: 'mentions a file with keys', level: 'note', start, length }
  }
  return firstNote
}

const excerptOf = (text: string, start: number, length: number): string =>
  escapeInvisible(
    text
      .slice(Math.max(0, start - 40), start + length + 60)
      .replaceAll(/\s+/g, ' ')
      .trim(),
  )
