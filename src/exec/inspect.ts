import type { SentFile } from '../core/context.ts'
import { PegboardError } from '../core/errors.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/failure.ts'
import { type KnownSecrets, knownSecrets } from '../core/known-secrets.ts'
import { rawBytes } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import type { ContentBlock, McpResult, ToolResult } from '../core/result.ts'
import { mayHoldSecret, REDACTED, redactSecrets, secretSpans } from '../core/secret-values.ts'
import type { Tool, Tripwire } from '../core/tool.ts'
import { guardSecrets, guardText, mayTell, type Wire } from '../core/tripwire.ts'

/** What is done about everything that leaves a tool. */
export interface Inspection {
  readonly wire: Wire | undefined
  /** Results pass, and the audit log says what they hold. */
  readonly warns?: true
  readonly secrets: KnownSecrets | undefined
}

export interface Inspections {
  /** `undefined` where nothing is done. */
  of(level: Tripwire, opaque: Tool['opaque']): Inspection | undefined
  /** Takes out what is known to be secret. */
  hide(text: string): string
  /** These are secret from now on, and no others. */
  know(values: readonly string[]): void
}

/** Failures have no use for secrets, whatever a result may have. */
const VALUES: Wire = { level: 'values', opaque: [] }

/** Nothing is made for a call that is like most. */
export function createInspections(values: readonly string[] = []): Inspections {
  let secrets = knownSecrets(values)
  const make = (): Readonly<Record<Tripwire, Inspection | undefined>> => ({
    off: secrets && { wire: undefined, secrets },
    warn: { wire: undefined, warns: true, secrets },
    redact: { wire: { level: 'redact', opaque: [] }, secrets },
    throw: { wire: { level: 'throw', opaque: [] }, secrets },
  })
  let ready = make()
  return {
    of: (level, opaque) =>
      opaque === undefined || level === 'off' || level === 'warn' ? ready[level] : { wire: { level, opaque }, secrets },
    hide: (text) => secrets?.hide(text) ?? text,
    know(values) {
      secrets = knownSecrets(values)
      ready = make()
    },
  }
}

/** What a form has are names of fields that a person fills in: no names of what is there. */
const FORM = 'requestedSchema.properties'
const FORMS = `inputRequests.*.params.${FORM}`

/** The same for what a server asks a person. The address of a page is for that person. */
export function inspectQuestion<T>(params: T, inspection: Inspection): T {
  const own = without(inspection, FORM)
  if (!isRecord(params) || params['mode'] !== 'url') return inspectValue(params, own)
  const { url, ...rest } = params
  return { ...inspectValue(rest, own), url } as T
}

const without = ({ wire, secrets }: Inspection, path: string): Inspection => ({
  wire: wire && { ...wire, opaque: [...wire.opaque, path] },
  secrets,
})

/** The result without credentials; the same one where it has none. @throws PegboardError E_SECRET_BLOCKED, E_TOO_LARGE */
export function inspect(result: ToolResult, inspection: Inspection): ToolResult {
  if (result.kind === 'value') {
    const value = inspectValue(result.value, inspection)
    if (result.files.length === 0 && result.warnings.length === 0)
      return value === result.value ? result : { ...result, value }
    const files = result.files.map((file) => inspectFile(file, inspection))
    return { ...result, value, files, warnings: result.warnings.map((one) => inspectValue(one, inspection)) }
  }
  const isFailure = result.kind === 'mcp' && result.result.isError === true
  const kept = inspectObject(result.result, isFailure ? { ...inspection, wire: inspection.wire ?? VALUES } : inspection)
  return kept === result.result ? result : ({ ...result, result: kept } as ToolResult)
}

/** The same for what a server answered; bytes in which nothing stands out are not parsed. */
export function inspectObject<T extends object>(value: T, inspection: Inspection): T {
  const { wire, secrets } = inspection
  const raw = rawBytes(value)
  if (!raw) {
    const whole = wire ? joined(value) : value
    return inspectValue(whole, 'inputRequests' in value ? without(inspection, FORMS) : inspection)
  }
  const bytes = bytesOf(raw)
  const suspect = wire !== undefined && isSuspect(bytes.toString('latin1'), value, wire)
  return suspect || secrets?.isIn(bytes) ? inspectValue(wire ? joined(value) : value, inspection) : value
}

const bytesOf = (raw: readonly Buffer[]): Buffer => (raw.length === 1 ? (raw[0] as Buffer) : Buffer.concat(raw))

/** A secret may begin in one text and end in another, which each for itself tell nothing. */
const isSuspect = (latin1: string, value: object, { level }: Wire): boolean =>
  (level !== 'values' && mayTell(latin1)) || mayHoldSecret(latin1) || textsOf(value).length > 1

const textsOf = (value: object): readonly ContentBlock[] => {
  const { content } = value as McpResult
  return Array.isArray(content)
    ? content.filter((block) => isRecord(block) && block.type === 'text' && typeof block['text'] === 'string')
    : []
}

/** A result without secrets that are split between texts beside each other; the same object where there are none. */
function joined<T extends object>(value: T): T {
  const blocks = textsOf(value)
  if (blocks.length < 2) return value
  const spans = secretSpans(blocks.map(({ text }) => text).join(''))
  if (spans.length === 0) return value
  let from = 0
  const changed = new Map<ContentBlock, string>()
  for (const block of blocks) {
    const text = String(block['text'])
    let kept = ''
    let at = 0
    for (const { start, end } of [...spans].sort((a, b) => a.start - b.start)) {
      const [first, last] = [Math.max(start - from, at), Math.min(end - from, text.length)]
      if (first >= last) continue
      kept += text.slice(at, first) + REDACTED
      at = last
    }
    if (at > 0) changed.set(block, kept + text.slice(at))
    from += text.length
  }
  const content = ((value as McpResult).content ?? []).map((block) =>
    changed.has(block) ? { ...block, text: changed.get(block) } : block,
  )
  return { ...value, content }
}

/** What kinds of secrets a result holds, for the operator. Does not recurse on the call stack. */
export function secretsIn(result: object): readonly string[] {
  const raw = rawBytes(result)
  if (raw) return kindsOf(bytesOf(raw).toString('latin1'))
  const found = new Set<string>()
  const open: unknown[] = [result]
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value === 'string') for (const kind of kindsOf(value)) found.add(kind)
    if (typeof value !== 'object' || value === null) continue
    for (const key of Object.keys(value)) open.push(key, (value as Readonly<Record<string, unknown>>)[key])
  }
  return [...found].sort()
}

const kindsOf = (text: string): readonly string[] => [...new Set(secretSpans(text).map(({ name }) => name))].sort()

/** What a server says of a failure, or writes to a log, without values that look like secrets. */
export const inspectSaid = <T>(value: T): T => guardSecrets(value, VALUES)

export function inspectValue<T>(value: T, { wire, secrets }: Inspection): T {
  const hidden = secrets ? secrets.hideIn(value) : value
  return wire ? guardSecrets(hidden, wire) : hidden
}

/** A failure as a client may read it. */
export function inspectFailure(
  failure: PegboardError,
  inspection: Pick<Inspection, 'wire' | 'secrets'>,
): PegboardError {
  const { code, retryable, retryAfterMs } = failure
  const { secrets, wire = VALUES } = inspection
  const hide = (text: string): string => redactSecrets(secrets?.hide(text) ?? text)
  const message = hide(failure.message)
  const hint = hide(failure.hint)
  const data = inspectValue(failure.data, { secrets, wire })
  // An upstream's own error may be the answer.
  const cause = isProtocolFailure(failure.cause)
    ? new ProtocolFailure(
        failure.cause.code,
        hide(failure.cause.message),
        inspectValue(failure.cause.data, { secrets, wire }),
      )
    : failure.cause
  const isSame = message === failure.message && hint === failure.hint && data === failure.data
  if (isSame && cause === failure.cause) return failure
  const made = new PegboardError(code, message, {
    hint,
    retryable,
    data,
    ...(retryAfterMs === null ? {} : { retryAfterMs }),
    ...(cause === undefined ? {} : { cause }),
  })
  if (failure.correlationId !== undefined) made.correlationId = failure.correlationId
  return made
}

const TEXT = /^text\/|[/+]json\b/

/** The same for a file that goes with one: of text alone. */
export function inspectFile<File extends SentFile>(file: File, { wire, secrets }: Inspection): File {
  if (typeof file.data !== 'string' && !TEXT.test(file.mimetype)) return file
  const before = typeof file.data === 'string' ? file.data : Buffer.from(file.data).toString()
  const hidden = secrets?.hide(before) ?? before
  const text = wire ? guardText(hidden, wire) : hidden
  return text === before ? file : { ...file, data: text }
}
