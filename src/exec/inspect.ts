import type { SentFile } from '../core/context.ts'
import { PegboardError } from '../core/errors.ts'
import { type KnownSecrets, knownSecrets } from '../core/known-secrets.ts'
import { rawBytes } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import type { ToolResult } from '../core/result.ts'
import type { Tool, Tripwire } from '../core/tool.ts'
import { guardSecrets, guardText, mayTell, type Wire } from '../core/tripwire.ts'

/** What is done about everything that leaves a tool. */
export interface Inspection {
  readonly wire: Wire | undefined
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

/** Nothing is made for a call that is like most. */
export function createInspections(values: readonly string[] = []): Inspections {
  let secrets = knownSecrets(values)
  const make = (): Readonly<Record<Tripwire, Inspection | undefined>> => ({
    off: secrets && { wire: undefined, secrets },
    redact: { wire: { level: 'redact', opaque: [] }, secrets },
    throw: { wire: { level: 'throw', opaque: [] }, secrets },
  })
  let ready = make()
  return {
    of: (level, opaque) =>
      opaque === undefined || level === 'off' ? ready[level] : { wire: { level, opaque }, secrets },
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
  const kept = inspectObject(result.result, inspection)
  return kept === result.result ? result : ({ ...result, result: kept } as ToolResult)
}

/** The same for what a server answered; bytes in which nothing stands out are not parsed. */
export function inspectObject<T extends object>(value: T, inspection: Inspection): T {
  const raw = rawBytes(value)
  if (!raw) return inspectValue(value, 'inputRequests' in value ? without(inspection, FORMS) : inspection)
  const { wire, secrets } = inspection
  const bytes = raw.length === 1 ? (raw[0] as Buffer) : Buffer.concat(raw)
  const suspect = wire !== undefined && mayTell(bytes.toString('latin1'))
  return suspect || secrets?.isIn(bytes) ? inspectValue(value, inspection) : value
}

export function inspectValue<T>(value: T, { wire, secrets }: Inspection): T {
  const hidden = secrets ? secrets.hideIn(value) : value
  return wire ? guardSecrets(hidden, wire) : hidden
}

/** A failure as a client may read it. */
export function inspectFailure(failure: PegboardError, inspection: Inspection): PegboardError {
  const { code, retryable, retryAfterMs, cause } = failure
  const message = inspection.secrets?.hide(failure.message) ?? failure.message
  const hint = inspection.secrets?.hide(failure.hint) ?? failure.hint
  const data = inspectValue(failure.data, inspection)
  if (message === failure.message && hint === failure.hint && data === failure.data) return failure
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
