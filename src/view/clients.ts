import type { SchemaStyle } from './portable.ts'

/** What is known of one client program. What is absent nobody knows, and nothing is done about it. */
export interface ClientFacts {
  readonly title: string
  /** What it sends as `clientInfo.name`, the usual one first; case makes no difference, `*` is anything. */
  readonly names: readonly string[]
  /** Tools it takes, of all its servers together. */
  readonly maxTools?: number
  /** Longest name of a tool, together with what it puts before ours. */
  readonly maxName?: number
  /** What it puts before ours, for a server called `pegboard`. */
  readonly prefix?: string
  /** How schemas must be listed, where it hands them to a model that refuses others. */
  readonly schema?: SchemaStyle
  /** Longest result it takes. */
  readonly maxResultBytes?: number
  /** Takes over a changed list within a conversation. */
  readonly listChanged?: boolean
  /** Keys of a tool's `_meta` that keep it out of the client's own search. */
  readonly deferral?: readonly string[]
  /** Characters of a description, and of instructions, that reach the model. */
  readonly maxText?: number
  /** The shapes of question it can put to a person. What it declares in each session decides. */
  readonly elicitation?: 'form' | 'form and url'
  readonly note?: string
  /** Where this was read, and when it was true. */
  readonly sources: string
}

const REGISTRY = 'github.com/apify/mcp-client-capabilities'

/** By a short name of ours. Literals only: it is part of every start. */
export const clientFacts: Readonly<Record<string, ClientFacts>> = {
  'claude-desktop': {
    title: 'Claude Desktop, claude.ai',
    names: ['claude-ai'],
    maxName: 64,
    maxResultBytes: 1_000_000,
    listChanged: false,
    note: 'One illegal name hides all tools. Lists again when told, and then goes on with the old list. Leaves `_meta` of tools out.',
    sources: `anthropics/claude-ai-mcp#960 (2026-08), anthropics/claude-code#66519 and #78478 (2026), ${REGISTRY}`,
  },
  'claude-code': {
    title: 'Claude Code',
    names: ['claude-code'],
    maxName: 128,
    prefix: 'mcp__pegboard__',
    schema: 'strict',
    listChanged: true,
    deferral: ['anthropic/alwaysLoad'],
    maxText: 2_048,
    note: 'Puts tools behind a search of its own. Takes over a list from the next turn on (2.1.0; some versions did not). Writes results above 25,000 tokens to a file.',
    sources:
      'code.claude.com/docs/en/mcp, anthropics/claude-code#45106 (2026-04), #77314 (2026-07), screenpipe/screenpipe#5796 (2026-08)',
  },
  cursor: {
    title: 'Cursor',
    names: ['cursor-vscode', 'Cursor'],
    maxTools: 40,
    maxName: 59,
    prefix: 'pegboard',
    schema: 'strict',
    listChanged: true,
    elicitation: 'form',
    note: 'The cap was 40 tools, then 80 (2025-09); newer versions may have none. The least is taken: set `maxTools` where you know better.',
    sources: `ComposioHQ/composio#2788 (2026-02), Snowflake-Labs/mcp#77 (2025-09), code-yeongyu/senpi#952 (2026-08), ${REGISTRY}`,
  },
  vscode: {
    title: 'VS Code (Copilot)',
    names: ['Visual Studio Code', 'Visual-Studio-Code', 'Visual Studio Code - Insiders', 'Code - OSS'],
    maxTools: 128,
    maxName: 64,
    prefix: 'mcp_pegboard_pegb_',
    listChanged: true,
    elicitation: 'form and url',
    note: 'Its prefix is up to 18 characters. Groups tools above its threshold; a request with more than 128 fails. Leaves out a tool with a list of parameters that does not say of what.',
    sources: `microsoft/vscode#243602, #261213 (2025-08), #337428 (2026-09), mcp-servers-for-revit#5 (2026-03), ${REGISTRY}`,
  },
  windsurf: {
    title: 'Windsurf',
    names: ['windsurf-client', 'Windsurf'],
    maxTools: 100,
    listChanged: true,
    sources: `docs.windsurf.com/windsurf/cascade/mcp, ${REGISTRY}`,
  },
  codex: {
    title: 'Codex',
    names: ['codex-mcp-client', 'Codex'],
    maxName: 64,
    prefix: 'mcp__pegboard__',
    listChanged: false,
    elicitation: 'form',
    note: 'The longest name is that of the provider of its models.',
    sources: `openai/codex#5309, #10105, #37417 (2026-08), screenpipe/screenpipe#5796 (2026-08), ${REGISTRY}`,
  },
  'gemini-cli': {
    title: 'Gemini CLI',
    names: ['gemini-cli-mcp-client', 'gemini-cli-mcp-client-*'],
    maxName: 64,
    prefix: 'mcp_pegboard_',
    listChanged: true,
    note: 'Cuts names that are longer. Rewrites schemas for its models by itself.',
    sources: `zuplo.com/learn/mcp/compatibility/clients/gemini-cli (2026-07), google-gemini/gemini-cli#14375, #21050 (2026-03), ${REGISTRY}`,
  },
  'copilot-cli': {
    title: 'Copilot CLI',
    names: ['github-copilot-developer'],
    maxName: 128,
    note: 'Above about 30 tools it puts all behind a search of its own; `"deferTools": "never"` in its own entry for the server keeps ours out of that. Whether it takes over changed lists is not known.',
    sources: `docs.github.com/en/copilot/concepts/agents/copilot-cli/tool-search (2026), ${REGISTRY}`,
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
    listChanged: true,
    sources: `anomalyco/opencode#5913 (2025-12), #33533 (2026-06), ${REGISTRY}`,
  },
  zed: {
    title: 'Zed',
    names: ['Zed'],
    maxName: 64,
    note: 'Puts the name of the server before names that two servers have. Whether it takes over changed lists is not known.',
    sources: `zed-industries/zed#32609, #45789 (2025-12), ${REGISTRY}`,
  },
}
