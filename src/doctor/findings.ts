import { ownPackage } from '../app/package-info.ts'

/** What the finding means for the exit code: nothing, retry later, a person must act, the set-up is wrong. */
export type FindingExit = 0 | 10 | 11 | 12

interface FindingKind {
  readonly exit: FindingExit
  /** What is wrong, as a heading. */
  readonly title: string
  readonly why: string
  readonly fix: string
}

/** All findings of `pegboard doctor`. Codes are stable, and each has a section in docs/guides/doctor.md. */
export const findingCatalogue = {
  'config-missing': {
    exit: 12,
    title: 'The configuration file cannot be read',
    why: 'The file does not exist, is a folder, or this user may not read it.',
    fix: 'Correct --config or PEGBOARD_CONFIG, or create a configuration with pegboard init.',
  },
  'config-syntax': {
    exit: 12,
    title: 'The configuration file is not valid JSON',
    why: 'There is a missing or an extra comma, quote or bracket. The message has the line and column.',
    fix: 'Correct that line. Comments and trailing commas are allowed.',
  },
  'config-invalid': {
    exit: 12,
    title: 'A setting has a wrong name or value',
    why: 'Pegboard rejects unknown keys and wrong types, so that a typo does not go unnoticed.',
    fix: 'Correct the named key. The settings reference lists all keys.',
  },
  'config-unsafe': {
    exit: 12,
    title: 'Another user can change what Pegboard runs',
    why: 'The configuration, the lock file, the modules folder or the state folder can be written by other users of this machine.',
    fix: 'Remove the permission that the message names, or move the file to a folder that only you can write.',
  },
  'config-warning': {
    exit: 0,
    title: 'A setting has no effect, or probably not the effect that you intended',
    why: 'The setting names a tool, module or folder that does not exist, or its key is unknown. Pegboard ignores unknown keys in server entries, because people paste these entries from other clients.',
    fix: 'Correct or remove the named setting.',
  },
  'variable-missing': {
    exit: 12,
    title: 'A variable or a secret is not set',
    why: 'The configuration, or a server, needs a variable or secret that Pegboard does not have. Desktop applications start Pegboard with few variables.',
    fix: 'Set the variable where Pegboard starts, or write it into "env" of the server.',
  },
  'server-entry-invalid': {
    exit: 12,
    title: 'An entry of mcpServers cannot be used',
    why: 'The entry has a wrong type, or names neither a command nor a url. The other servers work.',
    fix: 'Correct the named key of the entry.',
  },
  'node-too-old': {
    exit: 12,
    title: 'Node.js is too old',
    why: 'Pegboard uses functions that only newer versions of Node.js have.',
    fix: 'Install Node.js 20.19 or later, and check which version your client starts.',
  },
  'state-unwritable': {
    exit: 12,
    title: 'The state folder cannot be written',
    why: 'Without it Pegboard forgets tools, approvals and logins at each start.',
    fix: 'Correct the owner or permissions of the folder, or set dirs.state or PEGBOARD_STATE_DIR.',
  },
  'state-unreachable': {
    exit: 10,
    title: 'The shared state cannot be reached',
    why: 'Redis does not answer at state.url, or another process uses the state with state.exclusive.',
    fix: 'Start Redis, correct state.url, or stop the other process. Then try again.',
  },
  'disk-full': {
    exit: 11,
    title: 'The disk of the state folder is nearly full',
    why: 'Pegboard no longer stores long results and tool lists, so that some space stays free.',
    fix: 'Delete files that you do not need, or set dirs.state to another disk.',
  },
  'lock-damaged': {
    exit: 12,
    title: 'The lock file is damaged',
    why: 'pegboard.lock.json is not a valid lock file. This often happens after a merge. Pegboard approves nothing new until it is repaired.',
    fix: 'Restore the file from version control, or repair it. If you delete it, you must approve all tools again.',
  },
  'port-in-use': {
    exit: 12,
    title: 'Another program uses the port',
    why: 'pegboard serve --http cannot listen on server.http.port, because another program uses this port.',
    fix: 'Set server.http.port to another port, or stop that program.',
  },
  'default-port-in-use': {
    exit: 0,
    title: 'Another program uses the default port',
    why: 'pegboard serve --http cannot listen there. Clients that start Pegboard over stdio do not need it.',
    fix: 'To serve over HTTP, set server.http.port to another port.',
  },
  'port-forbidden': {
    exit: 12,
    title: 'Pegboard may not listen on the address or port',
    why: 'The port needs more rights (below 1024), or the address does not belong to this machine.',
    fix: 'Set server.http.port to a port above 1024, and server.http.host to an address of this machine.',
  },
  'certificate-file': {
    exit: 12,
    title: 'A certificate file cannot be used',
    why: 'NODE_EXTRA_CA_CERTS or SSL_CERT_FILE names a file that does not exist or has no certificates, so connections fail.',
    fix: 'Correct the variable, or ask your company for the file.',
  },
  'proxy-invalid': {
    exit: 12,
    title: 'A proxy variable is not an address',
    why: 'Pegboard passes HTTP_PROXY, HTTPS_PROXY and ALL_PROXY to npx, uvx and docker. They cannot use this value.',
    fix: 'Write it as http://host:port, or unset it.',
  },
  'proxy-unreachable': {
    exit: 10,
    title: 'The proxy does not answer',
    why: 'npx, uvx and docker download servers through it.',
    fix: 'Connect to the network of the proxy, or unset the variable.',
  },
  'proxy-ignored': {
    exit: 0,
    title: 'Remote servers are not reached through the proxy',
    why: 'Pegboard checks the IP address of every remote server. It cannot do that through a proxy, so it connects directly. Only programs that download servers, such as npx, use the proxy.',
    fix: 'Allow direct connections to the hosts of remote servers.',
  },
  'module-failed': {
    exit: 12,
    title: 'A module could not be loaded',
    why: 'A file in the modules folder has an error, or a module cannot use its settings. The message has the file and line, or the setting. Other modules work.',
    fix: 'Correct the file or the setting that the message names. pegboard check shows the same error.',
  },
  'server-command-missing': {
    exit: 12,
    title: 'The program of a server was not found',
    why: "The command is not in Pegboard's PATH. Desktop applications start Pegboard with a short PATH.",
    fix: 'Install the program, or write its full path as "command".',
  },
  'server-path-missing': {
    exit: 12,
    title: 'A folder, file or module of a server does not exist',
    why: '"cwd", "envFile", or a file or module that the server opens is missing.',
    fix: 'Create or install it, or correct the path in the entry.',
  },
  'server-not-executable': {
    exit: 12,
    title: 'The program of a server cannot be executed',
    why: 'The file has no execute permission, or was built for another platform.',
    fix: 'Run chmod +x on the file. For a script, you can also set "command" to its interpreter, such as "node", and put the file into "args".',
  },
  'server-node-too-old': {
    exit: 12,
    title: 'A server needs a newer Node.js',
    why: 'The server uses functions that this version of Node.js does not have.',
    fix: 'Install a newer Node.js, or write the full path of one as "command".',
  },
  'server-unsafe-file': {
    exit: 12,
    title: 'Another user can change the program of a server',
    why: 'Pegboard does not run a program that other users of this machine can write.',
    fix: 'Remove the permission that the message names.',
  },
  'server-package-missing': {
    exit: 12,
    title: 'The package of a server does not exist',
    why: 'The registry has no package of that name or version.',
    fix: 'Correct the name or version in "args".',
  },
  'server-exited': {
    exit: 12,
    title: 'A server exits when it starts',
    why: 'The message has the last error that the server printed. Often an argument is missing.',
    fix: 'Run the command in a terminal, and correct the entry.',
  },
  'server-not-mcp': {
    exit: 12,
    title: 'The program does not speak MCP',
    why: 'It prints other text to stdout. It is not an MCP server, needs an argument such as "stdio", or writes its log to stdout.',
    fix: 'Read the documentation of the server, and correct "command" and "args".',
  },
  'server-silent': {
    exit: 10,
    title: 'A server does not answer in time',
    why: 'It may still be downloading, or it waits for input.',
    fix: 'Try again. If it fails every time, run the command in a terminal, or raise connectTimeoutMs.',
  },
  'server-refused': {
    exit: 10,
    title: 'Nothing listens at the address of a server',
    why: 'The connection was refused: the server is not running, or the port is wrong.',
    fix: 'Start the server, or correct "url".',
  },
  'server-host-unknown': {
    exit: 12,
    title: 'The host of a server does not exist',
    why: 'The name in "url" cannot be resolved.',
    fix: 'Correct "url". If the name is right, check the network and DNS.',
  },
  'server-needs-network': {
    exit: 10,
    title: 'A server has no network',
    why: 'Pegboard or the server cannot reach a host: no connection, a firewall, or a VPN that is off.',
    fix: 'Connect to the network or VPN that it needs, and try again.',
  },
  'server-certificate': {
    exit: 12,
    title: 'The certificate of a server is not accepted',
    why: 'It has expired, is for another host name, or Node.js does not trust its certificate authority. Many companies use their own authority.',
    fix: 'Start Pegboard with NODE_EXTRA_CA_CERTS=/path/to/authority.pem, or renew the certificate.',
  },
  'server-no-tls': {
    exit: 12,
    title: 'A server does not use TLS',
    why: '"url" begins with https://, but the server speaks plain http.',
    fix: 'Use http:// in "url" if the server is on your machine or network.',
  },
  'server-wrong-path': {
    exit: 12,
    title: 'There is no MCP server at the address',
    why: 'The host answers, but with a web page, a redirect or an error.',
    fix: 'Correct the path of "url". It is usually /mcp, or /sse for older servers.',
  },
  'server-forbidden': {
    exit: 12,
    title: 'A server rejects the credentials',
    why: 'The token in "headers" is wrong, has expired, or has too few rights.',
    fix: 'Set a valid token in the header, or in the variable that the header uses.',
  },
  'server-rejects': {
    exit: 12,
    title: 'A server rejects the request',
    why: 'It answered with an HTTP status of 400 or above. Often a header or a part of the address is missing.',
    fix: 'Read the documentation of the server, and correct "url" and "headers".',
  },
  'server-login': {
    exit: 11,
    title: 'A server needs a login',
    why: 'It requires OAuth, and there is no valid login.',
    fix: 'Run pegboard auth with the name of the server.',
  },
  'server-sandbox': {
    exit: 12,
    title: 'The sandbox of a server cannot be used',
    why: 'bubblewrap or the container engine is missing, or a folder of the sandbox does not exist. Pegboard does not start the server without its sandbox.',
    fix: 'Install bubblewrap (apt-get install bubblewrap) or the engine, correct "sandbox" in the entry, or set it to "none".',
  },
  'server-needs-browser': {
    exit: 11,
    title: 'A server needs a browser',
    why: 'It controls a browser, but did not find one.',
    fix: 'Install one, for example with npx playwright install chromium.',
  },
  'server-needs-cluster': {
    exit: 11,
    title: 'A server needs a cluster',
    why: 'It manages Kubernetes. It found no cluster configuration, or cannot reach the cluster.',
    fix: 'Create or choose one with kubectl config use-context, or set KUBECONFIG in "env".',
  },
  'server-needs-engine': {
    exit: 11,
    title: 'A server needs a container engine',
    why: 'Docker or Podman does not run, or this user may not use it.',
    fix: 'Start the engine, and check with docker info.',
  },
  'server-busy': {
    exit: 10,
    title: 'A server is overloaded or temporarily unavailable',
    why: 'It answered with HTTP 429 or 5xx, except 501.',
    fix: 'Try again later.',
  },
  'server-loop': {
    exit: 12,
    title: 'A server calls this Pegboard again',
    why: 'The entry points to this Pegboard, directly or through another server. Calls would never end.',
    fix: 'Remove the entry.',
  },
  'server-failed': {
    exit: 10,
    title: 'A server does not work',
    why: 'The message has the reason.',
    fix: 'Try again. If it fails every time, read the log with --verbose.',
  },
  'server-lists-nothing': {
    exit: 0,
    title: 'A server has no tools',
    why: 'It answers, but lists no tools, or "allow" and "deny" exclude all of them.',
    fix: 'Check "allow" and "deny" in the entry, and the settings that the server needs.',
  },
  'server-unpinned': {
    exit: 0,
    title: 'A server runs the newest version of a package',
    why: "The server's code can change whenever its author publishes a version.",
    fix: 'Add the version to the package name, such as name@1.2.3.',
  },
  'tools-waiting': {
    exit: 11,
    title: 'Tools wait for a review',
    why: 'Their definitions are new, have changed or look dangerous, so no client can call them.',
    fix: 'Run pegboard review.',
  },
  'api-failed': {
    exit: 10,
    title: 'An API cannot be used',
    why: 'Its OpenAPI document cannot be read.',
    fix: 'Check the address or file of the document.',
  },
  'model-unset': {
    exit: 12,
    title: 'The search model cannot be used',
    why: 'search.embedder names a model whose options or packages are missing.',
    fix: 'Correct search.embedder, or remove it to use the included model.',
  },
  'model-failed': {
    exit: 10,
    title: 'The search model does not answer',
    why: 'Until it answers, search uses keywords and the included model.',
    fix: 'Start the server of the model, or remove search.embedder.',
  },
  'model-damaged': {
    exit: 12,
    title: 'The included search model is missing or damaged',
    why: 'Files of the installation are missing. Search uses keywords only.',
    fix: 'Install Pegboard again.',
  },
  'index-incomplete': {
    exit: 10,
    title: 'The search index is not complete',
    why: 'Not all tools were indexed within the time limit.',
    fix: 'Try again. Tools that are not indexed yet are found by keywords.',
  },
  'llm-unreachable': {
    exit: 10,
    title: 'The language model cannot be reached',
    why: 'Nothing answers at services.llm.baseUrl. Tools that use a language model fail.',
    fix: 'Start it, or correct services.llm.baseUrl.',
  },
  'client-limits': {
    exit: 0,
    title: 'A client shows less than Pegboard lists',
    why: 'The client limits the number of tools, or the length of names and descriptions.',
    fix: 'Run pegboard check --client NAME to see what the client gets. Add the tools that you need to exposure.pinned.',
  },
} as const satisfies Readonly<Record<string, FindingKind>>

export type FindingCode = keyof typeof findingCatalogue

export interface Finding {
  readonly code: FindingCode
  /** What was checked: `server github`, `port`. */
  readonly about: string
  /** What is wrong, with names and values. */
  readonly message: string
  /** What to do here, if it is more exact than the `fix` of the code. */
  readonly fix?: string
}

/** A check without a finding. */
export interface PassedCheck {
  readonly about: string
  /** What is good. */
  readonly message: string
}

/** Where checks report, one after the other as they finish. */
export interface Reporter {
  found(finding: Finding): void
  passed(passed: PassedCheck): void
  /** Something takes longer than usual, as a sentence. */
  waiting(message: string): void
}

export const exitOf = ({ code }: Pick<Finding, 'code'>): FindingExit => findingCatalogue[code].exit

/** What is wrong with the set-up comes before what needs a person, and that before what may pass by itself. */
export const worstExit = (findings: readonly Finding[]): FindingExit =>
  ([12, 11, 10] as const).find((exit) => findings.some((one) => exitOf(one) === exit)) ?? 0

export const fixOf = ({ code, fix }: Finding): string => fix ?? findingCatalogue[code].fix

/** Address of the documentation of a finding. */
export const pageOf = ({ code }: Pick<Finding, 'code'>): string =>
  `${ownPackage().repository}/blob/main/docs/guides/doctor.md#${code}`
