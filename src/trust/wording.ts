import type { Finding, FindingCode, Level } from './finding.ts'
import { escaped } from './hidden.ts'

/** A set, or the keys of a map. */
export type Names = Pick<ReadonlySet<string>, 'has'>

/** Which tools there are besides the one that is looked at. */
export interface Neighbours {
  /** Names of tools of the same server. */
  readonly own: Names
  /** Whether this is a spelling, in lower case, of a tool of others. Asked only when a text speaks of tools. */
  isOther(spelling: string): boolean
}

// "before using fs.read", "whenever you call `search`": the name is what follows.
const ABOUT_TOOL =
  /\b(?:before|prior to|when(?:ever)?|after|instead of|each time|every time)\s+(?:you\s+|the (?:user|assistant|model|agent)\s+)?(?:us(?:e|es|ing)|call(?:s|ing)?|invok(?:e|es|ing)|run(?:s|ning)?|execut(?:e|es|ing))\s+(?:the\s+|any\s+)?[`"'“‘]?([A-Za-z][\w-]*(?:(?:\.|::?|\/)[\w-]+)*)/gi
const TOOL_SHAPED = /[_.:/]|[a-z][A-Z]/
const CARRIES_AWAY = /\b(?:send|upload|forward|transmit|exfiltrate|post|copy|leak|pass|append|include|embed)\b/i

const NOT_TELL =
  /\b(?:do(?:n['’]?t| not)|never|without)\s+(?:ever\s+)?(?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|notify(?:ing)?|alert(?:ing)?|let(?:ting)?)\s+(?:(?:this|it|that|anything|any of this|about (?:this|it))\s+)?(?:to\s+)?the\s+user\b/i
const HIDE =
  /\b(?:hide|conceal|keep)\s+(?:this|it|these|that)(?:\s+\w+){0,3}?\s+(?:secret\s+|hidden\s+)?from\s+the\s+user\b/i

const OVERRIDE =
  /\b(?:ignore|disregard|forget|override|bypass)\s+(?:all\s+|any\s+|the\s+|your\s+|every\s+)*(?:previous|prior|earlier|preceding|above|former|existing|system)\s+(?:instructions?|prompts?|rules?|directions?|messages?|guidelines?)/gi
const QUOTE_BEFORE =
  /(?:["'`“‘«(]|\b(?:such as|like|e\.g\.|example|examples|detects?|phrases?|attempts?|to|or|and)\b)[\s:,]*(?:to\s+)?$/i

const SECRET =
  /(?:~|\$HOME|%USERPROFILE%)[/\\]\.(?:ssh|aws|cursor|claude|gnupg|config|kube|netrc)|\bid_(?:rsa|ed25519)\b|\/etc\/(?:passwd|shadow)|\bmcp\.json\b/i
const HANDS_OVER =
  /\b(?:send|upload|forward|transmit|exfiltrate|post|pass|give)\b[^.\n]{0,40}\b(?:contents?|text|body|key)\b[^\n]{0,60}?(?:~|\$HOME|%USERPROFILE%|\/etc|\bid_(?:rsa|ed25519)\b|\bmcp\.json\b)/i
const READS = /\b(?:read|open|load|cat|fetch|get|access)\b/i

const ORDER =
  /\b(?:must|always|should)\s+(?:always\s+)?(?:be\s+)?(?:call(?:ed)?|use[d]?|invoke[d]?|run)\b[^.\n]{0,60}\b(?:before|prior to|instead of)\s+(?:any|all|every)\s+other\s+(?:tools?|servers?|actions?)\b/i
const MARKUP =
  /<\/?(?:IMPORTANT|SYSTEM|system|instructions?|INSTRUCTIONS?|secret|SECRET)>|\[\/?INST\]|<\|(?:im_start|im_end|system|user|assistant)\|>/

/** Finds instructions that reach beyond the tool: at other tools, at the person's eyes, at what was said before, at secrets. */
export function findInstructions(text: string, where: string, around: Neighbours): Finding[] {
  const found: Finding[] = []
  const add = (code: FindingCode, level: Level, what: string, at: number, length: number): void => {
    if (found.some((one) => one.code === code && one.level === level)) return
    found.push({ code, level, where, what, evidence: excerpt(text, at, length) })
  }
  const match = (pattern: RegExp, code: FindingCode, level: Level, what: string): boolean => {
    const hit = pattern.exec(text)
    if (hit) add(code, level, what, hit.index, hit[0].length)
    return hit !== null
  }

  for (const hit of text.matchAll(ABOUT_TOOL)) {
    const name = hit[1] ?? ''
    const level = levelOf(name, sentenceAt(text, hit.index), around)
    if (level)
      add(
        'instructs-other-tool',
        level,
        `gives instructions about another tool, ${JSON.stringify(name)}`,
        hit.index,
        hit[0].length,
      )
  }
  if (!match(NOT_TELL, 'instructs-secrecy', 'doubt', 'tells the model to keep something from the user'))
    match(HIDE, 'instructs-secrecy', 'doubt', 'tells the model to keep something from the user')
  for (const hit of text.matchAll(OVERRIDE)) {
    const quotes = QUOTE_BEFORE.test(text.slice(Math.max(0, hit.index - 40), hit.index))
    const opens = /(?:^|[.!?:\n>]\s*|\bplease\s+)$/i.test(text.slice(Math.max(0, hit.index - 40), hit.index))
    const commands = opens && !quotes
    add(
      'instructs-override',
      commands ? 'doubt' : 'note',
      commands ? 'tells the model to ignore its instructions' : 'mentions ignoring instructions',
      hit.index,
      hit[0].length,
    )
  }
  const secret = SECRET.exec(text)
  if (secret) {
    const near = text.slice(Math.max(0, secret.index - 200), secret.index + 200)
    if ((READS.test(near) && CARRIES_AWAY.test(near)) || HANDS_OVER.test(near))
      add(
        'instructs-secrets',
        'doubt',
        'tells the model to read secrets and hand them over',
        secret.index,
        secret[0].length,
      )
  }
  match(ORDER, 'instructs-order', 'note', 'wants to be called before all other tools')
  match(MARKUP, 'imitates-markup', 'note', 'imitates the markup of system instructions')
  return found
}

function levelOf(name: string, sentence: string, { own, isOther }: Neighbours): Level | undefined {
  const bare = name.split(/\.|::?|\/|__/).at(-1) ?? name
  if (own.has(name) || own.has(bare)) return undefined
  const known = TOOL_SHAPED.test(name) && isOther(name.toLowerCase())
  const carries = CARRIES_AWAY.test(sentence)
  if (known) return carries ? 'doubt' : 'note'
  return TOOL_SHAPED.test(name) && /[.:/]/.test(name) && carries ? 'doubt' : undefined
}

function sentenceAt(text: string, at: number): string {
  const rest = text.slice(at, at + 300)
  const end = rest.search(/[.!?](?:\s|$)|\n\n/)
  return end < 0 ? rest : rest.slice(0, end)
}

const excerpt = (text: string, at: number, length: number): string =>
  escaped(
    text
      .slice(Math.max(0, at - 40), at + length + 60)
      .replaceAll(/\s+/g, ' ')
      .trim(),
  )
