import type { Finding, FindingCode, Level } from './finding.ts'
import { escapeInvisible } from './hidden-text.ts'
import { aboutOtherTools, CARRIES_AWAY, type Neighbours } from './steering.ts'

// Both of the following expressions contain it.
const USER = /user\b/i
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

/**
 * Finds instructions that reach beyond the tool: about other tools, about what the user sees, about earlier
 * instructions, about secrets.
 */
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

  for (const { level, name, at, length } of aboutOtherTools(text, around))
    add('instructs-other-tool', level, `gives instructions about another tool, ${JSON.stringify(name)}`, at, length)
  if (
    USER.test(text) &&
    !match(NOT_TELL, 'instructs-secrecy', 'doubt', 'tells the model to hide something from the user')
  )
    match(HIDE, 'instructs-secrecy', 'doubt', 'tells the model to hide something from the user')
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
      add('instructs-secrets', 'doubt', 'tells the model to read secrets and send them', secret.index, secret[0].length)
  }
  match(ORDER, 'instructs-order', 'note', 'wants to be called before all other tools')
  match(MARKUP, 'imitates-markup', 'note', 'imitates the markup of system instructions')
  return found
}

const excerpt = (text: string, at: number, length: number): string =>
  escapeInvisible(
    text
      .slice(Math.max(0, at - 40), at + length + 60)
      .replaceAll(/\s+/g, ' ')
      .trim(),
  )
