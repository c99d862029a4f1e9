import type { Json } from '../core/is-record.ts'
import { SESSION_REVISIONS } from '../core/protocol-revisions.ts'

/** Capabilities in both eras. Declared even while lists are empty, because servers come and go. */
const serverCapabilities = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  completions: {},
  logging: {},
  // Pages of servers are relayed: `_meta.ui` of tools, and `ui://` resources.
  extensions: { 'io.modelcontextprotocol/ui': {} },
} as const

/** Capabilities in a session. Tasks are always declared: servers may connect later, and each tool declares its support. */
export const sessionCapabilities = {
  ...serverCapabilities,
  tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } },
} as const

/** Capabilities for one revision: tasks exist only in the newest one with sessions. */
export const capabilitiesFor = (revision: string): Json =>
  revision === SESSION_REVISIONS[0] ? sessionCapabilities : serverCapabilities

/** Capabilities in 2026, where tasks are an extension. */
export const modernCapabilities = {
  ...serverCapabilities,
  extensions: { ...serverCapabilities.extensions, 'io.modelcontextprotocol/tasks': {} },
} as const
