import type { Io } from './io.ts'

export interface Option {
  readonly type: 'string' | 'boolean'
  readonly short?: string
  readonly multiple?: boolean
  /** What the value is, in capitals, for help. */
  readonly value?: string
  readonly about: string
}

/** The words after the command, read. */
export interface Args {
  readonly values: Readonly<Record<string, string | boolean | ReadonlyArray<string | boolean> | undefined>>
  readonly positionals: readonly string[]
}

export interface Command {
  readonly name: string
  readonly summary: string
  /** Positional arguments, as help shows them. */
  readonly operands: string
  readonly maxOperands: number
  readonly options: Readonly<Record<string, Option>>
  /** Code is loaded when the command runs: `serve --stdio` is started by clients that wait for it. */
  load(): Promise<{ run(args: Args, io: Io): Promise<number> }>
}

/** Every command has these. */
export const commonOptions: Readonly<Record<string, Option>> = {
  config: {
    type: 'string',
    short: 'c',
    value: 'FILE',
    about:
      'Configuration file (default PEGBOARD_CONFIG, the nearest mcp.config.json that you confirmed, mcp.config.json in your configuration folder).',
  },
  'insecure-permissions': {
    type: 'boolean',
    about: 'Use configuration, modules and secret files that other users of this machine may write.',
  },
  json: { type: 'boolean', about: 'Print JSON.' },
  verbose: { type: 'boolean', short: 'v', about: 'Log more to stderr.' },
  help: { type: 'boolean', short: 'h', about: 'Show help.' },
}

const frozen: Option = {
  type: 'boolean',
  about: 'Only tools of servers that pegboard.lock.json has; nothing is written to it.',
}
const profile: Option = {
  type: 'string',
  value: 'NAME',
  about: 'As the clients of this profile; default "default".',
}
const wait: Option = {
  type: 'string',
  value: 'SECONDS',
  about: 'How long to wait for servers to answer; default 10, and a minute for one that may be downloading.',
}

export const commands: readonly Command[] = [
  {
    name: 'serve',
    summary: 'Serve all tools to MCP clients: on stdio when a client started it, over HTTP from a terminal.',
    operands: '',
    maxOperands: 0,
    options: {
      profile: { ...profile, about: 'What clients are that choose no profile; default "default".' },
      stdio: { type: 'boolean', about: 'Speak MCP on stdin and stdout.' },
      http: { type: 'boolean', about: 'Listen for Streamable HTTP (/mcp) and HTTP+SSE (/sse).' },
      sse: { type: 'boolean', about: 'The same as --http.' },
      port: { type: 'string', short: 'p', value: 'N', about: 'Port instead of server.http.port; 0 takes a free one.' },
      host: { type: 'string', value: 'ADDRESS', about: 'Address instead of server.http.host.' },
      frozen,
    },
    load: () => import('./serve.ts'),
  },
  {
    name: 'list',
    summary: 'List tools, modules or servers.',
    operands: '[tools|modules|servers]',
    maxOperands: 1,
    options: {
      hidden: { type: 'boolean', about: 'Also tools that clients do not see, and why.' },
      format: {
        type: 'string',
        value: 'NAME',
        about: 'The tools that clients are shown, as JSON for openai, anthropic, gemini or ollama.',
      },
      profile,
      wait,
    },
    load: () => import('./list.ts'),
  },
  {
    name: 'search',
    summary: 'Search tools as a client does.',
    operands: '<query>',
    maxOperands: 64,
    options: {
      limit: { type: 'string', value: 'N', about: 'How many answers, 1 to 100; default 5.' },
      lanes: { type: 'string', value: 'NAME', about: 'hybrid, lexical (words alone) or vector (meaning alone).' },
      explain: { type: 'boolean', about: 'Show what each answer is worth by words, by meaning and by use.' },
      profile,
      wait: { ...wait, about: 'How long to wait for servers never seen to answer; default 3.' },
    },
    load: () => import('./search.ts'),
  },
  {
    name: 'why',
    summary: 'Say why a tool is hidden or how it is called and listed; of a query, what each answer is worth.',
    operands: '<tool> | "<query>"',
    maxOperands: 64,
    options: {
      message: {
        type: 'string',
        value: 'TEXT',
        about: 'What a person wrote: for tools that are offered only when a message asks for them.',
      },
      limit: { type: 'string', value: 'N', about: 'Of a query: how many answers, 1 to 100; default 5.' },
      profile,
      wait,
    },
    load: () => import('./why.ts'),
  },
  {
    name: 'call',
    summary: 'Run one tool.',
    operands: "<tool> ['{json}' | key=value …]",
    maxOperands: 64,
    options: {
      params: { type: 'string', multiple: true, value: 'KEY=VALUE', about: 'One argument; may be repeated.' },
      profile,
      wait,
    },
    load: () => import('./call.ts'),
  },
  {
    name: 'check',
    summary: 'Check configuration and modules; show mode and token cost.',
    operands: '',
    maxOperands: 0,
    options: {
      client: {
        type: 'string',
        value: 'NAME',
        about: 'As this client, such as "cursor": what it is shown, and what is changed for it.',
      },
      profile,
      wait,
      frozen: { ...frozen, about: 'A tool of a server that pegboard.lock.json does not have is an error.' },
    },
    load: () => import('./check.ts'),
  },
  {
    name: 'review',
    summary: 'Show which tools of servers wait to be let in, and why; let them in or keep them out.',
    operands: '[server] [tool …]',
    maxOperands: 500,
    options: {
      accept: { type: 'boolean', about: 'Let in what waits: of all servers, of one, or the tools named.' },
      reject: { type: 'boolean', about: 'Keep the named tools out, and ask no more until they change.' },
      frozen: { type: 'boolean', about: 'Change nothing; exit 1 when anything differs from pegboard.lock.json.' },
    },
    load: () => import('./review.ts'),
  },
  {
    name: 'schema',
    summary: 'Show every tool of a module with its parameters, hidden ones included.',
    operands: '[module]',
    maxOperands: 1,
    options: { wait },
    load: () => import('./schema.ts'),
  },
  {
    name: 'prompt',
    summary: 'Show what a model should be told of its tools.',
    operands: '[prompt of the user]',
    maxOperands: 500,
    options: {
      mode: {
        type: 'string',
        value: 'NAME',
        about: 'native for models that call tools themselves, text for those that can only write.',
      },
      provider: {
        type: 'string',
        value: 'NAME',
        about: 'Instead of --mode: the provider of the model decides; default that of the profile.',
      },
      agent: { type: 'string', value: 'NAME', about: 'Name of the agent; default assistant.' },
      role: { type: 'string', value: 'TEXT', about: 'What the agent is for; default assistant.' },
      profile,
      wait,
    },
    load: () => import('./prompt.ts'),
  },
  {
    name: 'parse',
    summary: 'Find the tool calls in what a model wrote, on stdin.',
    operands: '',
    maxOperands: 0,
    options: {},
    load: () => import('./parse.ts'),
  },
  {
    name: 'eval',
    summary: 'Measure search on labelled queries.',
    operands: '',
    maxOperands: 0,
    options: {
      tools: {
        type: 'string',
        multiple: true,
        value: 'FILE',
        about: 'A tool a line: {"id", "server", "name", "description", "inputSchema", "serverDescription"}.',
      },
      queries: {
        type: 'string',
        multiple: true,
        value: 'FILE',
        about: 'A query a line: {"id", "query", "relevant": [ids], "lang"}; no ids when nothing answers it.',
      },
      dir: {
        type: 'string',
        multiple: true,
        value: 'DIR',
        about: 'Instead: a folder with tools.jsonl and queries.jsonl, or a folder of such folders.',
      },
      pool: { type: 'string', value: 'PATH', about: 'More tools to search among: a file or a folder like the above.' },
      'pool-size': { type: 'string', value: 'N', about: 'At most so many of them; default all.' },
      ranker: { type: 'string', value: 'NAME', about: 'hybrid, lexical or vector; default hybrid.' },
      embedder: { type: 'string', value: 'NAME', about: 'Instead of search.embedder of the configuration.' },
      'per-query': { type: 'string', value: 'FILE', about: 'Write what each query got there, a JSON line each.' },
    },
    load: () => import('./eval.ts'),
  },
  {
    name: 'auth',
    summary: 'Log in to a remote server, or show where you are logged in.',
    operands: '[server]',
    maxOperands: 1,
    options: {
      principal: {
        type: 'string',
        value: 'NAME',
        about: 'Whose login, where every principal has its own; default local.',
      },
      logout: { type: 'boolean', about: 'Forget the login.' },
      'no-browser': { type: 'boolean', about: 'Open nothing; the address after the login is pasted here.' },
      timeout: { type: 'string', value: 'SECONDS', about: 'How long the login may take; default 300.' },
    },
    load: () => import('./auth.ts'),
  },
  {
    name: 'token',
    summary: 'Make a bearer token for clients over HTTP, list those there are, or revoke one.',
    operands: '[create <name> | list | revoke <id or name>]',
    maxOperands: 2,
    options: {
      principal: { type: 'string', value: 'NAME', about: 'Who it is; default its name.' },
      profile: { ...profile, about: 'The only profile it is for; default any, as the address says.' },
      role: { type: 'string', multiple: true, value: 'NAME', about: 'A role it has; may be repeated.' },
      tools: {
        type: 'string',
        multiple: true,
        value: 'PATTERN',
        about: 'Only tools such as "github.*", by id or wire name; may be repeated. Default all of its profile.',
      },
      effect: {
        type: 'string',
        value: 'EFFECT',
        about: 'Only tools that do no worse: read, write or destructive; default destructive.',
      },
      expires: {
        type: 'string',
        value: 'TIME',
        about: 'How long it holds, such as 12h or 30d; default until revoked.',
      },
    },
    load: () => import('./token.ts'),
  },
  {
    name: 'audit',
    summary:
      'Say which lines of the audit log are not as they were written: changed, put in, or with lines missing before them.',
    operands: 'verify [file …]',
    maxOperands: 1_001,
    options: {
      key: {
        type: 'string',
        value: 'FILE',
        about: 'The key that they were signed with; default audit.key in dirs.state.',
      },
    },
    load: () => import('./audit.ts'),
  },
  {
    name: 'docs',
    summary: 'Rewrite the generated parts of README.md, docs and mcp.config.schema.json (for developers of Pegboard).',
    operands: '',
    maxOperands: 0,
    options: { check: { type: 'boolean', about: 'Change nothing; exit 1 when something is stale.' } },
    load: () => import('./docs.ts'),
  },
]
