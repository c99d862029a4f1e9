/**
 * Every code Pegboard can answer with. Codes are stable: clients and operators may match on them.
 * `model` codes travel to the client as a tool result with `isError`; `operator` codes appear in logs and on the terminal.
 */
export const errorCatalogue = {
  E_VALIDATION: {
    audience: 'model',
    retryable: false,
    meaning: 'The arguments do not fit the tool.',
    next: 'Correct the named argument as the schema of the tool says.',
  },
  E_INT_PRECISION: {
    audience: 'model',
    retryable: false,
    meaning: 'An integer is too large to be carried exactly.',
    next: 'Send it as a string.',
  },
  E_NOT_FOUND: {
    audience: 'model',
    retryable: false,
    meaning: 'No such tool, category, resource or prompt.',
    next: 'Use one of the suggested names, or search for another tool.',
  },
  E_TOOL_HIDDEN: {
    audience: 'model',
    retryable: false,
    meaning: 'The tool exists but cannot be used now.',
    next: 'The message says what is missing.',
  },
  E_TOOL_DISABLED: {
    audience: 'model',
    retryable: false,
    meaning: 'The operator switched the tool off.',
    next: 'Set tools.<name>.enabled to true.',
  },
  E_TOOL_FAILED: {
    audience: 'model',
    retryable: false,
    meaning: 'The tool ran and reported a failure.',
    next: 'Read the message; change the arguments or the plan.',
  },
  E_TOOL_CHANGED: {
    audience: 'model',
    retryable: false,
    meaning: 'The tool is not what the operator approved.',
    next: 'The operator looks at the change with pegboard review.',
  },
  E_TOOL_QUARANTINED: {
    audience: 'model',
    retryable: false,
    meaning: 'The tool waits for the operator to approve it.',
    next: 'The operator looks at it with pegboard review.',
  },
  E_LOOP_DETECTED: {
    audience: 'model',
    retryable: false,
    meaning: 'A call would call itself, calls are nested too deep, or a server leads back to this Pegboard.',
    next: 'Name the real tool; the operator removes the named server.',
  },
  E_LOOP_LIMIT: {
    audience: 'operator',
    retryable: false,
    meaning: 'A model went on calling tools when it had no round left and was asked to answer.',
    next: 'Allow more rounds, or ask for less at once.',
  },
  E_CANNOT_ASK: {
    audience: 'model',
    retryable: false,
    meaning: 'The tool has a question and this client cannot show it.',
    next: 'Give the answer as an argument, or use a client with elicitation.',
  },
  E_CONFIRMATION_REQUIRED: {
    audience: 'model',
    retryable: false,
    meaning: 'The call needs a yes of a person, and nobody could be asked or nobody answered.',
    next: 'Use a client that can ask its user; the named setting decides.',
  },
  E_CONFIRMATION_DECLINED: {
    audience: 'model',
    retryable: false,
    meaning: 'A person was asked about the call and did not say yes.',
    next: 'Do not make the call again unless the person wants it.',
  },
  E_RATE_LIMITED: {
    audience: 'model',
    retryable: true,
    meaning: 'The tool was called as often as its limit allows.',
    next: 'Try again after retryAfterMs; the named setting decides.',
  },
  E_SECRET_BLOCKED: {
    audience: 'model',
    retryable: false,
    meaning: 'The result has a field that looks like a credential, so it was kept back.',
    next: 'Ask for something else; `tripwire` of the module or server decides.',
  },
  E_READ_ONLY_CONTRACT: {
    audience: 'model',
    retryable: false,
    meaning: 'A tool that says it changes nothing tried to.',
    next: 'Its author removes `readOnly`, or names in `writes` what it writes to.',
  },
  E_OVERLOADED: {
    audience: 'model',
    retryable: true,
    meaning: 'Too much is running already.',
    next: 'Try again later.',
  },
  E_LOADING: {
    audience: 'model',
    retryable: true,
    meaning: 'Module files are still being loaded, and the tool may be in one of them.',
    next: 'Try again after retryAfterMs.',
  },
  E_SHUTTING_DOWN: {
    audience: 'model',
    retryable: true,
    meaning: 'The server is stopping.',
    next: 'Try again when it is back.',
  },
  E_TIMEOUT: {
    audience: 'model',
    retryable: true,
    meaning: 'The call took longer than its limit.',
    next: 'Ask for less, or raise execution.timeoutMs.',
  },
  E_CANCELLED: {
    audience: 'model',
    retryable: true,
    meaning: 'The call was cancelled.',
    next: 'Call again if it is still wanted.',
  },
  E_TOO_LARGE: {
    audience: 'model',
    retryable: false,
    meaning: 'The arguments or the result pass a size limit.',
    next: 'Ask for a part.',
  },
  E_INTERNAL: {
    audience: 'model',
    retryable: false,
    meaning: 'The tool broke in a way its author did not foresee; the details are in the server log.',
    next: 'Give the operator the correlation id.',
  },
  E_UPSTREAM_UNAVAILABLE: {
    audience: 'model',
    retryable: true,
    meaning: 'The server behind this tool is not connected.',
    next: 'Try again shortly; pegboard list servers shows its state.',
  },
  E_CIRCUIT_OPEN: {
    audience: 'model',
    retryable: true,
    meaning: 'The server behind this tool failed five times in a row, so calls are refused until it is back.',
    next: 'Use another tool, or try again after retryAfterMs; pegboard list servers shows why.',
  },
  E_UPSTREAM_PROTOCOL: {
    audience: 'model',
    retryable: false,
    meaning: 'The server behind this tool answered with something that is not MCP.',
    next: 'Report it to the operator.',
  },
  E_BACKEND_UNAVAILABLE: {
    audience: 'model',
    retryable: true,
    meaning: 'The service behind this tool cannot be reached.',
    next: 'Try again shortly; pegboard list servers shows its state.',
  },
  E_STATE_UNAVAILABLE: {
    audience: 'model',
    retryable: true,
    meaning: 'Where tasks, schedules and sessions are kept cannot be reached.',
    next: 'Try again shortly; what needs none of them goes on.',
  },
  E_OWNER_GONE: {
    audience: 'model',
    retryable: false,
    meaning: 'Work that was planned is not done: whoever planned it may not come in any more.',
    next: 'The operator gives its owner a token again (server.http.tokens; of pegboard token only the one it came with counts), or somebody else plans it anew.',
  },
  E_SCHEDULE_INVALID: {
    audience: 'model',
    retryable: false,
    meaning: 'The time of a schedule means nothing, is past, or never comes.',
    next: 'The message says what is wrong with it; correct it and plan it again.',
  },
  E_WATCH_LIMIT: {
    audience: 'model',
    retryable: false,
    meaning: 'No more can be watched.',
    next: 'End a watcher, or watch less at once.',
  },
  E_AUTH_REQUIRED: {
    audience: 'model',
    retryable: false,
    meaning: 'The server behind this tool wants a login, or one with more rights.',
    next: 'Tell the person who runs Pegboard; only they can log in, with `pegboard auth`.',
  },
  E_SSRF_BLOCKED: {
    audience: 'model',
    retryable: false,
    meaning: 'An address is not one that may be reached from here.',
    next: 'Use a public https address; the named setting decides.',
  },
  E_DNS: {
    audience: 'model',
    retryable: true,
    meaning: 'The name in an address is not known to the name service, or that did not answer.',
    next: 'Check the spelling of the address, or try again later.',
  },
  E_TLS: {
    audience: 'model',
    retryable: false,
    meaning: 'The certificate of an address is expired, not trusted, or for another name.',
    next: 'Use another address; checking certificates cannot be switched off.',
  },
  E_HTTP_PROTOCOL: {
    audience: 'model',
    retryable: false,
    meaning: 'The answer of an address is not valid HTTP, or is packed in a way that cannot be read.',
    next: 'Use another address, or tell the person who runs it.',
  },
  E_REDIRECT_BLOCKED: {
    audience: 'model',
    retryable: false,
    meaning: 'The address redirects elsewhere, which is not followed.',
    next: 'Name the address where it really is.',
  },
  E_PATH_OUTSIDE_ROOT: {
    audience: 'model',
    retryable: false,
    meaning: 'The path leaves the allowed folders.',
    next: 'Use a path inside modules.filesystem.config.roots.',
  },
  E_PATH_DENIED: {
    audience: 'model',
    retryable: false,
    meaning: 'The path is protected.',
    next: 'Use another path; the message names the setting that decides, where one does.',
  },
  E_NOT_REGULAR_FILE: {
    audience: 'model',
    retryable: false,
    meaning: 'The path is not an ordinary file.',
    next: 'Name a regular file.',
  },
  E_READ_ONLY: {
    audience: 'model',
    retryable: false,
    meaning: 'Writing is switched off, or the call only reads.',
    next: 'The named setting decides: modules.filesystem.config.readonly, or the policy of a database connection.',
  },
  E_DENIED_BY_POLICY: {
    audience: 'model',
    retryable: false,
    meaning:
      'The operator does not allow this command, this argument of it, this address, this statement, or this change of servers.',
    next: 'The named setting decides: modules.shell.config.allowed_commands for commands, the policy of a connection for databases, mcpServers for servers.',
  },
  E_SQL_MULTI_STATEMENT: {
    audience: 'model',
    retryable: false,
    meaning: 'There are several SQL statements where one is taken.',
    next: 'Send one at a time, or use database.transaction.',
  },
  E_DB_UNAVAILABLE: {
    audience: 'model',
    retryable: true,
    meaning: 'A database cannot be reached, or refuses the login.',
    next: 'Try again later; the operator looks at modules.database.config.connections and at the log.',
  },
  E_DB_BUSY: {
    audience: 'model',
    retryable: true,
    meaning: 'Somebody else works on the same file or rows.',
    next: 'Try again.',
  },
  E_DB_CORRUPT: {
    audience: 'model',
    retryable: false,
    meaning: 'A database says that it is damaged, or its file is none.',
    next: 'Name another, or have it restored.',
  },
  E_SANDBOX_UNAVAILABLE: {
    audience: 'model',
    retryable: false,
    meaning: 'Scripts run only in a sandbox, and none works on this machine.',
    next: 'The operator installs one, or sets modules.shell.config.sandbox to "off".',
  },
  E_MODULE_LOAD: {
    audience: 'operator',
    retryable: false,
    meaning: 'A module file could not be loaded; the others were.',
    next: 'Mend the file; it is read again when it changes.',
  },
  E_MODULE_SHAPE: {
    audience: 'operator',
    retryable: false,
    meaning: 'A module file does not export a module.',
    next: 'Export defineModule({...}), a tool, or call registerTool.',
  },
  E_MODULE_CONFIG: {
    audience: 'operator',
    retryable: false,
    meaning: 'The config of a module does not fit its schema.',
    next: 'Correct the named key.',
  },
  E_CONFIG_SYNTAX: {
    audience: 'operator',
    retryable: false,
    meaning: 'The configuration is not valid JSON.',
    next: 'Correct it at the named line.',
  },
  E_CONFIG_INVALID: {
    audience: 'operator',
    retryable: false,
    meaning: 'The configuration has an unknown key, or a value that cannot be used.',
    next: 'Correct the named key.',
  },
  E_ADDRESS_UNAVAILABLE: {
    audience: 'operator',
    retryable: false,
    meaning: 'The address to listen on is in use, or is not one of this machine.',
    next: 'Stop the program that uses it, or choose another with --port or --host.',
  },
  E_CONFIG_MISSING: {
    audience: 'operator',
    retryable: false,
    meaning: 'The configuration file does not exist.',
    next: 'Check the path given with --config.',
  },
  E_CONFIG_WRITABLE: {
    audience: 'operator',
    retryable: false,
    meaning: 'Somebody else may write the configuration file, and so decide what is served.',
    next: 'Make the file yours and nobody else may write it: chown, chmod o-w.',
  },
  E_CONFIG_AUTH: {
    audience: 'operator',
    retryable: false,
    meaning: 'The server would listen without authentication beyond this machine.',
    next: 'Remove server.http.auth: "none", or bind 127.0.0.1.',
  },
  E_CONFIG_OPENAPI: {
    audience: 'operator',
    retryable: false,
    meaning: 'The description of an API cannot be read, or is not OpenAPI 3.x.',
    next: 'Correct the document or openapi.<id>.document; it is read again on the next reload.',
  },
  E_STATE: {
    audience: 'operator',
    retryable: false,
    meaning: 'What must survive a restart cannot be kept or read.',
    next: 'The message says what is wrong with the file; nothing was deleted.',
  },
  E_AUTH_FAILED: {
    audience: 'operator',
    retryable: false,
    meaning: 'A login at a remote server did not succeed.',
    next: 'Read the reason; run pegboard auth again.',
  },
  E_NAME_TAKEN: {
    audience: 'operator',
    retryable: false,
    meaning: 'Two tools or modules want the same name.',
    next: 'Rename one, or set a prefix.',
  },
  E_NAME_INVALID: {
    audience: 'operator',
    retryable: false,
    meaning: 'A module or tool name has illegal characters.',
    next: 'Use lower-case letters, digits, _ and -.',
  },
} as const satisfies Record<
  string,
  { audience: 'model' | 'operator'; retryable: boolean; meaning: string; next: string }
>

export type ErrorCode = keyof typeof errorCatalogue

export interface ErrorOptions {
  /** What to do next; default is the catalogue's. */
  readonly hint?: string
  readonly retryable?: boolean
  readonly retryAfterMs?: number
  readonly cause?: unknown
  /** More for the model: what the tool returned beside its error. */
  readonly data?: unknown
}

// A drop-in may carry its own copy of this package, so errors are known by this symbol and never by instanceof.
const BRAND = Symbol.for('pegboard.error')

/** A failure with a stable code. `message` is safe to show a client: no stack, address, absolute path or secret. */
export class PegboardError extends Error {
  readonly [BRAND] = true
  readonly code: ErrorCode
  readonly hint: string
  readonly retryable: boolean
  readonly retryAfterMs: number | null
  readonly data: unknown
  /** The call it belongs to, as in the log. Set where the call is run. */
  correlationId?: string

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'PegboardError'
    this.code = code
    this.hint = options.hint ?? errorCatalogue[code].next
    this.retryable = options.retryable ?? errorCatalogue[code].retryable
    this.retryAfterMs = options.retryAfterMs ?? null
    this.data = options.data
  }
}

/** Nothing new is begun, and what runs ends. */
export const shuttingDown = (): PegboardError => new PegboardError('E_SHUTTING_DOWN', 'The server is stopping.')

/** A result that is longer than one may be. */
export const resultTooLarge = (message: string): PegboardError =>
  new PegboardError('E_TOO_LARGE', message, { hint: 'Ask for a part, or raise execution.maxResultBytes.' })

/** What a tool throws when the model can do something about it: `throw new ToolError('No such city.', { hint: 'Try "City, Country".' })`. */
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

/** Message and hint as sentences, whatever their authors left out: `What is wrong. What to do.` */
export function sentences(message: string, hint: string): string {
  const closed = /[.!?…]$/.test(message) || message === '' ? message : `${message}.`
  return hint ? `${closed} ${hint}` : closed
}

/** The sentence an operator reads for anything thrown. */
export function messageOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error)
  } catch {
    // A module may throw what cannot even be looked at.
    return 'something was thrown that cannot be read'
  }
}
