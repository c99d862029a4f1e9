import { isPegboardError, PegboardError, resultTooLarge } from '../core/errors.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/failure.ts'
import { isFull } from '../core/full.ts'
import { sizeOf } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import type { Issue } from '../core/schema.ts'
import { scrub } from '../core/scrub.ts'
import { signatureOf } from '../core/signature.ts'
import type { Tool } from '../core/tool.ts'
import { shownServers } from '../view/unread.ts'
import type { ViewTool } from '../view/view.ts'

/** Nothing runs longer, whatever a tool says of itself. */
export const MAX_CALL_MS = 600_000

/** Why a call ends that its client no longer wants. */
export const cancelled = (): PegboardError => new PegboardError('E_CANCELLED', 'The call was cancelled by the client.')

export function timedOut({ id, timeoutMs, timeoutSetting }: Tool, after: number): PegboardError {
  const setting = timeoutSetting ?? (timeoutMs === undefined ? 'execution.timeoutMs' : undefined)
  return new PegboardError('E_TIMEOUT', `${id} took longer than ${after} ms.`, {
    hint: setting === undefined || after === MAX_CALL_MS ? 'Ask for less.' : `Ask for less, or raise ${setting}.`,
  })
}

/** @throws PegboardError E_TOO_LARGE */
export function checkSize({ id }: Tool, result: object, maxBytes: number): void {
  const bytes = sizeOf(result)
  if (bytes > maxBytes) throw resultTooLarge(`${id} answered with ${bytes} bytes; up to ${maxBytes} are handed on.`)
}

export function invalid(entry: ViewTool, issues: readonly Issue[]): PegboardError {
  const lines = issues.slice(0, 5).map(({ path, message }) => clipped(path ? `${path}: ${message}` : message, ISSUE))
  return new PegboardError('E_VALIDATION', `Invalid params for ${entry.tool.id}: ${lines.join('; ')}`, {
    hint: `Call ${entry.tool.id}(${signatureOf(entry.input.json)}).`,
  })
}

/** Arguments that the tool would take, had its assembly not left them out for this caller. */
export function notOffered(entry: ViewTool, input: unknown, issues: readonly Issue[]): PegboardError {
  const shown = entry.input.json['properties']
  const pruned = Object.entries(isRecord(input) ? input : {}).filter(
    ([name]) => isRecord(shown) && !Object.hasOwn(shown, name),
  )
  if (pruned.length === 0) return invalid(entry, issues)
  return invalid(
    entry,
    pruned.map(([path, value]) => ({ path, message: `${shortly(value)} is not available here` })),
  )
}

/** What is wrong repeats names and values that the caller wrote. */
const ISSUE = 400
const clipped = (text: string, max: number): string => (text.length > max ? `${text.slice(0, max)}…` : text)
const shortly = (value: unknown): string => clipped(JSON.stringify(value) ?? 'this', 60)

export function notFound(
  name: string,
  suggestions: readonly string[],
  sameModule: readonly string[],
  finders: readonly string[],
  all: readonly string[],
  unread: readonly string[],
): PegboardError {
  const shown = clipped(name, 80)
  const message = `Tool '${shown}' not found.`
  // It may be a tool of one of these, unless it says whose it is.
  if (unread.length > 0 && sameModule.length === 0)
    return new PegboardError('E_NOT_FOUND', `${message} Still connecting: ${shownServers(unread)}.`, {
      retryable: true,
      hint: suggestions[0] ? `Try again shortly, or call '${suggestions[0]}'.` : 'Try again shortly.',
    })
  const [first, ...others] = suggestions
  if (first) {
    const also = others.length > 0 ? ` Or ${others.map((id) => `'${id}'`).join(', ')}.` : ''
    return new PegboardError('E_NOT_FOUND', `${message} Did you mean '${first}'?${also}`, {
      hint: `Call it again as '${first}'.`,
    })
  }
  if (sameModule.length > 0)
    return new PegboardError('E_NOT_FOUND', `${message} Near it: ${sameModule.join(', ')}.`, {
      hint: 'Use one of these names.',
    })
  if (finders.length > 0)
    return new PegboardError('E_NOT_FOUND', message, { hint: `Find the right name with ${finders.join(' or ')}.` })
  if (all.length === 0)
    return new PegboardError('E_NOT_FOUND', `${message} There are no tools now.`, {
      hint: 'Whoever runs Pegboard decides what this client may use.',
    })
  return new PegboardError('E_NOT_FOUND', `${message} There is: ${all.slice(0, 15).join(', ')}.`, {
    hint: 'Use one of these names.',
  })
}

type KnownPaths = (path: string) => string | undefined

/** Whatever was thrown, as what a client may read. @param known paths that it may see */
export function refusal(error: unknown, callId: string, tool: string, known?: KnownPaths): PegboardError {
  const failure = isPegboardError(error) ? error : translated(error, callId, tool, known)
  failure.correlationId ??= callId
  return failure
}

/** What the author said with a plain Error is told; a bug is not; an upstream's own error stays the cause for whoever relays it. */
function translated(error: unknown, callId: string, tool: string, known: KnownPaths | undefined): PegboardError {
  if (isProtocolFailure(error)) {
    const code = error.code === -32602 ? 'E_VALIDATION' : 'E_TOOL_FAILED'
    const { data } = error
    const message = scrub(error.message, known)
    const isKnown = data === undefined && error.code >= -32603 && error.code <= -32600
    return new PegboardError(code, `Tool '${tool}' failed: ${message}`, {
      cause: new ProtocolFailure(error.code, message, data),
      ...(isKnown ? {} : { data: { code: error.code, ...(data === undefined ? {} : { data }) } }),
    })
  }
  if (isPlain(error))
    return new PegboardError('E_TOOL_FAILED', `Tool '${tool}' failed: ${scrub(error.message, known)}`, { cause: error })
  // Whatever it was that could not be opened: a part of our own code that is read when it is needed is a file, too.
  if (isFull(error))
    return new PegboardError('E_OVERLOADED', `Tool '${tool}' failed: too many files or programs are open now.`, {
      hint: 'Try again later.',
      cause: error,
    })
  const hint = `The operator finds the details in the log under ${callId}.`
  return new PegboardError('E_INTERNAL', `Tool '${tool}' failed: internal error.`, { cause: error, hint })
}

/** Where an author threw a plain Error; undefined for all else. What it says is told to the client, and may be what it was given. */
export function placeOf(error: unknown): string | undefined {
  if (!isPlain(error) || isPegboardError(error) || isProtocolFailure(error)) return undefined
  const { stack = '', message } = error
  return /^\s+at (.+)$/m.exec(stack.slice(stack.indexOf(message) + message.length))?.[1]
}

/** Drop-ins are imported as `file:///…/dice.ts?v=…`, and what takes out types keeps their lines. */
const AUTHORED = /([^\s()/]+\.[cm]?[jt]sx?)\?v=[\w.]+:(\d+):\d+/

/** Longer ones are part of a message. */
const MAX_FRAME = 1_000

/** A bug of a module's author: where it is, and the lines of its stack that are of files of the author. */
export function authoredOf(error: unknown): { readonly at: string; readonly error: Error } | undefined {
  try {
    if (!(error instanceof Error) || typeof error.stack !== 'string') return undefined
    const frames = error.stack.split('\n').filter((line) => line.length <= MAX_FRAME && AUTHORED.test(line))
    const [, file = '', line] = AUTHORED.exec(frames[0] ?? '') ?? []
    if (line === undefined) return undefined
    const shown = new Error(error.message)
    shown.name = error.name
    shown.stack = [`${error.name}: ${error.message}`, ...frames].join('\n')
    return { at: `${decodeURIComponent(file)}:${line}`, error: shown }
  } catch {
    // What was thrown cannot be read.
    return undefined
  }
}

// System errors (ENOENT and the like) carry paths and addresses; subclasses are mostly bugs.
function isPlain(error: unknown): error is Error {
  try {
    return error instanceof Error && error.name === 'Error' && !('code' in error)
  } catch {
    return false
  }
}
