export interface Option {
  /** Name of the value in help, in capitals; absent for a switch. */
  readonly value?: string
  readonly short?: string
  readonly multiple?: boolean
  /** All values, for completion. */
  readonly choices?: readonly string[]
  readonly about: string
}

export interface Command {
  readonly name: string
  readonly summary: string
  /** Positional arguments as shown in help; default none. */
  readonly operands?: string
  readonly maxOperands?: number
  readonly options?: Readonly<Record<string, Option>>
}

/** Options of every command. */
export const commonOptions: Readonly<Record<string, Option>> = {
  config: {
    short: 'c',
    value: 'FILE',
    about: 'Configuration file (default: the one that pegboard config names).',
  },
  'insecure-permissions': {
    about: 'Accept configuration, module and secret files that other users of this machine can write.',
  },
  json: { about: 'Print JSON.' },
  verbose: { short: 'v', about: 'Log more to stderr.' },
  help: { short: 'h', about: 'Show help.' },
}

const frozen: Option = { about: 'Use only tools that are in pegboard.lock.json, and do not change that file.' }
const profile: Option = {
  value: 'NAME',
  about: 'Use this profile (default: the profile of this folder, otherwise "default").',
}
const wait: Option = {
  value: 'SECONDS',
  about: 'Seconds to wait for servers (default 10; 60 for a server that may be downloading).',
}
const replay: Option = {
  value: 'DIR',
  about: 'Answer from the recordings in this folder instead of starting servers (see pegboard record).',
}

const ranker: Option = {
  value: 'NAME',
  choices: ['hybrid', 'lexical', 'vector'],
  about: 'Ranker to use: hybrid, lexical (keywords only) or vector (embeddings only). Default hybrid.',
}
const registryOption: Option = { value: 'URL', about: 'Base URL of the registry, instead of registry.url.' }

export const commands: readonly Command[] = [
  {
    name: 'init',
    summary: 'Import servers from other MCP clients, and register Pegboard in them.',
    options: {
      from: {
        multiple: true,
        value: 'CLIENT',
        about: 'Import servers of this client only, such as claude-desktop (default: all clients). Repeat for more.',
      },
      into: {
        multiple: true,
        value: 'CLIENT',
        about:
          'Register Pegboard in this client (default: the clients that servers come from), or "none". Repeat for more.',
      },
      only: { multiple: true, value: 'NAME', about: 'Import only this server. Repeat for more.' },
      project: {
        about: 'Also import servers from the files of this project: .mcp.json, .cursor/mcp.json and .vscode/mcp.json.',
      },
      folder: { value: 'DIR', about: 'Folder that the file tools may read and write.' },
      keep: { about: 'Also leave imported servers in the clients. These clients then have the tools twice.' },
      'plain-secrets': { about: 'Leave secrets in the configuration instead of storing them.' },
      yes: {
        short: 'y',
        about: 'Ask nothing. Without a terminal, init only shows the changes, unless you pass this option.',
      },
      'dry-run': { about: 'Ask nothing, show what would be written, and change nothing.' },
    },
  },
  {
    name: 'serve',
    summary: 'Serve all tools to MCP clients: over stdio when a client starts it, over HTTP from a terminal.',
    options: {
      profile: { ...profile, about: 'Profile for clients that choose none (default "default").' },
      stdio: { about: 'Serve MCP over stdin and stdout.' },
      http: { about: 'Serve Streamable HTTP (/mcp) and HTTP+SSE (/sse).' },
      sse: { about: 'The same as --http.' },
      port: { short: 'p', value: 'N', about: 'Port to listen on, instead of server.http.port (0: any free port).' },
      host: { value: 'ADDRESS', about: 'Address to listen on, instead of server.http.host.' },
      frozen,
      replay,
    },
  },
  {
    name: 'ui',
    summary: 'Open the page of the running server in the browser.',
    options: {
      print: { about: 'Print the link instead of opening a browser. The link works once, within two minutes.' },
    },
  },
  {
    name: 'top',
    summary: 'Show servers, clients and calls of the running server as they change.',
    options: { once: { about: 'Print the current state and exit (default without a terminal).' } },
  },
  {
    name: 'list',
    summary: 'List tools, modules or servers.',
    operands: '[tools|modules|servers]',
    maxOperands: 1,
    options: {
      hidden: { about: 'Include tools that clients cannot see, with the reason.' },
      format: {
        value: 'NAME',
        choices: ['openai', 'anthropic', 'gemini', 'ollama'],
        about: 'Print the visible tool definitions as JSON for openai, anthropic, gemini or ollama.',
      },
      profile,
      replay,
      wait,
    },
  },
  {
    name: 'search',
    summary: 'Search tools as a client does.',
    operands: '<query>',
    maxOperands: 64,
    options: {
      limit: { value: 'N', about: 'Maximum number of results (1–100, default 5).' },
      ranker,
      explain: { about: 'Show how each result was scored: by keywords, by embedding and by past use.' },
      profile,
      replay,
      wait: { ...wait, about: 'Seconds to wait for servers whose tools Pegboard has not read yet (default 3).' },
    },
  },
  {
    name: 'why',
    summary: 'Explain why a tool is hidden, or how clients call it. With a query, explain how each result was scored.',
    operands: '<tool> | "<query>"',
    maxOperands: 64,
    options: {
      message: { value: 'TEXT', about: 'A user message, for tools that are listed only when a message asks for them.' },
      client: { value: 'NAME', about: 'Show how this client (such as "cursor") sees the tool.' },
      limit: { value: 'N', about: 'Maximum number of results for a query (1–100, default 5).' },
      profile,
      replay,
      wait,
    },
  },
  {
    name: 'call',
    summary: 'Run one tool.',
    operands: "<tool> ['{json}' | key=value …]",
    maxOperands: 64,
    options: {
      params: { multiple: true, value: 'KEY=VALUE', about: 'Set one argument. Repeat for more.' },
      profile,
      replay,
      wait,
    },
  },
  {
    name: 'record',
    summary: "Serve all tools, or run one tool. Record the servers' answers in a folder for --replay.",
    operands: "<folder> [tool ['{json}' | key=value …]]",
    maxOperands: 65,
    options: {
      params: { multiple: true, value: 'KEY=VALUE', about: 'Set one argument. Repeat for more.' },
      profile,
      wait,
      stdio: { about: 'Serve MCP over stdin and stdout.' },
      http: { about: 'Serve Streamable HTTP (/mcp) and HTTP+SSE (/sse).' },
      port: { short: 'p', value: 'N', about: 'Port to listen on, instead of server.http.port.' },
      host: { value: 'ADDRESS', about: 'Address to listen on, instead of server.http.host.' },
    },
  },
  {
    name: 'check',
    summary: 'Check the configuration and modules. Show the exposure mode and its token cost.',
    options: {
      client: {
        value: 'NAME',
        about: 'Show what this client (such as "cursor") sees, and what Pegboard changes for it.',
      },
      profile,
      replay,
      wait,
      frozen: { ...frozen, about: 'Fail if a server has a tool that is not in pegboard.lock.json.' },
    },
  },
  {
    name: 'doctor',
    summary: 'Find out what does not work, and how to fix it: configuration, machine, servers, search and clients.',
    operands: '[server …]',
    maxOperands: 500,
    options: {
      timeout: { value: 'SECONDS', about: 'Maximum time for one server (default 30, or 90 if it may be downloading).' },
    },
  },
  {
    name: 'review',
    summary: 'Show which tools wait for approval, and why. Approve or reject them.',
    operands: '[server] [tool …]',
    maxOperands: 500,
    options: {
      accept: { about: 'Approve the waiting tools of all servers, of one server, or the named tools.' },
      reject: { about: 'Reject the named tools until they change.' },
      frozen: { about: 'Change nothing. Exit with 1 if a tool differs from pegboard.lock.json.' },
    },
  },
  {
    name: 'registry',
    summary: 'Search the MCP registry for servers, or show what one of them would run.',
    operands: 'search <words> | show <name>',
    maxOperands: 20,
    options: {
      limit: { value: 'N', about: 'Maximum number of results (1–100, default 10).' },
      registry: registryOption,
    },
  },
  {
    name: 'add',
    summary:
      'Add a server to the configuration: from the registry, by URL, from npm, or a command. Show what will run, and ask first.',
    operands: '<name | URL | npm:package | command …>',
    maxOperands: 200,
    options: {
      name: { value: 'NAME', about: 'Name of the entry (default: from the name of the server).' },
      env: {
        multiple: true,
        value: 'NAME=VALUE',
        about:
          "Set a variable, argument or header that the server requires. NAME alone passes Pegboard's variable of that name. Repeat for more.",
      },
      sandbox: {
        value: 'KIND',
        choices: ['none', 'auto', 'bubblewrap', 'docker'],
        about: 'Limit what a local server may touch: none (default), auto, bubblewrap or docker.',
      },
      yes: { short: 'y', about: 'Do not ask.' },
      'dry-run': { about: 'Show what would be added, and change nothing.' },
      registry: registryOption,
      timeout: { value: 'SECONDS', about: 'Maximum time for the first start (default 120).' },
    },
  },
  {
    name: 'enable',
    summary:
      'Enable servers, APIs, modules or single tools in the configuration. A running Pegboard applies the change.',
    operands: '<server | server.tool> …',
    maxOperands: 500,
  },
  {
    name: 'disable',
    summary:
      'Disable servers, APIs, modules or single tools in the configuration. A running Pegboard applies the change.',
    operands: '<server | server.tool> …',
    maxOperands: 500,
  },
  {
    name: 'remove',
    summary: 'Remove servers or APIs from the configuration, or deny single tools to all clients.',
    operands: '<server | server.tool> …',
    maxOperands: 500,
  },
  {
    name: 'schema',
    summary: 'Show all tools of a module with their parameters, including hidden tools.',
    operands: '[module]',
    maxOperands: 1,
    options: { wait },
  },
  {
    name: 'prompt',
    summary: 'Print the system prompt that describes the tools.',
    operands: '[user prompt]',
    maxOperands: 500,
    options: {
      mode: {
        value: 'NAME',
        choices: ['native', 'text'],
        about: 'Write the prompt for models with tool calling (native) or without it (text).',
      },
      provider: {
        value: 'NAME',
        about: 'Choose the mode by model provider instead of --mode (default: the provider of the profile).',
      },
      agent: { value: 'NAME', about: 'Name of the agent (default "assistant").' },
      role: { value: 'TEXT', about: 'Purpose of the agent (default "assistant").' },
      profile,
      wait,
    },
  },
  {
    name: 'parse',
    summary: 'Find tool calls in model output, read from stdin.',
  },
  {
    name: 'eval',
    summary: 'Measure search on labelled queries.',
    options: {
      tools: {
        multiple: true,
        value: 'FILE',
        about:
          'Tools, one JSON object per line: {"id", "server", "name", "description", "inputSchema", "serverDescription"}.',
      },
      queries: {
        multiple: true,
        value: 'FILE',
        about:
          'Queries, one JSON object per line: {"id", "query", "relevant": [ids], "lang"}. Leave "relevant" empty if no tool fits.',
      },
      dir: {
        multiple: true,
        value: 'DIR',
        about:
          'Folder with tools.jsonl and queries.jsonl, or a folder of such folders, instead of --tools and --queries.',
      },
      pool: { value: 'PATH', about: 'More tools to search among: a file or folder in the same format.' },
      'pool-size': { value: 'N', about: 'Maximum number of tools to take from --pool (default all).' },
      ranker,
      embedder: { value: 'NAME', about: 'Embedding model, instead of search.embedder.' },
      'per-query': { value: 'FILE', about: 'Write the results of each query to this file, one JSON object per line.' },
    },
  },
  {
    name: 'suggest',
    summary: 'Propose aliases for tools that search ranked too low, from the recorded queries.',
    options: {
      apply: { about: 'Write the aliases to the configuration file. A backup is kept.' },
      clear: { about: 'Delete the recorded queries instead.' },
      profile,
      wait: { ...wait, about: 'Seconds to wait for servers whose tools Pegboard has not read yet (default 3).' },
    },
  },
  {
    name: 'auth',
    summary: 'Log in to a remote server, or list your logins.',
    operands: '[server]',
    maxOperands: 1,
    options: {
      principal: {
        value: 'NAME',
        about: 'Principal to log in, for servers with one login per principal (default "local").',
      },
      logout: { about: 'Delete the login.' },
      'no-browser': { about: 'Do not open a browser. Paste the final address of the login here instead.' },
      timeout: { value: 'SECONDS', about: 'Seconds allowed for the login (default 300).' },
    },
  },
  {
    name: 'token',
    summary: 'Create, list or revoke bearer tokens for clients over HTTP.',
    operands: '[create <name> | list | revoke <id or name>]',
    maxOperands: 2,
    options: {
      principal: {
        value: 'NAME',
        about: 'Owner of the token (default: the name of the token). Tools, logins and tasks belong to this name.',
      },
      profile: { ...profile, about: 'Limit the token to this profile (default: the profile in the address).' },
      role: { multiple: true, value: 'NAME', about: 'Give the token a role. Repeat for more.' },
      tools: {
        multiple: true,
        value: 'PATTERN',
        about:
          'Limit the token to tools that match, such as "github.*" (default: all tools of the profile). Repeat for more.',
      },
      effect: {
        value: 'EFFECT',
        choices: ['read', 'write', 'destructive'],
        about: 'Maximum effect of the tools to allow: read, write or destructive (default destructive).',
      },
      expires: { value: 'TIME', about: 'Lifetime of the token, such as 12h or 30d (default: until revoked).' },
    },
  },
  {
    name: 'undo',
    summary: 'Undo a change to configuration files (default: the last one made with this configuration).',
    operands: '[id]',
    maxOperands: 1,
    options: {
      list: { about: 'List the changes that can be undone, the newest first.' },
      force: { about: 'Undo even if a file changed since then. The later changes are lost.' },
    },
  },
  {
    name: 'config',
    summary: 'Show which configuration file is used, and why.',
    operands: '[path]',
    maxOperands: 1,
  },
  {
    name: 'secret',
    summary: 'Store, list or remove secrets that the configuration names as ${keyring:NAME}.',
    operands: '[set <name> | list | rm <name>]',
    maxOperands: 64,
  },
  {
    name: 'audit',
    summary: 'Verify the audit log: report lines that were changed, inserted or deleted.',
    operands: 'verify [file …]',
    maxOperands: 1_001,
    options: {
      key: { value: 'FILE', about: 'Key that signed the log (default: audit.key in dirs.state).' },
    },
  },
  {
    name: 'usage',
    summary: 'Show how many tokens your tools cost models, and how many they would have cost without Pegboard.',
    options: {
      by: {
        value: 'NAME',
        choices: ['day', 'tool', 'client', 'principal'],
        about: 'Group the rows by day, tool, client or principal (default day).',
      },
      days: { value: 'N', about: 'Number of days to show, today included (1–90, default 30).' },
      principal: { value: 'NAME', about: 'Count only this principal (default: all).' },
    },
  },
  {
    name: 'later',
    summary: 'List the background tasks, watchers and schedules of the running server, or stop one.',
    operands: '[list | stop <id>]',
    maxOperands: 2,
  },
  {
    name: 'completion',
    summary: 'Print the completion script of a shell.',
    operands: '<bash|zsh|fish>',
    maxOperands: 1_000,
    options: { profile },
  },
]

/** Words that people try, with the command that does this. The error for an unknown command suggests it. */
export const guessedCommands: ReadonlyMap<string, string> = new Map([
  ['status', 'doctor'],
  ['health', 'doctor'],
  ['ls', 'list'],
  ['tools', 'list'],
  ['servers', 'list'],
  ['modules', 'list'],
  ['find', 'search'],
  ['run', 'call'],
  ['exec', 'call'],
  ['start', 'serve'],
  ['install', 'add'],
  ['rm', 'remove'],
  ['delete', 'remove'],
  ['uninstall', 'remove'],
  ['login', 'auth'],
  ['setup', 'init'],
  ['import', 'init'],
  ['stats', 'usage'],
  ['revert', 'undo'],
])
