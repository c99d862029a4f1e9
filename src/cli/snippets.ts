import { quoteWord } from '../core/quote-word.ts'

/** Replaces a token in a snippet that Pegboard does not know or must not print. */
export const PLACEHOLDER = 'TOKEN'

/** What clients need to connect. Paths are absolute. */
export interface ConnectionInfo {
  readonly node: string
  readonly script: string
  readonly config: string | undefined
  readonly profile?: string
  /** Present if it listens on HTTP. */
  readonly http?: {
    readonly url: string
    readonly token: string | undefined
    /** Where a person finds the token; present if `token` is the placeholder. */
    readonly tokenSource?: string | undefined
  }
}

export interface Snippet {
  readonly client: string
  /** Where to paste the text. */
  readonly place: string
  readonly text: string
}

/**
 * Settings to paste into common clients. Claude Desktop always starts its own process; the others use HTTP if
 * available.
 */
export function createSnippets(connection: ConnectionInfo): Snippet[] {
  const { http, config, profile } = connection
  const options = [
    ...(config === undefined ? [] : ['--config', config]),
    ...(profile === undefined ? [] : ['--profile', profile]),
  ]
  const start = { command: connection.node, args: [connection.script, 'serve', '--stdio', ...options] }
  const bearer = http?.token === undefined ? {} : { headers: { Authorization: `Bearer ${http.token}` } }
  const remote = http && { url: http.url, ...bearer }
  return [
    {
      client: 'Claude Desktop',
      place: 'claude_desktop_config.json (it starts its own Pegboard)',
      text: toJson({ mcpServers: { pegboard: start } }),
    },
    {
      client: 'Claude Code',
      place: 'run in a terminal',
      text: http
        ? `claude mcp add --transport http pegboard ${http.url}${http.token === undefined ? '' : ` --header "Authorization: Bearer ${http.token}"`}`
        : `claude mcp add pegboard -- ${[start.command, ...start.args].map(quoteWord).join(' ')}`,
    },
    { client: 'Cursor', place: '~/.cursor/mcp.json', text: toJson({ mcpServers: { pegboard: remote ?? start } }) },
    {
      client: 'VS Code',
      place: '.vscode/mcp.json',
      text: toJson({ servers: { pegboard: remote ? { type: 'http', ...remote } : { type: 'stdio', ...start } } }),
    },
  ]
}

const toJson = (value: unknown): string => JSON.stringify(value, null, 2)
