import type { FindingCode } from './findings.ts'

/** Facts about a server that failed. */
export interface ServerFailure {
  /** Pegboard's reason, which ends with the server's last words. */
  readonly reason: string
  readonly isRemote: boolean
  /** It sends credentials of its own. */
  readonly hasHeaders: boolean
}

type Rule = readonly [pattern: RegExp, code: FindingCode]

/** Reasons that Pegboard words itself. The first that matches counts. */
const OURS: readonly Rule[] = [
  [/^its sandbox is not available/, 'server-sandbox'],
  [/^command not found/, 'server-command-missing'],
  [/ cannot start \(E/, 'server-not-executable'],
  [/^its (?:cwd|envFile) (?:does not exist|cannot)|^command ".*" is relative/, 'server-path-missing'],
  [/is not safe to (?:run|use)/, 'server-unsafe-file'],
  [/requires a login/, 'server-login'],
  [/certificate/, 'server-certificate'],
  [/does not use TLS|^TLS failed/, 'server-no-tls'],
  [/not (?:valid )?MCP/, 'server-not-mcp'],
  [/leads back to this Pegboard/, 'server-loop'],
  [/^no answer/, 'server-silent'],
  [/^ECONNREFUSED/, 'server-refused'],
  [/^ENOTFOUND/, 'server-host-unknown'],
  [
    /^(?:EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENETDOWN|ECONNRESET|UND_ERR_\w+|network error)/,
    'server-needs-network',
  ],
  [/HTTP (?:3\d\d|404|405|410|501)/, 'server-wrong-path'],
  [/HTTP (?:429|5\d\d)/, 'server-busy'],
  [/HTTP 4\d\d/, 'server-rejects'],
]

/** What servers print before they exit. */
const THEIRS: readonly Rule[] = [
  [
    /ERR_UNKNOWN_BUILTIN_MODULE|EBADENGINE|(?:requires?|needs?|use) node(?:\.?js)? ?(?:v|version|>|\d)/i,
    'server-node-too-old',
  ],
  [
    /playwright install|executable doesn'?t exist|could not find (?:chrome|chromium|firefox|(?:a |expected )?browser)|(?:chrome|chromium|firefox|browser) (?:is |was )?not (?:found|installed)|no usable (?:browser|sandbox)/i,
    'server-needs-browser',
  ],
  [/docker daemon|docker\.sock|podman\.sock|cannot connect to (?:the )?(?:docker|podman)/i, 'server-needs-engine'],
  [
    /kube-?config|kubernetes|current-context|\.kube\b|:6443\b|no configuration has been provided|cluster/i,
    'server-needs-cluster',
  ],
  [
    /is not in this registry|No matching version|E404|404 Not Found|npm (?:error|ERR!) 404|could not find a version|not found in the package registry/i,
    'server-package-missing',
  ],
  [/cannot find module|ModuleNotFoundError|no module named/i, 'server-path-missing'],
  [
    /ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|ECONNREFUSED|ECONNRESET|getaddrinfo|network is unreachable|failed to fetch|dns error/i,
    'server-needs-network',
  ],
  [
    /(?:\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b|environment variable|api[ _-]?key|access token).*(?:not set|unset|missing|required|must be|undefined|not provided|empty)|(?:set|provide|missing|required|need|requires?|no) .*(?:\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b|environment variable|api[ _-]?key|access token)/i,
    'variable-missing',
  ],
  [/can'?t open file|ENOENT|no such file/i, 'server-path-missing'],
]

export function serverFault({ reason, isRemote, hasHeaders }: ServerFailure): FindingCode {
  const find = (rules: readonly Rule[], text: string): FindingCode | undefined =>
    rules.find(([pattern]) => pattern.test(text))?.[1]
  const exited = /^it (?:exited with code|was killed by)[^:;]*[:;]?/.exec(reason)
  if (exited) return find(THEIRS, reason.slice(exited[0].length)) ?? 'server-exited'
  if (/HTTP 40[13]|requires authorization/.test(reason)) return hasHeaders ? 'server-forbidden' : 'server-login'
  // The rest of a reason may be the server's.
  const printed = /^no answer within [\d.]+ s; it printed: /.exec(reason)
  if (printed) return find(THEIRS, reason.slice(printed[0].length)) ?? 'server-silent'
  const ours = find(OURS, reason)
  if (isRemote && ours === 'server-not-mcp') return 'server-wrong-path'
  return ours ?? find(THEIRS, reason) ?? 'server-failed'
}
