import { toSchema } from '../src/core/schema.ts'
import type { Tool } from '../src/core/tool.ts'
import { wireName } from '../src/core/tool-names.ts'
import { valueResult } from '../src/core/tool-result.ts'

/** A tool for tests that need one in a catalogue; harmless by default. */
export function makeTool(id: string, change: Partial<Tool> & { readonly schema?: Record<string, unknown> } = {}): Tool {
  const { schema, ...rest } = change
  const input = toSchema(schema ?? { type: 'object', properties: {}, additionalProperties: false })
  const description = change.description ?? `Does ${id} and nothing else.`
  return {
    id,
    name: wireName(id),
    module: id.slice(0, id.indexOf('.')),
    origin: 'module',
    title: id,
    description,
    input,
    effect: 'read',
    idempotent: true,
    openWorld: false,
    sideEffects: [],
    aliases: [],
    tags: [],
    examples: [],
    extra: {},
    available: () => true,
    assemble: () => ({ description, input }),
    parse: (value) => input.parse(value),
    run: async () => valueResult(id),
    ...rest,
  }
}
