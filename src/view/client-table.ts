import type { SchemaStyle } from './portable-schema.ts'

/** What is known about a client program. Absent facts are unknown, and Pegboard then assumes no limit. */
export interface ClientFacts {
  readonly title: string
  /** Values of `clientInfo.name`, the usual one first. Case does not matter, and `*` matches anything. */
  readonly names: readonly string[]
  /** Maximum number of tools of all servers together. */
  readonly maxTools?: number
  /** Maximum length of a tool name, including the client's prefix. */
  readonly maxName?: number
  /** The client's prefix, for a server called `pegboard`. */
  readonly prefix?: string
  /** How schemas must be listed, if its models reject others. */
  readonly schema?: SchemaStyle
  /** In bytes. */
  readonly maxResultBytes?: number
  /** The client itself cuts or stores longer results, in tokens. */
  readonly maxResultTokens?: number
  /** The part of a result that its model reads: the content, or the structured content in its place if there is any. */
  readonly reads?: 'content' | 'structured'
  /** True if it applies changed lists during a conversation. */
  readonly listChanged?: boolean
  /** Keys of a tool's `_meta` that exclude it from the client's own search. */
  readonly deferral?: readonly string[]
  /** Maximum length of descriptions and of instructions, in characters. */
  readonly maxText?: number
  /** Forms of questions to users. What it declares in each session has priority. */
  readonly elicitation?: 'form' | 'form and url'
  readonly note?: string
  /** Where this was read, and when. */
  readonly sources: string
}

const REGISTRY = 'github.com/apify/mcp-client-capabilities'

/** By the id that Pegboard gives the client. Literals only, because every start loads them. */
export const clientFacts: Readonly<Record<string, ClientFacts>> = {
  'claude-desktop': {
    title: 'Claude Desktop, claude.ai',
    names: ['claude-ai'],
    maxName: 64,
    maxResultBytes: 1_000_000,
    reads: 'content',
    listChanged: false,
    note: 'One invalid name hides all tools. Reads a changed list, but continues to use the old one. Drops `_meta` of tools.',
    sources: `anthropics/claude-ai-mcp#960 (2026-08), anthropics/claude-code#66519, #78478, #55677 (2026-05), seuros/action_mcp#181 (2026-01), ${REGISTRY}`,
  },
  'claude-code': {
    title: 'Claude Code',
    names: ['claude-code'],
    maxName: 128,
    prefix: 'mcp__pegboard__',
    schema: 'strict',
    // Claude Code warns above this, and writes results above 25,000 tokens or 50,000 characters into a file.
    maxResultTokens: 10_000,
    reads: 'structured',
    listChanged: true,
    deferral: ['anthropic/alwaysLoad'],
    maxText: 2_048,
    note: 'Hides tools behind its own search. Applies a changed list from the next turn on (2.1.0; some versions did not). Writes results above 25,000 tokens or 50,000 characters to a file. If a call fails, its model reads only the text.',
    sources:
      'code.claude.com/docs/en/mcp, anthropics/claude-code#45106 (2026-04), #77314 (2026-07), #79944 and #86032 (2026-09), screenpipe/screenpipe#5796 (2026-08)',
  },
  cursor: {
    title: 'Cursor',
    names: ['cursor-vscode', 'Cursor'],
    maxTools: 40,
    maxName: 59,
    prefix: 'pegboard',
    schema: 'strict',
    reads: 'structured',
    listChanged: true,
    elicitation: 'form',
    note: 'The limit was 40 tools, then 80 (2025-09). Newer versions may have none. Pegboard uses the lowest limit. Set `maxTools` if you know the limit of your version.',
    sources: `ComposioHQ/composio#2788 (2026-02), Snowflake-Labs/mcp#77 (2025-09), code-yeongyu/senpi#952 (2026-08), modelcontextprotocol/modelcontextprotocol#1411 (2025-09), ${REGISTRY}`,
  },
  vscode: {
    title: 'VS Code (Copilot)',
    names: ['Visual Studio Code', 'Visual-Studio-Code', 'Visual Studio Code - Insiders', 'Code - OSS'],
    maxTools: 128,
    maxName: 64,
    prefix: 'mcp_pegboard_pegb_',
    reads: 'structured',
    listChanged: true,
    elicitation: 'form and url',
    note: 'Its prefix is up to 18 characters. Groups tools above its threshold; a request with more than 128 fails. Drops a tool with an array parameter that has no `items`.',
    sources: `microsoft/vscode#243602, #261213 (2025-08), #337428 (2026-09), mcpLanguageModelToolContribution.ts, mcp-servers-for-revit#5 (2026-03), ${REGISTRY}`,
  },
  windsurf: {
    title: 'Windsurf',
    names: ['windsurf-client', 'Windsurf'],
    maxTools: 100,
    reads: 'content',
    listChanged: true,
    sources: `docs.windsurf.com/windsurf/cascade/mcp, modelcontextprotocol/modelcontextprotocol#1411 (2025-09), ${REGISTRY}`,
  },
  codex: {
    title: 'Codex',
    names: ['codex-mcp-client', 'Codex'],
    maxName: 64,
    prefix: 'mcp__pegboard__',
    reads: 'structured',
    listChanged: false,
    elicitation: 'form',
    note: 'Its model provider sets the limit of names.',
    sources: `openai/codex codex-rs/protocol/src/models.rs (2026), #5309, #10105, #37417 (2026-08), screenpipe/screenpipe#5796 (2026-08), ${REGISTRY}`,
  },
  'gemini-cli': {
    title: 'Gemini CLI',
    names: ['gemini-cli-mcp-client', 'gemini-cli-mcp-client-*'],
    maxName: 64,
    prefix: 'mcp_pegboard_',
    reads: 'content',
    listChanged: true,
    note: 'Cuts longer names. Rewrites schemas for its models.',
    sources: `zuplo.com/learn/mcp/compatibility/clients/gemini-cli (2026-07), google-gemini/gemini-cli#5529 (2025-08), #14375, #21050 (2026-03), ${REGISTRY}`,
  },
  'copilot-cli': {
    title: 'Copilot CLI',
    names: ['github-copilot-developer'],
    maxName: 128,
    reads: 'structured',
    note: 'Above about 30 tools, it puts all of them behind its own search. Set `"deferTools": "never"` in its entry for Pegboard to prevent that. It is not known whether it applies changed lists.',
    sources: `docs.github.com/en/copilot/concepts/agents/copilot-cli/tool-search (2026), github/copilot-cli#3258 (2026-05), ${REGISTRY}`,
  },
  cline: {
    title: 'Cline',
    names: ['Cline'],
    listChanged: true,
    sources: REGISTRY,
  },
  kilo: {
    title: 'Kilo Code',
    names: ['Kilo-Code'],
    listChanged: true,
    sources: REGISTRY,
  },
  opencode: {
    title: 'opencode',
    names: ['opencode'],
    prefix: 'mcp__pegboard__',
    reads: 'structured',
    listChanged: true,
    sources: `anomalyco/opencode#5913 (2025-12), #32074 and #33533 (2026-06), ${REGISTRY}`,
  },
  goose: {
    title: 'Goose',
    names: ['goose', 'goose-*'],
    sources: REGISTRY,
  },
  zed: {
    title: 'Zed',
    names: ['Zed'],
    maxName: 64,
    note: 'Adds the name of the server to names that two servers have. It is not known whether it applies changed lists.',
    sources: `zed-industries/zed#32609, #45789 (2025-12), ${REGISTRY}`,
  },
}
