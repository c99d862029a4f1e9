import { listErrorCodes } from './error-codes.ts'

/** Why a call failed: who can do something about it, and whether the same call can work later. */
export type FailureClass = keyof typeof failureClasses

/** All classes, with the hint for a model. Each hint is one or two short sentences, because every failed call sends one. */
export const failureClasses = {
  argument: {
    retryable: false,
    meaning: 'The arguments, or the order of the calls, are wrong.',
    hint: 'Correct the call as the message says.',
  },
  not_found: {
    retryable: false,
    meaning: 'A file, record, tool or other named thing does not exist.',
    hint: 'Check the name, id or path, or list what exists.',
  },
  permission: {
    retryable: false,
    meaning: 'A rule or a missing right forbids it.',
    hint: 'Use something that is allowed, or ask the operator.',
  },
  login: {
    retryable: false,
    meaning: 'A login, token or API key is missing, expired or wrong.',
    hint: 'Ask the operator to log in or to set the key of this server.',
  },
  server_setup: {
    retryable: false,
    meaning: 'A program, file or setting is missing where the server runs.',
    hint: 'Tell the operator what the server lacks, or use another tool.',
  },
  network: {
    retryable: true,
    meaning: 'A host or service cannot be reached.',
    hint: 'Try again later, or use another tool. If you chose the address, check it.',
  },
  timeout: {
    retryable: true,
    meaning: 'There was no answer in time.',
    hint: 'Ask for less, or try again later.',
  },
  rate: {
    retryable: true,
    meaning: 'There were too many requests, or a quota is used up.',
    hint: 'Wait before the next call, and make fewer calls.',
  },
  bug: {
    retryable: false,
    meaning: 'The tool or its server failed internally.',
    hint: 'Use another tool, and report the message to the operator.',
  },
} as const satisfies Record<string, { retryable: boolean; meaning: string; hint: string }>

/** The hint of a class, after its name. */
export const hintOf = (failure: FailureClass): string => `Class ${failure}: ${failureClasses[failure].hint}`

/** A hint, or the notice with a hint, without the name of the class, which only models need. */
export const withoutClassName = (text: string): string => text.replace(/^(\[NOTICE\] )?Class [a-z_]+: /, '$1')

export interface FailureFacts {
  readonly status?: number
  readonly rpcCode?: number
}

/**
 * The class of a failure: by codes first, then by words. Undefined if neither shows it. The text may be hostile: only its
 * beginning and end are read, in linear time, and the result only selects one of the fixed hints.
 */
export function classifyFailure(text: string, { status, rpcCode }: FailureFacts = {}): FailureClass | undefined {
  const read = text.length <= MAX_READ ? text : `${text.slice(0, MAX_READ - MAX_END)}\n${text.slice(-MAX_END)}`
  const code = status ?? statusIn(read)
  const byStatus = code === undefined ? undefined : classOfStatus(code)
  if (byStatus !== undefined && !UNCLEAR_STATUS.has(code)) return byStatus
  const [found] = RULES.find(([, rule]) => rule.test(read)) ?? []
  return found ?? byStatus ?? classOfRpcCode(rpcCode) ?? classByWords(read)
}

/** As `classifyFailure`, for a server that does not start or is not connected. The cause is never an argument of a call. */
export function classifyDisconnect(reason: string): FailureClass {
  const found = classifyFailure(reason)
  if (found === 'login' || found === 'network' || found === 'timeout' || found === 'rate') return found
  return found !== undefined || NEVER_STARTED.test(reason) ? 'server_setup' : 'network'
}

/** The class of an error of the operating system or of a socket, such as `ECONNREFUSED`. Looks at the causes too. */
export function classifyThrown(error: unknown): { readonly class: FailureClass; readonly code: string } | undefined {
  for (const { code, syscall } of listErrorCodes(error)) {
    if (!/^(?:E[A-Z]{2,15}|UND_ERR_[A-Z_]{1,30})$/.test(code)) continue
    const found = classifyFailure(syscall?.startsWith('spawn') ? `spawn ${code}` : code)
    if (found !== undefined) return { class: found, code }
  }
  return undefined
}

/** Characters of a text that are read, and how many of them from its end: tracebacks end with the error. */
const MAX_READ = 2_000
const MAX_END = 500

/** Reasons of a server that exited or never sent MCP. */
const NEVER_STARTED = /it exited with code|it was killed by|output is not MCP|cannot start|command not found/i

/** Servers use these for different failures, such as 403 for a rate limit. So the words of the message decide first. */
const UNCLEAR_STATUS: ReadonlySet<number | undefined> = new Set([400, 403, 500])

function classOfStatus(status: number): FailureClass | undefined {
  if (status < 300 || status === 304 || status > 599) return undefined
  if (status < 400 || status === 407) return 'server_setup'
  if (status === 401) return 'login'
  if (status === 402 || status === 403) return 'permission'
  if (status === 404 || status === 410) return 'not_found'
  if (status === 408 || status === 504) return 'timeout'
  if (status === 429) return 'rate'
  if (status === 502 || status === 503) return 'network'
  return status < 500 ? 'argument' : 'bug'
}

/** Returns undefined for -32603, because most servers send this code for every failure. */
function classOfRpcCode(code: number | undefined): FailureClass | undefined {
  if (code === -32601 || code === -32002) return 'not_found'
  return code === -32602 || code === -32600 || code === -32700 ? 'argument' : undefined
}

const STATUS =
  /(?:\bHTTP|\b[Ss]tatus(?:[ _]?[Cc]ode)?|\b[Cc]ode|[Ee]rror|\bresponded with|\breturned|\bfailed with)[ :=/"'([]{0,4}(?:[12](?:\.\d)? )?([345]\d\d)\b(?! ?(?:ms|s|bytes|characters)\b)|(?:^|: |\()([45]\d\d) (?:[A-Z][a-z]|\()/

function statusIn(text: string): number | undefined {
  const [, named, bare] = STATUS.exec(text) ?? []
  return named === undefined && bare === undefined ? undefined : Number(named ?? bare)
}

/**
 * Names of errors and wordings with one meaning, the most specific first. Gaps are bounded and nothing is repeated
 * within a repetition, so each test takes linear time.
 */
const RULES: ReadonlyArray<readonly [FailureClass, RegExp]> = [
  [
    'not_found',
    /\bunknown tool\b|\btool ["'`]?[\w.:/-]{1,80}["'`]? (?:was |is )?not found|\btool not found|\b(?:no|unknown) such tool/i,
  ],
  // Messages of validators.
  [
    'argument',
    /\binput validation|\bvalidation failed|\bvalidation ?error|\binvalid (?:url|uri|scheme|json|regular expression|date|arguments?|params?|parameters?|input|request parameters)\b|"?code"?: "?(?:invalid_type|invalid_enum_value|invalid_string|too_small|too_big|unrecognized_keys)|\bINVALID_ARGUMENT\b|\binvalid_arguments\b|\bmutually exclusive\b|\bprovide one of\b|\bexpected \w{3,9}, (?:received|got)\b|\bmissing required (?:arg|param|input|field|prop)|\bTypeError: Invalid URL|\bERR_INVALID_(?:URL|ARG)/i,
  ],
  [
    'rate',
    /\brate.?limit|\btoo many requests|\bquota\b|\bthrottl(?:ed|ing)|\bRESOURCE_EXHAUSTED\b|\bslow down\b|\b(?:usage|request|credit) limit|\bout of credits|\binsufficient (?:credits|balance)/i,
  ],
  // Programs that are missing: before the names of keys and files, which their messages contain.
  [
    'server_setup',
    /\bspawn\b[^\n]{0,200}\b(?:ENOENT|EACCES)\b|\bexecutable doesn't exist|\bplaywright install|\bpuppeteer browsers install|\b(?:could not|cannot|couldn't|can't|unable to|failed to) (?:find|locate|launch|obtain|detect|start)(?: \w{1,20})? (?:chrom|browser|firefox|edge|webkit|driver|java|python|node|git|executable|ffmpeg|godot|interpreter|installation)|\b(?:browser|chrome|chromium|firefox|driver|binary|executable|program)\b[^\n]{0,60} (?:was |is |are )?(?:not found|not installed|missing)|\bcommand not found|\brequires (?:\w{1,20} (?:or )?){0,3}browser\b|\bconfig(?:uration)? file (?:was |is )?(?:not found|missing)|\b(?:no|find|missing) (?:a )?config(?:uration)? file|\bno configuration found|\bis not recognized as an internal|\bnot installed\b(?! on this)|\bno \w{2,20} installation|\bcannot find (?:module|package)|\bMODULE_NOT_FOUND\b|\bbindings file|\bshared object file|\bMissing X server|\bdocker daemon|\bdocker\.sock\b|\b(?:ENOSPC|EDQUOT|ENOMEM|EMFILE|ENFILE|EADDRINUSE|ERR_DLOPEN_FAILED)\b|\bno space left|\bout of memory|\bextension\b[^\n]{0,40} not connected|\bno connection to browser/i,
  ],
  [
    'login',
    /\bUNAUTHENTICATED\b|\b(?:un|not )authenticated\b|\bunauthorized\b|\b(?:not_authed|invalid_auth|token_expired|token_revoked|invalid_token|invalid_grant|invalid_client|expired_token|ExpiredToken|InvalidClientTokenId|authentication_error)\b|\bbad credentials|\b(?:invalid|missing|expired|incorrect|wrong|no) (?:\w{1,20} ){0,2}(?:api[ _-]?key|access[ _-]?key|access[ _-]?token|auth[ _-]?token|api[ _-]?token|bearer token|credentials?|password|login)\b|\b(?:api[ _-]?key|access[ _-]?token|api[ _-]?token|token|credentials?)\b[^\n]{0,60} (?:is |are |was |were |not )?(?:required|missing|invalid|expired|not set|not valid|not configured|revoked|not provided|must be set|not found|incorrect)\b|_(?:TOKEN|KEY|SECRET|PASSWORD|APIKEY|PAT|CREDENTIALS)\b[^\n]{0,80}\b(?:required|missing|not set|not provided|must be set|must be provided|not found|not configured|undefined|environment variable)|\b(?:set|provide|export|need|specify)\b[^\n]{0,60}(?:_(?:TOKEN|KEY|SECRET|PASSWORD|PAT)\b|\bAPI key)|\bauthentication (?:failed|required|error|is required)|\bpassword authentication failed|\baccess denied for user|\blog ?in (?:required|first|again)|\bre-?authenticate|\b(?:tokens?|credentials) (?:is|are) no longer valid|\bmissing required [^\n]{0,30}\b(?:token|key|password|secret)\b|\bplease (?:log|sign) ?in|\bnot (?:logged|signed) in|\brequires? (?:authentication|a login|login|authorization)|\bsession (?:has )?expired|\ball configured authentication methods failed/i,
  ],
  [
    'timeout',
    /\b(?:ETIMEDOUT|ESOCKETTIMEDOUT|UND_ERR_\w{0,12}_?TIMEOUT|DEADLINE_EXCEEDED|ERR_TIMED_OUT|ERR_CONNECTION_TIMED_OUT|TimeoutError|ECONNABORTED)\b|\btim(?:ed|e|ing)[ -]?out (?:of|after|while|waiting|exceeded|reached)|\btimed out\b|\btimeout (?:of )?\d|\btimeout (?:exceeded|expired|reached|waiting|error)|\b(?:request|connection|operation|query|command|navigation|execution) timeout\b|\bdeadline exceeded|\btook too long|\bno answer within|\bdid not (?:answer|respond) (?:in time|within)/i,
  ],
  [
    'network',
    /\b(?:ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|EHOSTDOWN|ENETUNREACH|ENETDOWN|EPIPE|UND_ERR_SOCKET|UND_ERR_CONNECT\w{0,8})\b|\bERR_(?:NAME_NOT_RESOLVED|CONNECTION_\w{1,20}|INTERNET_DISCONNECTED|ADDRESS_UNREACHABLE|NETWORK_\w{1,20}|PROXY_\w{1,30}|TUNNEL_\w{1,30}|EMPTY_RESPONSE)\b|(?<!\bgit )\bfetch failed|\bfailed to fetch\b|\bsocket hang up|\bconnection (?:was )?(?:refused|reset|closed|lost|terminated|error)|\bconnect(?:ion)? to [^\n]{0,80} (?:failed|refused)|\b(?:could not|couldn't|cannot|unable to|failed to) (?:connect|resolve|reach)\b|\b(?:network|host|server|cluster|service|endpoint|API) (?:is |was )?(?:unreachable|not reachable|down|unavailable|offline)|\bnetwork (?:error|request failed|is unreachable)|\bno such host|\bname or service not known|\btemporary failure in name resolution|\bgetaddrinfo\b|\b14 UNAVAILABLE\b|\bname resolution failed|\bno response (?:from|received)|\bservice unavailable|\btemporarily unavailable|\bConnectError\b|\bConnectionError\b|\bno route to host|\bis the server running/i,
  ],
  // Programming errors.
  [
    'bug',
    /\bcannot read propert(?:y|ies) of (?:undefined|null)|\bcannot set propert(?:y|ies) of|\bis not a (?:function|constructor)\b|\bis not iterable|\bundefined is not|\bcannot destructure|\bmaximum call stack|\bNullPointerException|\bnull pointer|\bpanic:|\bsegmentation fault|\bassertion(?:error| failed)|\bAttributeError:|\bKeyError:|\bunhandled (?:exception|rejection|promise)|\bshould never happen|\bnot (?:yet )?implemented|\bcircular structure|\bUnexpected token\b[^\n]{0,60} (?:in|is not valid) JSON|\bUnexpected end of JSON/i,
  ],
  [
    'permission',
    /\b(?:EACCES|EPERM|EROFS|PERMISSION_DENIED|ACCESS_DENIED|AccessDenied(?:Exception)?|AuthorizationFailed|INSUFFICIENT_SCOPES?|missing_scope|restricted_resource|not_allowed_token_type|UnauthorizedOperation)\b|\b(?:access|permission|request) (?:is |was |to \S{1,80} )?denied|\bpermission\b[^\n]{0,30} (?:required|missing)|\b(?:not|isn't|is not|aren't) (?:permitted|allowed|authorized|accessible by)\b|\bnot have (?:the )?(?:\w{1,20} )?(?:permission|access|rights|privilege)|\boutside (?:of )?(?:the |of |all )?(?:\w{1,20} )?(?:allowed|permitted|root|workspace|project|working|sandbox|director)|\b(?:forbidden|prohibited|disallowed)\b|\binsufficient (?:\w{1,20} )?(?:permission|scope|privilege|access|rights)|\b(?:read|view)[ -]?only (?:mode|access|transaction|database|server|file)|\b(?:blocked|refus(?:ed|ing|es)|denied) (?:by|to (?:read|write|access|run|open|execute|delete)|url|for security|command|host)|\bblocked (?:url|domain|command|path)|\bfor security reasons|\bsecurity (?:policy|restriction|violation)|\bnot (?:in|on) the (?:allow|white)[ -]?list|\bis private\/|\bblocked request to\b|\bnot_in_channel\b|\bnot configurable via\b|\bonly (?:SELECT|read|GET)\b[^\n]{0,40} (?:allowed|permitted)/i,
  ],
  [
    'argument',
    /\b(?:EISDIR|EEXIST|ENOTEMPTY|ENAMETOOLONG|EINVAL|ELOOP)\b|\balready exists|\bnot a (?:git repository|directory|file|valid)\b|\bno exact match|\bexact match for\b|\bsyntax error|\bsyntaxerror\b|\bparse error|\bunknown (?:flag|option|unit|command|argument|parameter|action|operation|type|language|format|field|column)\b|\bunsupported\b|\bunrecognized (?:option|argument|flag|command)|\bis ambiguous|\bmalformed\b/i,
  ],
  [
    'not_found',
    /\b(?:ENOENT|ENOTDIR|NOT_FOUND|ResourceNotFound(?:Exception)?|NoSuch(?:Key|Bucket|Entity)|channel_not_found|user_not_found|object_not_found|not_found)\b|\bno such (?:file|table|column|index|key|bucket|container|image|object|user|project|branch|pod|module|thing|process|element|session)|\bdoes(?: not|n't) exist|\b(?:do not|don't) exist|\b(?:was |were |is |be |are |could )?not (?:be )?found\b|\bnot_found\b|\bcould not find\b|\bcouldn't find\b|\bcannot find\b|\bcan't find\b|\bunable to (?:find|locate)|\bfailed to (?:find|locate)|\bno (?:\w{1,20} ){0,2}(?:found|matching|matches|exists?)\b|\bnothing found|\bunknown (?:\w{1,20} )?(?:id|user|project|resource|session|table|database|repo|repository|host|channel|page|revision|branch|name|key)\b|\bbad revision|\bnot (?:open|active|running|available|registered|loaded)\b|\bno (?:active|open|current|running|existing) \w|\bno \w{1,20} with (?:id|name|that|the)|\bhas expired\b/i,
  ],
]

/** Ambiguous words. They count only if no code and no entry of `RULES` matches. */
const WORDS: ReadonlyArray<readonly [FailureClass, RegExp]> = [
  [
    'server_setup',
    /\benvironment variable|\b[A-Z][A-Z\d]{1,20}_[A-Z\d_]{2,40} (?:is |to be |must be )?(?:required|missing|not set|set|provided)\b|\bnot configured|\bconfiguration (?:error|file)|\bmisconfigur|\b(?:config|setting|option) [^\n]{0,60} (?:missing|required|not set)|\bsetup\b/i,
  ],
  [
    'argument',
    /\binvalid\b|\brequired\b|\bmust (?:be|have|provide|contain|specify|start|match|not)\b|\bexpected\b|\bmissing\b|\bplease (?:provide|specify|use|supply)|\b(?:provide|specify) (?:either|at least|one|a|an)\b|\bcannot (?:be|specify|parse|use|have|contain)\b|\bcould not (?:parse|extract)|\bfailed to parse|\bunable to parse|\bout of (?:range|bounds)|\btoo (?:large|long|short|small|many|big|few)\b|\b(?:is|are) not (?:a |an )?(?:valid|supported|number|string|integer)|\bbad request|\bnot supported|\bempty\b|\bwrong\b|\bfirst\b|\bargument\b|\bonly\b/i,
  ],
  [
    'bug',
    /\binternal (?:server )?error|\bunexpected\b|\bunknown error|\bsomething went wrong|\bexception\b|\btraceback\b|\bcrash|\bexited with code/i,
  ],
]

const classByWords = (text: string): FailureClass | undefined => WORDS.find(([, words]) => words.test(text))?.[0]
