import { isRecord } from './is-record.ts'
import { OWN_META } from './sanitize.ts'

/** Text that begins like an error of Pegboard, after characters that are invisible or that clients strip. */
const BEGINS_AS_OURS = /^((?:[\s\p{C}\u2800\u{1D159}]|MCP error -?\d+:)*)(?=E_[A-Z][A-Z0-9_]*\s*:)/u
/** JSON text of a result that looks like an error of Pegboard. */
const IS_STRUCTURED = /^\s*\{[\s\S]*"success"\s*:\s*false/
const CODE_IN_TEXT = /("code"\s*:\s*")(?=E_[A-Z])/g
const IS_CODE = /^\s*E_[A-Z]/
const MAY_BE_OURS = /(?:\\[nrtbf]|\\u[0-9a-f]{4}|[^A-Za-z0-9_])E_[A-Z][A-Z0-9_]*\s*[":\\]/i

/** True if bytes from a server may contain something that looks like an error of Pegboard. */
export const mayImitateError = (bytes: Buffer): boolean =>
  bytes.includes('E_') && MAY_BE_OURS.test(bytes.toString('latin1'))

/** A server's error text, with the server's name before a code that could be mistaken for Pegboard's. */
export const attributeError = (server: string, text: string): string =>
  text.replace(BEGINS_AS_OURS, (_all, before: string) => `${before}${server}: `)

/**
 * Puts the server's name before the codes of its errors, in place: in tool results, task results and task errors.
 * Otherwise a server could give instructions in Pegboard's name.
 */
export function attributeErrors(server: string, answer: Readonly<Record<string, unknown>>): void {
  const { result, error } = answer
  attributeResult(server, answer)
  attributeText(server, answer, 'statusMessage')
  if (isRecord(error)) attributeText(server, error, 'message')
  if (isRecord(result)) attributeResult(server, result)
}

/** Puts the server's name before the code in the `data` of a JSON-RPC error. Deletes the server's keys that only Pegboard may write there. */
export function attributeData(server: string, data: unknown): void {
  if (!isRecord(data)) return
  for (const key of Object.keys(data)) if (key.startsWith(OWN_META)) delete (data as Record<string, unknown>)[key]
  attributeCode(server, data)
}

function attributeResult(server: string, { content, structuredContent }: Readonly<Record<string, unknown>>): void {
  if (Array.isArray(content)) for (const block of content) if (isRecord(block)) attributeText(server, block, 'text')
  if (!isRecord(structuredContent) || structuredContent['success'] !== false) return
  attributeCode(server, structuredContent)
  attributeText(server, structuredContent, 'error')
  if (isRecord(structuredContent['error'])) attributeCode(server, structuredContent['error'])
}

function attributeText(server: string, object: object, key: string): void {
  const record = object as Record<string, unknown>
  const text = record[key]
  if (typeof text !== 'string' || !text.includes('E_')) return
  const attributed = IS_STRUCTURED.test(text)
    ? text.replaceAll(CODE_IN_TEXT, (_all, before: string) => `${before}${JSON.stringify(server).slice(1, -1)}: `)
    : attributeError(server, text)
  if (attributed !== text) record[key] = attributed
}

function attributeCode(server: string, object: object): void {
  const record = object as Record<string, unknown>
  const { code } = record
  if (typeof code === 'string' && IS_CODE.test(code)) record['code'] = `${server}: ${code}`
}
