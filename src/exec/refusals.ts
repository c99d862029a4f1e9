import { sep } from 'node:path'
import { isResourceExhausted } from '../core/error-codes.ts'
import { isPegboardError, isShuttingDown, PegboardError, resultTooLarge } from '../core/errors.ts'
import { classifyFailure, classifyThrown, type FailureClass, hintOf } from '../core/failure-class.ts'
import { asRecord, isRecord } from '../core/is-record.ts'
import { joinNames } from '../core/join-names.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import { sizeOf } from '../core/raw-result.ts'
import type { Issue } from '../core/schema.ts'
import { scrub } from '../core/scrub.ts'
import type { Tool } from '../core/tool.ts'
import { signatureOf } from '../core/tool-signature.ts'
import type { UnknownName } from '../view/resolve-name.ts'
import { joinServerIds } from '../view/unread-servers.ts'
import type { ViewTool } from '../view/view.ts'
import { toFailureMeta } from './explain-failure.ts'

/** Maximum duration of a call of any tool, in milliseconds. */
export const MAX_CALL_MS = 600_000

export const createCancelledError = (): PegboardError =>
  new PegboardError('E_CANCELLED', 'The call was cancelled by the client.')

export const createTextLimitError = (): PegboardError =>
  new PegboardError('E_OVERLOADED', 'Your running calls hold too much text in their arguments.', {
    hint: 'Wait for some of them, or send less text at a time.',
    retryAfterMs: 1_000,
  })

export function createTimeoutError({ id, timeoutMs, timeoutSetting }: Tool, after: number): PegboardError {
  const setting = timeoutSetting ?? (timeoutMs === undefined ? 'execution.timeoutMs' : undefined)
  return new PegboardError('E_TIMEOUT', `${id} took longer than ${after} ms.`, {
    hint: setting === undefined || after === MAX_CALL_MS ? 'Ask for less.' : `Ask for less, or raise ${setting}.`,
  })
}

/** The error of a call that was running when the server stopped. A repeated call may do its work twice. */
export function explainStop(error: unknown, { id, effect, idempotent }: Tool): unknown {
  if (!isShuttingDown(error) || effect === 'read' || idempotent) return error
  return new PegboardError(
    'E_SHUTTING_DOWN',
    `The server stopped while ${id} was running. It may have changed something.`,
    {
      hint: 'Check what it did before you call it again.',
      retryable: false,
      cause: error,
    },
  )
}

/** @throws PegboardError E_TOO_LARGE */
export function checkResultSize({ id }: Tool, result: object, maxBytes: number): void {
  const bytes = sizeOf(result)
  if (bytes > maxBytes) throw resultTooLarge(`${id} returned ${bytes} bytes; the limit is ${maxBytes}.`)
}

export function createInvalidArgumentsError(entry: ViewTool, issues: readonly Issue[]): PegboardError {
  const lines = issues
    .slice(0, 5)
    .map(({ path, message }) => clipText(path ? `${path}: ${message}` : message, MAX_ISSUE_CHARS))
  return new PegboardError('E_VALIDATION', `Invalid params for ${entry.tool.id}: ${lines.join('; ')}`, {
    hint: `Call ${entry.tool.id}(${signatureOf(entry.input.json)}).`,
  })
}

/** The error for arguments that the tool accepts, but that its assembly removed for this caller. */
export function createNotOfferedError(entry: ViewTool, input: unknown, issues: readonly Issue[]): PegboardError {
  const shown = entry.input.json['properties']
  const removedParameters = Object.entries(asRecord(input)).filter(
    ([name]) => isRecord(shown) && !Object.hasOwn(shown, name),
  )
  if (removedParameters.length === 0) return createInvalidArgumentsError(entry, issues)
  return createInvalidArgumentsError(
    entry,
    removedParameters.map(([path, value]) => ({ path, message: `${quoteShort(value)} is not available here` })),
  )
}

/** Messages contain names and values of the arguments, so they are cut. */
const MAX_ISSUE_CHARS = 400
const clipText = (text: string, max: number): string => (text.length > max ? `${text.slice(0, max)}…` : text)
const quoteShort = (value: unknown): string => clipText(JSON.stringify(value) ?? 'this', 60)

const NAMED_TOOLS = 15

/**
 * @param finders names of the tools that find other tools
 * @param all ids of all tools, named if there are no finders
 */
export function createNotFoundError(
  name: string,
  { suggestions, similar, unread }: UnknownName,
  finders: readonly string[],
  all: readonly string[],
): PegboardError {
  const shown = clipText(name, 80)
  const message = `Tool '${shown}' not found.`
  if (unread.length > 0)
    return new PegboardError('E_NOT_FOUND', `${message} Still connecting: ${joinServerIds(unread)}.`, {
      class: 'network',
      hint: suggestions[0] ? `Try again shortly, or call '${suggestions[0]}'.` : 'Try again shortly.',
    })
  const [first, ...others] = suggestions
  if (first) {
    const also = others.length > 0 ? ` Or ${others.map((id) => `'${id}'`).join(', ')}.` : ''
    return new PegboardError('E_NOT_FOUND', `${message} Did you mean '${first}'?${also}`, {
      hint: `Call '${first}' only if it does what you need.`,
    })
  }
  if (similar.length > 0)
    return new PegboardError('E_NOT_FOUND', `${message} Similar names: ${similar.join(', ')}.`, {
      hint: 'Use one of these names.',
    })
  if (finders.length > 0)
    return new PegboardError('E_NOT_FOUND', message, { hint: `Find the right name with ${finders.join(' or ')}.` })
  if (all.length === 0)
    return new PegboardError('E_NOT_FOUND', `${message} There are no tools now.`, {
      hint: 'The operator of Pegboard decides what this client can use.',
    })
  return new PegboardError('E_NOT_FOUND', `${message} Tools: ${joinNames(all, NAMED_TOOLS)}.`, {
    hint: all.length > NAMED_TOOLS ? 'Use a name from the list of tools.' : 'Use one of these names.',
  })
}

type KnownPaths = (path: string) => string | undefined

/** Converts anything thrown to an error that a client may read. @param knownPaths returns a path that the error may contain */
export function toPegboardError(error: unknown, callId: string, tool: string, knownPaths?: KnownPaths): PegboardError {
  const failure = isPegboardError(error) ? error : translateError(error, callId, tool, knownPaths)
  failure.correlationId ??= callId
  return failure
}

/**
 * Shows the message of a plain Error of an author, but not that of a bug. An upstream's error stays the relayed cause.
 */
function translateError(
  error: unknown,
  callId: string,
  tool: string,
  knownPaths: KnownPaths | undefined,
): PegboardError {
  if (isProtocolFailure(error)) {
    const code = error.code === -32602 ? 'E_VALIDATION' : 'E_TOOL_FAILED'
    const { data } = error
    const message = scrub(error.message, knownPaths)
    const failure = classifyFailure(message, { rpcCode: error.code })
    const isKnown = data === undefined && error.code >= -32603 && error.code <= -32600
    return new PegboardError(code, `Tool '${tool}' failed: ${message}`, {
      class: failure,
      cause: new ProtocolFailure(error.code, message, failure === undefined ? data : withClass(error, failure)),
      ...(isKnown ? {} : { data: { code: error.code, ...(data === undefined ? {} : { data }) } }),
    })
  }
  if (isPlainError(error))
    return new PegboardError('E_TOOL_FAILED', `Tool '${tool}' failed: ${scrub(error.message, knownPaths)}`, {
      class: classifyFailure(error.message),
      cause: error,
    })
  // Pegboard itself may be unable to open a file.
  if (isResourceExhausted(error))
    return new PegboardError('E_OVERLOADED', `Tool '${tool}' failed: too many files or programs are open now.`, {
      hint: 'Try again later.',
      cause: error,
    })
  const thrown = classifyThrown(error)
  const hint = `The operator finds the details in the log under ${callId}.`
  return new PegboardError('E_INTERNAL', `Tool '${tool}' failed: internal error${thrown ? ` (${thrown.code})` : ''}.`, {
    cause: error,
    class: thrown?.class,
    hint: thrown ? `${hintOf(thrown.class)} ${hint}` : hint,
  })
}

/** The `data` of a relayed error with its class. Errors that a client acts on by their `data` stay as they are. */
function withClass({ code, data }: ProtocolFailure, failure: FailureClass): unknown {
  if (code === -32042 || code === -32021 || (data !== undefined && !isRecord(data))) return data
  return { ...data, ...toFailureMeta(failure) }
}

/** Where an author threw a plain Error; undefined for everything else. Its message may contain the arguments. */
export function placeOf(error: unknown): string | undefined {
  if (!isPlainError(error) || isPegboardError(error) || isProtocolFailure(error)) return undefined
  const { stack = '', message } = error
  return /^\s+at (.+)$/m.exec(stack.slice(stack.indexOf(message) + message.length))?.[1]
}

/** Drop-ins are imported as `file:///…/dice.ts?v=…`; removing types keeps their lines. */
const FRAME_OF_DROP_IN = /([^\s()/]+\.[cm]?[jt]sx?)\?v=[\w.]+:(\d+):\d+/
/** CommonJS files and plain scripts have paths without `?v=`. */
const FRAME_BELOW_FOLDER = /^(?:.*[/\\])?([^/\\]+\.[cm]?[jt]sx?):(\d+):\d+\)?$/

/** A longer line is part of a message, not a stack frame. */
const MAX_FRAME = 1_000

interface Place {
  readonly file: string
  readonly line: string
}

/** The location of a stack line in an author's file. @param folders of drop-ins */
function locateFrame(frame: string, folders: readonly string[]): Place | undefined {
  if (frame.length > MAX_FRAME) return undefined
  const [, file, line] = FRAME_OF_DROP_IN.exec(frame) ?? []
  if (file !== undefined && line !== undefined) return { file: decodeURIComponent(file), line }
  for (const folder of folders) {
    const at = frame.indexOf(folder + sep)
    const below = at === -1 ? '' : frame.slice(at + folder.length + 1)
    const [, name, number] = below.includes('node_modules') ? [] : (FRAME_BELOW_FOLDER.exec(below) ?? [])
    if (name !== undefined && number !== undefined) return { file: name, line: number }
  }
  return undefined
}

/** The location of a bug in an author's module, and the stack lines in the author's files. */
export function findAuthoredFrames(
  error: unknown,
  folders: readonly string[],
): { readonly at: string; readonly error: Error } | undefined {
  try {
    if (!(error instanceof Error) || typeof error.stack !== 'string') return undefined
    const frames = error.stack.split('\n').filter((line) => locateFrame(line, folders) !== undefined)
    const place = locateFrame(frames[0] ?? '', folders)
    if (place === undefined) return undefined
    const authoredError = new Error(error.message)
    authoredError.name = error.name
    authoredError.stack = [`${error.name}: ${error.message}`, ...frames].join('\n')
    return { at: `${place.file}:${place.line}`, error: authoredError }
  } catch {
    // Getters of what was thrown may throw too.
    return undefined
  }
}

// System errors such as ENOENT contain paths and addresses; subclasses are mostly bugs.
function isPlainError(error: unknown): error is Error {
  try {
    return error instanceof Error && error.name === 'Error' && !('code' in error)
  } catch {
    return false
  }
}
