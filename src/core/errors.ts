import { classifyFailure, type FailureClass, failureClasses, hintOf } from './failure-class.ts'

interface ErrorEntry {
  readonly class: FailureClass | undefined
  readonly meaning: string
  readonly next: string
}

/** Errors that reach the client as a tool result with `isError`. */
const modelErrors = {
  E_VALIDATION: {
    class: 'argument',
    meaning: "The arguments do not match the tool's schema.",
    next: 'Correct the named argument as the schema of the tool requires.',
  },
  E_INT_PRECISION: {
    class: 'argument',
    meaning: 'An integer is too large to be represented exactly.',
    next: 'Send it as a string.',
  },
  E_NOT_FOUND: {
    class: 'not_found',
    meaning: 'There is no tool, category, resource or prompt with this name.',
    next: 'Check the name, list what exists, or search for another tool.',
  },
  E_TOOL_HIDDEN: {
    class: 'permission',
    meaning: 'The tool exists but is not available now.',
    next: 'The message says what is missing.',
  },
  E_TOOL_DISABLED: {
    class: 'permission',
    meaning: 'The operator disabled the tool.',
    next: 'Use another tool, or tell the user that only the operator can enable this one.',
  },
  E_TOOL_FAILED: {
    class: undefined,
    meaning: 'The tool ran and returned an error.',
    next: 'Read the message before you call the tool again, or use another tool.',
  },
  E_SCRIPT_FAILED: {
    class: 'argument',
    meaning: 'The script of run_code ended with an error. Calls that it made before were carried out.',
    next: 'Correct the script. Do not repeat the calls that changed something.',
  },
  E_TOOL_CHANGED: {
    class: 'permission',
    meaning: 'The tool changed after the operator approved it.',
    next: 'The operator reviews the change with pegboard review.',
  },
  E_TOOL_QUARANTINED: {
    class: 'permission',
    meaning: 'The tool waits for the operator to approve it.',
    next: 'The operator reviews it with pegboard review.',
  },
  E_LOOP_DETECTED: {
    class: 'argument',
    meaning: 'A call would call itself, calls are nested too deeply, or a server forwards to this same Pegboard.',
    next: 'Call the tool directly.',
  },
  E_CANNOT_ASK: {
    class: 'argument',
    meaning: 'The tool needs an answer from the user, and this client cannot ask questions.',
    next: 'Pass the answer as an argument, or use a client that supports elicitation.',
  },
  E_CONFIRMATION_REQUIRED: {
    class: 'permission',
    meaning: 'The call needs the approval of a person, and nobody could be asked or nobody answered.',
    next: 'Use a client that can ask its user, or change the named setting.',
  },
  E_CONFIRMATION_DECLINED: {
    class: 'permission',
    meaning: 'A person did not approve the call.',
    next: 'Do not repeat the call unless the person asks for it.',
  },
  E_RATE_LIMITED: {
    class: 'rate',
    meaning: 'The tool reached its rate limit.',
    next: 'Try again after retryAfterMs. The named setting holds the limit.',
  },
  E_SECRET_BLOCKED: {
    class: 'permission',
    meaning: 'The result contains a field that looks like a credential, so it was blocked.',
    next: 'Ask for other data. The setting `tripwire` of the module or server controls this.',
  },
  E_READ_ONLY_CONTRACT: {
    class: 'bug',
    meaning: 'A tool that declares `readOnly` tried to change something. This is a mistake in the tool, not a setting.',
    next: 'Its author removes `readOnly`, or names the target in `writes`.',
  },
  E_OVERLOADED: {
    class: 'rate',
    meaning: 'Too many calls are running.',
    next: 'Try again later.',
  },
  E_LOADING: {
    class: 'network',
    meaning: 'Pegboard is still loading modules, and the tool may be in one of them.',
    next: 'Try again after retryAfterMs.',
  },
  E_SHUTTING_DOWN: {
    class: 'network',
    meaning: 'The server is stopping, or the toolset is closed.',
    next: 'Try again after it has restarted.',
  },
  E_TIMEOUT: {
    class: 'timeout',
    meaning: 'The call exceeded its time limit.',
    next: 'Ask for less, or raise execution.timeoutMs.',
  },
  E_CANCELLED: {
    class: 'timeout',
    meaning: 'The call was cancelled.',
    next: 'Call again if you still need the result.',
  },
  E_TOO_LARGE: {
    class: 'argument',
    meaning: 'The arguments, a result, a file or a stored value exceed a size limit.',
    next: 'Ask for a part, or store less.',
  },
  E_INTERNAL: {
    class: 'bug',
    meaning: 'The tool failed unexpectedly. The server log has the details.',
    next: 'Send the operator the correlation id.',
  },
  E_UPSTREAM_UNAVAILABLE: {
    class: 'network',
    meaning: 'The server behind this tool is not connected.',
    next: 'Try again soon. pegboard list servers shows the state of the server.',
  },
  E_CIRCUIT_OPEN: {
    class: 'network',
    meaning: 'The server behind this tool failed five times in a row. Calls fail until it recovers.',
    next: 'Use another tool, or try again after retryAfterMs. pegboard list servers shows the reason.',
  },
  E_UPSTREAM_PROTOCOL: {
    class: 'bug',
    meaning: 'The server behind this tool sent an invalid MCP message, or asks for input without end.',
    next: 'Report it to the operator.',
  },
  E_NOT_RECORDED: {
    class: 'not_found',
    meaning: 'The server is replayed from a recording, which has no answer to this call.',
    next: 'Make the nearest recorded call that the message names, or record this one with pegboard record.',
  },
  E_BACKEND_UNAVAILABLE: {
    class: 'network',
    meaning: 'The service behind this tool cannot be reached.',
    next: 'Try again soon, or use another tool.',
  },
  E_STATE_UNAVAILABLE: {
    class: 'network',
    meaning: 'The store for tasks, schedules and sessions is unavailable.',
    next: 'Try again soon. Tools that do not use the store still work.',
  },
  E_OWNER_GONE: {
    class: 'permission',
    meaning: 'A scheduled job did not run because its owner no longer has access.',
    next: 'The operator gives the owner access again with server.http.tokens, server.http.oauth or profiles. If a token of pegboard token was revoked or has expired, create a new token and schedule the job again.',
  },
  E_SCHEDULE_INVALID: {
    class: 'argument',
    meaning: 'The time of a schedule is invalid, is in the past, or never occurs.',
    next: 'Correct the time as the message says, and schedule it again.',
  },
  E_WATCH_LIMIT: {
    class: 'permission',
    meaning: 'There are too many watchers, or too many files in a watched folder.',
    next: 'Stop a watcher first, or watch a smaller folder.',
  },
  E_AUTH_REQUIRED: {
    class: 'login',
    meaning: 'The server behind this tool requires a login, or a login with more rights.',
    next: 'Ask the operator to log in with `pegboard auth`.',
  },
  E_SSRF_BLOCKED: {
    class: 'permission',
    meaning: 'The address is not allowed, for example because it is in a private network.',
    next: 'Use a public https address, or change the named setting.',
  },
  E_DNS: {
    class: 'network',
    meaning: 'DNS does not know the host name, or did not answer.',
    next: 'Check the spelling of the address, or try again later.',
  },
  E_TLS: {
    class: 'server_setup',
    meaning: 'The certificate of the server is expired, not trusted, or for another name.',
    next: 'Use another address. Certificate checks cannot be disabled.',
  },
  E_HTTP_PROTOCOL: {
    class: 'bug',
    meaning: 'The response is not valid HTTP, or has an unsupported encoding.',
    next: 'Use another address, or contact the owner of the site.',
  },
  E_REDIRECT_BLOCKED: {
    class: 'argument',
    meaning: 'The address redirects to another address, and redirects are not followed.',
    next: 'Use the final address.',
  },
  E_PATH_OUTSIDE_ROOT: {
    class: 'permission',
    meaning: 'The path is outside the allowed folders.',
    next: 'Use a path inside modules.filesystem.config.roots.',
  },
  E_PATH_DENIED: {
    class: 'permission',
    meaning: 'The path is protected.',
    next: 'Use another path, or change the setting that the message names.',
  },
  E_NOT_REGULAR_FILE: {
    class: 'argument',
    meaning: 'The path is not a regular file.',
    next: 'Use the path of a regular file.',
  },
  E_READ_ONLY: {
    class: 'permission',
    meaning: 'The path, file system or database connection can be read but not written.',
    next: 'The named setting controls this: modules.filesystem.config.readonly, or the policy of a database connection.',
  },
  E_DENIED_BY_POLICY: {
    class: 'permission',
    meaning:
      'The tool may run, but a rule forbids this call: for example its command, an argument, an address, a statement, a message, or a change of servers.',
    next: 'The message or the hint names the setting: for example modules.shell.config.allowed_commands for commands, the policy of a connection for databases, or mcpServers for servers.',
  },
  E_SQL_MULTI_STATEMENT: {
    class: 'argument',
    meaning: 'The call has several SQL statements where one is allowed.',
    next: 'Send one statement at a time, or use database.transaction.',
  },
  E_DB_UNAVAILABLE: {
    class: 'network',
    meaning: 'The database is unreachable, or rejects the login.',
    next: 'Try again later. The operator checks modules.database.config.connections and the log.',
  },
  E_DB_BUSY: {
    class: 'rate',
    meaning: 'Another process has locked the same file or rows.',
    next: 'Try again.',
  },
  E_DB_CORRUPT: {
    class: 'server_setup',
    meaning: 'The database is damaged, or the file is not a database.',
    next: 'Use another database, or restore this one.',
  },
  E_SANDBOX_UNAVAILABLE: {
    class: 'server_setup',
    meaning: 'The tool needs a sandbox, and none works on this machine.',
    next: 'The operator installs one, or sets modules.shell.config.sandbox to "off".',
  },
} as const satisfies Record<string, ErrorEntry>

/** Errors that appear in logs and on the terminal. */
const operatorErrors = {
  E_USAGE: {
    class: 'argument',
    meaning: 'A command line of pegboard is wrong: its command, an option or an operand. The exit code is 2.',
    next: 'Correct it as the message says, or see pegboard help.',
  },
  E_LOOP_LIMIT: {
    class: 'argument',
    meaning: 'A model kept calling tools after its last allowed round.',
    next: 'Allow more rounds, or split the request.',
  },
  E_MODULE_LOAD: {
    class: 'server_setup',
    meaning: 'A module file could not be loaded. The other modules work.',
    next: 'Fix the file. Pegboard loads it again when it changes.',
  },
  E_MODULE_SHAPE: {
    class: 'server_setup',
    meaning: 'A module file does not export a module.',
    next: 'Export defineModule({...}), a tool, or call registerTool.',
  },
  E_MODULE_CONFIG: {
    class: 'server_setup',
    meaning: 'The options of a module do not match its schema.',
    next: 'Correct the named key.',
  },
  E_CONFIG_SYNTAX: {
    class: 'server_setup',
    meaning: 'The configuration is not valid JSON.',
    next: 'Correct the named line.',
  },
  E_CONFIG_INVALID: {
    class: 'server_setup',
    meaning: 'The configuration has an unknown key or an invalid value.',
    next: 'Correct the named key.',
  },
  E_RECORDING: {
    class: 'server_setup',
    meaning: 'A recording of a server cannot be read or written.',
    next: 'Correct the named file, or record it again with pegboard record.',
  },
  E_ADDRESS_UNAVAILABLE: {
    class: 'server_setup',
    meaning: 'The address to listen on is in use, or does not belong to this machine.',
    next: 'Stop the program that uses it, or choose another address with --port or --host.',
  },
  E_CONFIG_MISSING: {
    class: 'server_setup',
    meaning: 'The configuration file does not exist.',
    next: 'Check the path given with --config.',
  },
  E_CONFIG_WRITABLE: {
    class: 'server_setup',
    meaning: 'Another user can write the configuration file, and so control what Pegboard runs.',
    next: 'Make yourself the only user who can write the file: chown, chmod go-w.',
  },
  E_CONFIG_AUTH: {
    class: 'server_setup',
    meaning: 'The server would accept other machines without authentication.',
    next: 'Remove server.http.auth: "none", or listen on 127.0.0.1.',
  },
  E_CONFIG_OPENAPI: {
    class: 'server_setup',
    meaning: 'The API description cannot be read, or is not OpenAPI 3.x.',
    next: 'Correct the document or openapi.<id>.document. Pegboard reads it again at the next reload.',
  },
  E_STATE: {
    class: 'server_setup',
    meaning: 'Pegboard cannot read or write its state.',
    next: 'Fix the file as the message says. Nothing was deleted.',
  },
  E_AUTH_FAILED: {
    class: 'login',
    meaning: 'A login to a remote server failed.',
    next: 'Read the reason, then run pegboard auth again.',
  },
  E_EDIT_SYNTAX: {
    class: 'server_setup',
    meaning: 'A file cannot be edited, because its content is not in the expected format.',
    next: 'Correct the file as the message says, then try again.',
  },
  E_REGISTRY_UNAVAILABLE: {
    class: 'network',
    meaning: 'The MCP registry cannot be reached, or it sent an invalid answer.',
    next: 'Try again later, or check registry.url.',
  },
  E_REGISTRY_ENTRY: {
    class: 'server_setup',
    meaning:
      'An entry of the MCP registry is not valid, or requires something that Pegboard does not allow in a registry entry.',
    next: 'Add the server yourself, if you trust it.',
  },
  E_EDIT_STALE: {
    class: 'server_setup',
    meaning: 'A file changed after Pegboard had read it. Nothing was written.',
    next: 'Run the command again, and check the new preview.',
  },
  E_EDIT_UNSAFE: {
    class: 'server_setup',
    meaning: 'Pegboard does not edit this file: it is a link, too large, not UTF-8, or another user can write it.',
    next: 'Fix the file as the message says, or edit it yourself.',
  },
  E_UNDO_MISSING: {
    class: 'not_found',
    meaning: 'There is no change of files to undo.',
    next: 'Run pegboard undo --list, which shows the changes.',
  },
  E_NAME_TAKEN: {
    class: 'server_setup',
    meaning: 'Two tools or modules have the same name.',
    next: 'Rename one, or set a prefix.',
  },
  E_NAME_INVALID: {
    class: 'server_setup',
    meaning: 'The name of a module or tool has invalid characters.',
    next: 'Use lower-case letters, digits, _ and -.',
  },
} as const satisfies Record<string, ErrorEntry>

type WithAudience<Entries, Audience> = {
  readonly [Code in keyof Entries]: ErrorEntry & { readonly audience: Audience }
}
const withAudience = <Entries extends object, Audience>(entries: Entries, audience: Audience) =>
  Object.fromEntries(Object.entries(entries).map(([code, entry]) => [code, { audience, ...entry }])) as WithAudience<
    Entries,
    Audience
  >

/** All error codes. Codes are stable, so that clients and operators may match on them. */
export const errorCatalogue = { ...withAudience(modelErrors, 'model'), ...withAudience(operatorErrors, 'operator') }

export type ErrorCode = keyof typeof errorCatalogue

export interface ErrorOptions {
  /** What to do next; default: the hint of the code, or that of the class. */
  readonly hint?: string | undefined
  /** Default: the class of the code. For E_TOOL_FAILED, it is derived from the message. */
  readonly class?: FailureClass | undefined
  /** Default: true with `retryAfterMs`, otherwise that of the class. */
  readonly retryable?: boolean | undefined
  /** Earliest time for another try, in milliseconds from now. */
  readonly retryAfterMs?: number | undefined
  readonly cause?: unknown
  /** Additional data for the model: what the tool returned besides its error. */
  readonly data?: unknown
}

// A drop-in may load its own copy of this package, so errors are recognized by this symbol instead of instanceof.
const BRAND = Symbol.for('pegboard.error')

/** An error with a stable code. `message` must be safe for clients: no stack, address, absolute path or secret. */
export class PegboardError extends Error {
  readonly [BRAND] = true
  readonly code: ErrorCode
  readonly hint: string
  /** Undefined for an E_TOOL_FAILED whose message shows no class. */
  readonly class: FailureClass | undefined
  readonly retryable: boolean
  readonly retryAfterMs: number | null
  readonly data: unknown
  /** Id of the call in the log. Set where the call runs. */
  correlationId?: string
  /** The name in the call, if no tool has it. Set where names are resolved. */
  unknownTool?: string

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'PegboardError'
    this.code = code
    const entry = errorCatalogue[code]
    this.class = options.class ?? (code === 'E_TOOL_FAILED' ? classifyFailure(message) : entry.class)
    this.hint =
      options.hint ?? (this.class === undefined || this.class === entry.class ? entry.next : hintOf(this.class))
    this.retryAfterMs = options.retryAfterMs ?? null
    this.retryable =
      options.retryable ??
      (this.retryAfterMs !== null || (this.class !== undefined && failureClasses[this.class].retryable))
    this.data = options.data
  }
}

export const shuttingDown = (): PegboardError => new PegboardError('E_SHUTTING_DOWN', 'The server is stopping.')

export const isShuttingDown = (error: unknown): error is PegboardError =>
  isPegboardError(error) && error.code === 'E_SHUTTING_DOWN'

export const resultTooLarge = (message: string): PegboardError =>
  new PegboardError('E_TOO_LARGE', message, { hint: 'Ask for a part, or raise execution.maxResultBytes.' })

/**
 * The error for tools to throw when the model can do something about it: `throw new ToolError('No such city.', {
 * hint: 'Try "City, Country".' })`.
 */
export class ToolError extends PegboardError {
  constructor(message: string, options: ErrorOptions & { readonly code?: ErrorCode } = {}) {
    super(options.code ?? 'E_TOOL_FAILED', message, options)
    this.name = 'ToolError'
  }
}

/** True for errors of any loaded copy of Pegboard. */
export function isPegboardError(error: unknown): error is PegboardError {
  try {
    return typeof error === 'object' && error !== null && (error as { [BRAND]?: unknown })[BRAND] === true
  } catch {
    return false
  }
}

/** Message and hint as complete sentences: `What is wrong. What to do.` */
export function joinSentences(message: string, hint: string): string {
  const closed = /[.!?…]$/.test(message) || message === '' ? message : `${message}.`
  return hint ? `${closed} ${hint}` : closed
}

/** A one-sentence description of anything thrown, for operators. */
export function messageOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error)
  } catch {
    // A module may throw an object whose properties throw.
    return 'something was thrown that cannot be read'
  }
}
