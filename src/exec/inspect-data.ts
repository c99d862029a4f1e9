import type { SentFile } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import { type KnownSecrets, knownSecrets } from '../core/known-secrets.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import { type Pieces, rawBytes } from '../core/raw-result.ts'
import { MAX_PLACE, mayHoldSecret, REDACTED, redactSecrets, secretSpans } from '../core/secret-values.ts'
import type { Tool, Tripwire } from '../core/tool.ts'
import type { ContentBlock, McpResult, ToolResult } from '../core/tool-result.ts'
import { guardSecrets, guardText, mayNameCredential, type TripwireLevel } from '../core/tripwire.ts'

/** How results of tools are checked for secrets. */
export interface Inspection {
  readonly tripwire: TripwireLevel | undefined
  /** Results pass unchanged, and the audit log lists the kinds of secrets. */
  readonly warns?: true
  readonly secrets: KnownSecrets | undefined
}

export type Inspections = ReturnType<typeof createInspections>

/** Secrets are removed from errors even if the level allows them in results. */
const VALUES: TripwireLevel = { level: 'values', opaque: [] }

/** Creates one inspection for each level, which most calls share. */
export function createInspections(values: readonly string[]) {
  let secrets = knownSecrets(values)
  const createForLevels = (): Readonly<Record<Tripwire, Inspection | undefined>> => ({
    off: secrets && { tripwire: undefined, secrets },
    warn: { tripwire: undefined, warns: true, secrets },
    redact: { tripwire: { level: 'redact', opaque: [] }, secrets },
    throw: { tripwire: { level: 'throw', opaque: [] }, secrets },
  })
  let byLevel = createForLevels()
  return {
    /** `undefined` if nothing is checked. */
    of: (level: Tripwire, opaque: Tool['opaque']): Inspection | undefined =>
      opaque === undefined || level === 'off' || level === 'warn'
        ? byLevel[level]
        : { tripwire: { level, opaque }, secrets },
    hide: (text: string): string => secrets?.hide(text) ?? text,
    setSecrets(values: readonly string[]): void {
      secrets = knownSecrets(values)
      byLevel = createForLevels()
    },
  }
}

/** A form contains names of fields that the person fills in, not names of secrets. */
const FORM = 'requestedSchema.properties'
const FORMS = `inputRequests.*.params.${FORM}`

/** As `inspect`, for a question of a server to a person. The URL of a page stays unchanged, because the person opens it. */
export function inspectQuestion<T>(params: T, inspection: Inspection): T {
  const formInspection = addOpaquePath(inspection, FORM)
  if (!isRecord(params) || params['mode'] !== 'url') return inspectValue(params, formInspection)
  const { url, ...rest } = params
  return { ...inspectValue(rest, formInspection), url } as T
}

const addOpaquePath = ({ tripwire, secrets }: Inspection, path: string): Inspection => ({
  tripwire: tripwire && { ...tripwire, opaque: [...tripwire.opaque, path] },
  secrets,
})

/**
 * The result without credentials; the same object if it has none. @throws PegboardError E_SECRET_BLOCKED, E_TOO_LARGE
 */
export function inspect(result: ToolResult, inspection: Inspection): ToolResult {
  if (result.kind === 'value') {
    const value = inspectValue(result.value, inspection)
    if (result.files.length === 0 && result.warnings.length === 0)
      return value === result.value ? result : { ...result, value }
    const files = result.files.map((file) => inspectFile(file, inspection))
    return { ...result, value, files, warnings: result.warnings.map((one) => inspectValue(one, inspection)) }
  }
  const isFailure = result.kind === 'mcp' && result.result.isError === true
  const inspected = inspectObject(
    result.result,
    isFailure ? { ...inspection, tripwire: inspection.tripwire ?? VALUES } : inspection,
  )
  return inspected === result.result ? result : ({ ...result, result: inspected } as ToolResult)
}

/** As `inspect`, for the answer of a server. Bytes without suspicious text are not parsed. */
export function inspectObject<T extends object>(value: T, inspection: Inspection): T {
  const { tripwire, secrets } = inspection
  const raw = rawBytes(value)
  if (!raw) {
    const redacted = tripwire ? redactSplitSecrets(value) : value
    return inspectValue(redacted, 'inputRequests' in value ? addOpaquePath(inspection, FORMS) : inspection)
  }
  const bytes = joinPieces(raw)
  const suspect = tripwire !== undefined && isSuspect(bytes.toString('latin1'), value, tripwire)
  return suspect || secrets?.isIn(bytes)
    ? inspectValue(tripwire ? redactSplitSecrets(value) : value, inspection)
    : value
}

const joinPieces = (raw: readonly Buffer[]): Buffer => (raw.length === 1 ? (raw[0] as Buffer) : Buffer.concat(raw))

/** True if a result may contain a secret, which may also be split between two texts. */
const isSuspect = (latin1: string, value: object, { level }: TripwireLevel): boolean =>
  (level !== 'values' && mayNameCredential(latin1)) || mayHoldSecret(latin1) || textBlocksOf(value).length > 1

const textBlocksOf = (value: object): readonly ContentBlock[] => {
  const { content } = value as McpResult
  return Array.isArray(content)
    ? content.filter((block) => isRecord(block) && block.type === 'text' && typeof block['text'] === 'string')
    : []
}

/** Removes secrets that are split between adjacent texts; the same object if there are none. */
function redactSplitSecrets<T extends object>(value: T): T {
  const blocks = textBlocksOf(value)
  if (blocks.length < 2) return value
  const spans = secretSpans(blocks.map(({ text }) => text).join(''))
  if (spans.length === 0) return value
  let from = 0
  const changed = new Map<ContentBlock, string>()
  for (const block of blocks) {
    const text = String(block['text'])
    let redacted = ''
    let at = 0
    for (const { start, end } of [...spans].sort((a, b) => a.start - b.start)) {
      const [first, last] = [Math.max(start - from, at), Math.min(end - from, text.length)]
      if (first >= last) continue
      redacted += text.slice(at, first) + REDACTED
      at = last
    }
    if (at > 0) changed.set(block, redacted + text.slice(at))
    from += text.length
  }
  const content = ((value as McpResult).content ?? []).map((block) =>
    changed.has(block) ? { ...block, text: changed.get(block) } : block,
  )
  return { ...value, content }
}

/** Searches each piece in turn, because joining them would create two MiB of garbage for each MiB. */
function mayHoldSecrets(pieces: Pieces): boolean {
  let previous = ''
  for (const piece of pieces) {
    const boundary = previous + piece.toString('latin1', 0, MAX_PLACE)
    if (mayHoldSecret(boundary) || (piece.length > MAX_PLACE && mayHoldSecret(piece.toString('latin1')))) return true
    previous =
      piece.length < MAX_PLACE ? boundary.slice(-MAX_PLACE) : piece.toString('latin1', piece.length - MAX_PLACE)
  }
  return false
}

/** Kinds of secrets in a result, for the operator. Does not recurse on the call stack. */
export function secretsIn(result: object): readonly string[] {
  const raw = rawBytes(result)
  if (raw && !mayHoldSecrets(raw)) return []
  const found = new Set<string>()
  const open: unknown[] = [result]
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value === 'string') for (const { name } of secretSpans(value)) found.add(name)
    else if (Array.isArray(value)) for (const one of value) open.push(one)
    else if (typeof value === 'object' && value !== null)
      for (const key of Object.keys(value)) open.push(key, (value as Readonly<Record<string, unknown>>)[key])
  }
  return [...found].sort()
}

/** Removes values that look like secrets from an error or log message of a server. */
export const inspectServerMessage = <T>(value: T): T => guardSecrets(value, VALUES)

export function inspectValue<T>(value: T, { tripwire, secrets }: Inspection): T {
  const hidden = secrets ? secrets.hideIn(value) : value
  return tripwire ? guardSecrets(hidden, tripwire) : hidden
}

/** An error as a client may read it. */
export function inspectFailure(
  failure: PegboardError,
  inspection: Pick<Inspection, 'tripwire' | 'secrets'>,
): PegboardError {
  const { secrets, tripwire = VALUES } = inspection
  const hide = (text: string): string => redactSecrets(secrets?.hide(text) ?? text)
  const message = hide(failure.message)
  const hint = hide(failure.hint)
  const data = inspectValue(failure.data, { secrets, tripwire })
  // Pegboard may relay an upstream's error to the client.
  const cause = isProtocolFailure(failure.cause)
    ? new ProtocolFailure(
        failure.cause.code,
        hide(failure.cause.message),
        inspectValue(failure.cause.data, { secrets, tripwire }),
      )
    : failure.cause
  return copyFailure(failure, { message, hint, data, cause })
}

/** A copy of an error with other texts; the error itself if the texts are equal. */
export function copyFailure(
  failure: PegboardError,
  { message, hint, data, cause }: Pick<PegboardError, 'message' | 'hint' | 'data' | 'cause'>,
): PegboardError {
  const { code, class: failureClass, retryable, retryAfterMs } = failure
  const isSame = message === failure.message && hint === failure.hint && data === failure.data
  if (isSame && cause === failure.cause) return failure
  const copy = new PegboardError(code, message, {
    hint,
    class: failureClass,
    retryable,
    data,
    cause,
    retryAfterMs: retryAfterMs ?? undefined,
  })
  if (failure.correlationId !== undefined) copy.correlationId = failure.correlationId
  if (failure.unknownTool !== undefined) copy.unknownTool = failure.unknownTool
  return copy
}

const TEXT = /^text\/|[/+]json\b/

/** As `inspect`, for a file of a result; only text is checked. */
export function inspectFile<File extends SentFile>(file: File, { tripwire, secrets }: Inspection): File {
  if (typeof file.data !== 'string' && !TEXT.test(file.mimetype)) return file
  const before = typeof file.data === 'string' ? file.data : Buffer.from(file.data).toString()
  const hidden = secrets?.hide(before) ?? before
  const text = tripwire ? guardText(hidden, tripwire) : hidden
  return text === before ? file : { ...file, data: text }
}
