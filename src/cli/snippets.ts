/** Stands in a snippet for a token that is known to its bearer alone. */
export const PLACEHOLDER = 'TOKEN'

/** What clients need to reach a Pegboard. Paths are absolute. */
export interface Reach {
  readonly node: string
  readonly script: string
  readonly config: string | undefined
  /** What `--profile` named. */
  readonly profile?: string
  /** Present when it listens on HTTP. */
  readonly http?: { readonly url: string; readonly token: string | undefined }
}

export interface Snippet {
  readonly client: string
  /** Where it goes. */
  readonly place: string
  readonly text: string
}

/**
 * Ready-to-paste settings of the common clients. Claude Desktop starts a process of its own whatever is running; the
 * others use HTTP when there is any.
 */
export function snippetsFor(reach: Reach): Snippet[] {
  const { http, config, profile } = reach
  const options = [
    ...(config === undefined ? [] : ['--config', config]),
    ...(profile === undefined ? [] : ['--profile', profile]),
  ]
  const start = { command: reach.node, args: [reach.script, 'serve', '--stdio', ...options] }
  const bearer = http?.token === undefined ? {} : { headers: { Authorization: `Bearer ${http.token}` } }
  const remote = http && { url: http.url, ...bearer }
  return [
    {
      client: 'Claude Desktop',
      place: 'claude_desktop_config.json (it starts its own Pegboard)',
      text: json({ mcpServers: { pegboard: start } }),
    },
    {
      client: 'Claude Code',
      place: 'run in a terminal',
      text: http
        ? `claude mcp add --transport http pegboard ${http.url}${http.token === undefined ? '' : ` --header "Authorization: Bearer ${http.token}"`}`
        : `claude mcp add pegboard -- ${[start.command, ...start.args].map(quoted).join(' ')}`,
    },
    { client: 'Cursor', place: '~/.cursor/mcp.json', text: json({ mcpServers: { pegboard: remote ?? start } }) },
    {
      client: 'VS Code',
      place: '.vscode/mcp.json',
      text: json({ servers: { pegboard: remote ? { type: 'http', ...remote } : { type: 'stdio', ...start } } }),
    },
  ]
}

const json = (value: unknown): string => JSON.stringify(value, null, 2)

/** A word for a shell, quoted only when it must be. */
export const quoted = (word: string): string =>
  /^[\w@%+=:,./\\-]+$/.test(word) ? word : `"${word.replaceAll(/(["$`])/g, '\\$1')}"`
