import type { Owner } from '../src/catalog/owner.ts'

/** A server in the catalogue without tools. */
export const emptyOwner = (more: Partial<Owner>): Owner => ({
  id: 'mcp_s',
  summary: 'S.',
  origin: 'upstream',
  state: 'ready',
  tools: [],
  quarantined: [],
  resources: [],
  templates: [],
  prompts: [],
  ...more,
})
