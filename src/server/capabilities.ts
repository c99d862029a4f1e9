import type { Owner } from '../catalog/catalog.ts'

/** What the server says it can do, in both eras. Advertised even while empty: upstreams come and go. */
export const serverCapabilities = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  completions: {},
  logging: {},
  // Pages of servers behind us are relayed: `_meta.ui` of tools, and `ui://` resources.
  extensions: { 'io.modelcontextprotocol/ui': {} },
} as const

const tasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } } as const

/** What a client of 2025-11-25 is told: tasks only where a server it sees has them. */
export const withTasks = (
  capabilities: Readonly<Record<string, unknown>>,
  owners: readonly Owner[],
): Readonly<Record<string, unknown>> =>
  owners.some(({ endpoints }) => endpoints?.tasks === true) ? { ...capabilities, tasks } : capabilities

/** The newer era has tasks as an extension: those of servers behind us are relayed. */
export const modernCapabilities = {
  ...serverCapabilities,
  extensions: { ...serverCapabilities.extensions, 'io.modelcontextprotocol/tasks': {} },
} as const
