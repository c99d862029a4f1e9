import { posix, win32 } from 'node:path'
import { homeOf, type Machine } from '../config/machine.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { mapTexts } from '../core/map-texts.ts'
import { omitUndefined } from '../core/omit-undefined.ts'

/** Starts a server over stdio. */
export interface StartCommand {
  readonly command: string
  readonly args: readonly string[]
}

/** A program whose MCP configuration Pegboard reads and writes. */
export interface Client {
  readonly id: ClientId
  readonly title: string
  readonly format: 'json' | 'toml' | 'yaml'
  /** Candidates; the first is created if none exists. */
  files(folders: SettingsFolders): readonly string[]
  /** Path of the object with the servers. */
  serversAt(root: unknown): readonly string[]
  /** Further objects with servers that belong to one folder. */
  projects?(root: unknown): ReadonlyArray<readonly [folder: string, servers: unknown]>
  /** An entry in the format of Pegboard, with `enabled` or `disabled` as the client has it; undefined if it is no MCP server. */
  read(entry: Json): Json | undefined
  /** The entry that starts Pegboard. */
  write(start: StartCommand): Json
  /** How values of variables are written. `none`: the client takes them literally. */
  readonly variables: 'pegboard' | 'gemini' | 'opencode' | 'none'
}

export type ClientId =
  | 'claude-desktop'
  | 'claude-code'
  | 'cursor'
  | 'vscode'
  | 'windsurf'
  | 'codex'
  | 'gemini-cli'
  | 'opencode'
  | 'zed'
  | 'goose'

/** Folders that the paths of clients depend on. */
export interface SettingsFolders {
  readonly platform: NodeJS.Platform
  readonly env: Machine['env']
  readonly join: (...parts: string[]) => string
  readonly home: string
  /** XDG_CONFIG_HOME or ~/.config, on every platform. */
  readonly xdg: string
  /** Where applications keep their settings: ~/Library/Application Support, %APPDATA%, or `xdg`. */
  readonly settings: string
}

export function settingsFolders(machine: Machine): SettingsFolders {
  const { env } = machine
  const platform = machine.platform ?? process.platform
  const { join } = platform === 'win32' ? win32 : posix
  const home = machine.home || (platform === 'win32' ? env['USERPROFILE'] : env['HOME']) || homeOf(machine)
  const xdg = env['XDG_CONFIG_HOME'] || join(home, '.config')
  const settings =
    platform === 'win32'
      ? env['APPDATA'] || join(home, 'AppData', 'Roaming')
      : platform === 'darwin'
        ? join(home, 'Library', 'Application Support')
        : xdg
  return { platform, env, join, home, xdg, settings }
}

/** A client as most are: JSON with `mcpServers`, whose entries have the format of Pegboard. */
const client = (own: Pick<Client, 'id' | 'title' | 'files'> & Partial<Client>): Client => ({
  format: 'json',
  serversAt: () => ['mcpServers'],
  read: (entry) => entry,
  write: ({ command, args }) => ({ command, args }),
  variables: 'none',
  ...own,
})

export const clients: readonly Client[] = [
  client({
    id: 'claude-desktop',
    title: 'Claude Desktop',
    files: ({ settings, join }) => [join(settings, 'Claude', 'claude_desktop_config.json')],
  }),
  client({
    id: 'claude-code',
    title: 'Claude Code',
    files: ({ env, home, join }) => [join(env['CLAUDE_CONFIG_DIR'] || home, '.claude.json')],
    projects: (root) =>
      isRecord(root) && isRecord(root['projects'])
        ? Object.entries(root['projects']).flatMap(([folder, project]) =>
            isRecord(project) && isRecord(project['mcpServers']) ? [[folder, project['mcpServers']] as const] : [],
          )
        : [],
    write: ({ command, args }) => ({ type: 'stdio', command, args, env: {} }),
    variables: 'pegboard',
  }),
  client({
    id: 'cursor',
    title: 'Cursor',
    files: ({ home, join }) => [join(home, '.cursor', 'mcp.json')],
    variables: 'pegboard',
  }),
  client({
    id: 'vscode',
    title: 'VS Code',
    files: ({ settings, join }) => [join(settings, 'Code', 'User', 'mcp.json')],
    serversAt: () => ['servers'],
    write: ({ command, args }) => ({ type: 'stdio', command, args }),
    variables: 'pegboard',
  }),
  client({
    id: 'windsurf',
    title: 'Windsurf',
    files: ({ home, join }) => [join(home, '.codeium', 'windsurf', 'mcp_config.json')],
    read: ({ serverUrl, ...entry }) => (serverUrl === undefined ? entry : { url: serverUrl, ...entry }),
    variables: 'pegboard',
  }),
  client({
    id: 'codex',
    title: 'Codex',
    format: 'toml',
    files: ({ env, home, join }) => [join(env['CODEX_HOME'] || join(home, '.codex'), 'config.toml')],
    serversAt: () => ['mcp_servers'],
    read: readCodex,
  }),
  client({
    id: 'gemini-cli',
    title: 'Gemini CLI',
    files: ({ home, join }) => [join(home, '.gemini', 'settings.json')],
    // There, `url` is the old SSE transport.
    read: ({ httpUrl, url, ...entry }) =>
      httpUrl !== undefined
        ? { url: httpUrl, type: 'http', ...entry }
        : url !== undefined
          ? { url, type: 'sse', ...entry }
          : entry,
    variables: 'gemini',
  }),
  client({
    id: 'opencode',
    title: 'opencode',
    files: ({ xdg, join }) => [join(xdg, 'opencode', 'opencode.json'), join(xdg, 'opencode', 'opencode.jsonc')],
    // Version 2 has `mcp.servers`, and still reads the entries of version 1 below `mcp`.
    serversAt: (root) =>
      isRecord(root) && isRecord(root['mcp']) && isRecord(root['mcp']['servers']) ? ['mcp', 'servers'] : ['mcp'],
    read: readOpencode,
    write: ({ command, args }) => ({ type: 'local', command: [command, ...args] }),
    variables: 'opencode',
  }),
  client({
    id: 'zed',
    title: 'Zed',
    files: ({ platform, settings, xdg, join }) => [
      platform === 'win32' ? join(settings, 'Zed', 'settings.json') : join(xdg, 'zed', 'settings.json'),
    ],
    serversAt: () => ['context_servers'],
    read: readZed,
    write: ({ command, args }) => ({ source: 'custom', command, args, env: {} }),
  }),
  client({
    id: 'goose',
    title: 'Goose',
    format: 'yaml',
    files: ({ platform, settings, xdg, join }) => [
      platform === 'win32'
        ? join(settings, 'Block', 'goose', 'config', 'config.yaml')
        : join(xdg, 'goose', 'config.yaml'),
    ],
    serversAt: () => ['extensions'],
    read: readGoose,
    write: ({ command, args }) => ({
      ...{ enabled: true, type: 'stdio', name: 'pegboard', description: 'All tools behind one server.' },
      ...{ cmd: command, args, envs: {}, env_keys: [], timeout: 300 },
    }),
  }),
]

const reference = (variable: unknown): string => `\${${String(variable)}}`

/** A variable of the environment: other characters could name a secret of Pegboard. */
const variableNamed = (name: unknown): string => reference(String(name).replaceAll(/\W/g, '_'))

function readCodex(entry: Json): Json {
  const { command, args, cwd, url, enabled } = entry
  if (url === undefined) {
    const passed = Array.isArray(entry['env_vars']) ? entry['env_vars'].map((name) => [name, variableNamed(name)]) : []
    const env = { ...Object.fromEntries(passed), ...asRecord(entry['env']) }
    return { ...omitUndefined({ command, args, cwd, enabled }), ...(Object.keys(env).length > 0 ? { env } : {}) }
  }
  const named = isRecord(entry['env_http_headers']) ? Object.entries(entry['env_http_headers']) : []
  const headers = {
    ...asRecord(entry['http_headers']),
    ...Object.fromEntries(named.map(([name, variable]) => [name, variableNamed(variable)])),
    ...(entry['bearer_token_env_var'] === undefined
      ? {}
      : { Authorization: `Bearer ${variableNamed(entry['bearer_token_env_var'])}` }),
  }
  return { ...omitUndefined({ url, enabled }), ...(Object.keys(headers).length > 0 ? { headers } : {}) }
}

function readOpencode({ type, command, environment, url, headers, cwd, enabled, disabled }: Json): Json | undefined {
  const state = { enabled, disabled }
  if (type === 'local' && Array.isArray(command))
    return omitUndefined({ command: command[0], args: command.slice(1), cwd, env: environment, ...state })
  return type === 'remote' ? omitUndefined({ url, headers, ...state }) : undefined
}

function readZed({ command, args, env, url, headers, enabled }: Json): Json | undefined {
  if (url !== undefined) return omitUndefined({ url, headers, enabled })
  // Older files have an object, and servers of extensions have only settings.
  if (isRecord(command))
    return omitUndefined({ command: command['path'], args: command['args'], env: command['env'], enabled })
  return command === undefined ? undefined : omitUndefined({ command, args, env, enabled })
}

function readGoose({ type, cmd, args, envs, uri, headers, enabled, env_keys }: Json): Json | undefined {
  // Goose keeps the values of these in its own keyring.
  const keyringEntries = Array.isArray(env_keys)
    ? env_keys.map((name) => [name, reference(`keyring:${String(name)}`)])
    : []
  const env = { ...Object.fromEntries(keyringEntries), ...asRecord(envs) }
  if (type === 'stdio')
    return { ...omitUndefined({ command: cmd, args, enabled }), ...(Object.keys(env).length > 0 ? { env } : {}) }
  if (type === 'sse' || type === 'streamable_http')
    return omitUndefined({ url: uri, type: type === 'sse' ? 'sse' : 'http', headers, enabled })
  return undefined
}

/** Rewrites references to variables in every string of an entry. References that Codex and Goose name stay. */
export const toPegboardVariables = <T>(entry: T, style: Client['variables']): T =>
  mapTexts(entry, (given) => {
    // No client has it, so it must not name a secret of Pegboard.
    const text = style === 'none' ? given : given.replaceAll(/(?<!\$)\$\{(?=keyring:)/g, () => '$${')
    if (style === 'pegboard') return text
    if (style === 'gemini')
      return text.replaceAll(/\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})/g, (_all, a, b) => reference(a ?? b))
    if (style === 'opencode') return text.replaceAll(/\{env:([A-Za-z_]\w*)\}/g, (_all, name) => reference(name))
    return text.replaceAll('${', () => '$${')
  })
