import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { toCanonicalJson } from '../core/canonical.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { once } from '../core/once.ts'
import { assertRegularFile } from '../core/regular-file.ts'

// Built when a recording is read, because every start evaluates this file.
const schemas = once(() => {
  const json = z.record(z.string(), z.unknown())
  const message = z.object({ method: z.string(), params: json.optional() })
  /** What happened between a request and its answer. `response` is the client's answer to the server. */
  const event = z.union([
    z.object({ notification: message }),
    z.object({ request: message, response: json.optional() }),
  ])
  /** One answer: a result, a JSON-RPC error, or why the request failed on its way. */
  const answer = z.object({
    before: z.array(event).optional(),
    result: json.optional(),
    error: z.object({ code: z.number(), message: z.string(), data: z.unknown().optional() }).optional(),
    failed: z.object({ reason: z.string(), status: z.number().optional(), body: z.string().optional() }).optional(),
    /** Lists that changed after the answer. */
    after: z.array(event).optional(),
  })
  /** A request and its answers, in the order of the calls. */
  const exchange = z.object({ method: z.string(), params: json, answers: z.array(answer).min(1) })
  const cassette = z.object({
    cassette: z.literal(1),
    server: z.string(),
    transport: z.enum(['stdio', 'http', 'sse']),
    /** The answer to `initialize` (2025) or `server/discover` (2026). */
    handshake: z.object({ method: z.string(), result: json }).optional(),
    /** Answers of a list follow each other where a call changed the list. */
    lists: z.array(exchange),
    calls: z.array(exchange),
  })
  return { event, answer, exchange, cassette }
})

type Schemas = ReturnType<typeof schemas>
export type RecordedEvent = z.output<Schemas['event']>
export type RecordedAnswer = z.output<Schemas['answer']>
export type Exchange = z.output<Schemas['exchange']>

/** What one server answered. The layout is documented in docs/guides/record-and-replay.md. */
export type Cassette = z.output<Schemas['cassette']>

const MAX_BYTES = 64 * 1024 * 1024

export const cassetteFile = (dir: string, server: string): string => join(dir, `${encodeURIComponent(server)}.json`)

export const readCassette = (dir: string, server: string): Cassette | undefined =>
  readCassetteFile(cassetteFile(dir, server))

/** @throws PegboardError E_RECORDING */
export const cassettesIn = (dir: string): readonly Cassette[] =>
  readdirSync(dir)
    .filter((name) => name.endsWith('.json'))
    .flatMap((name) => readCassetteFile(join(dir, name)) ?? [])

/** @returns undefined if there is no such file. @throws PegboardError E_RECORDING for a file that cannot be used */
function readCassetteFile(file: string): Cassette | undefined {
  const fault = (why: string, cause?: unknown): PegboardError =>
    new PegboardError('E_RECORDING', `The recording ${file} ${why}.`, { cause })
  let text: string
  try {
    assertRegularFile(file)
    if (statSync(file).size > MAX_BYTES) throw fault(`is larger than ${MAX_BYTES / 1024 / 1024} MiB`)
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    if (error instanceof PegboardError) throw error
    throw fault(`cannot be read: ${messageOf(error)}`, error)
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw fault('is not JSON', error)
  }
  const parsed = schemas().cassette.safeParse(value)
  if (parsed.success) return parsed.data
  const [problem] = parsed.error.issues
  throw fault(`is not valid: ${problem?.path.join('.') || 'the file'}: ${problem?.message}`, parsed.error)
}

export const cassetteText = (cassette: Cassette): string => `${JSON.stringify(cassette, null, 2)}\n`

/** Requests without `_meta` are the same request: it holds tokens of the connection. */
export function withoutMeta(params: Json = {}): Record<string, unknown> {
  const { _meta, ...rest } = params
  return rest
}

/** Equal for the same request, whatever the order of its keys. */
export const keyOf = (method: string, params: Json): string => toCanonicalJson([method, params])

const LISTS = new Set(['tools/list', 'resources/list', 'resources/templates/list', 'prompts/list'])

export const isList = (method: string): boolean => LISTS.has(method)

/** Lists of what the lock file approves. */
export const isDefinitions = (method: string): boolean => method === 'tools/list' || method === 'prompts/list'

/** The first requests of a connection. */
export const isHandshake = (method: string): boolean => method === 'initialize' || method === 'server/discover'
