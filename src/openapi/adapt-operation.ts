import { exposedName, overrideAliases, overrideOf, ownNamesOf } from '../catalog/naming.ts'
import type { CallContext } from '../core/caller.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { once } from '../core/once.ts'
import type { ParseResult, Schema } from '../core/schema.ts'
import type { Draft, Tool } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { hashOf } from './api-document.ts'
import { createCheck } from './check-api.ts'
import type { ApiSettings } from './openapi-options.ts'
import { effectOf, isIdempotent, type ListedOperation, type OperationRecord } from './operations.ts'
import type { OperationDefinition } from './plan-operation.ts'

/** What a tool needs from its API. */
export interface ToolHost {
  readonly id: string
  /** `api_<id>`: category and catalog owner. */
  readonly module: string
  readonly settings: ApiSettings
  /** Changes with the document. */
  readonly version: string
  define(record: ListedOperation): OperationDefinition
  /** Called when arguments could not be validated in time. */
  onUnchecked(record: OperationRecord): void
  call(record: OperationRecord, definition: OperationDefinition, input: unknown, ctx: CallContext): Promise<ToolResult>
}

/** Search skips tools whose stamp is unchanged. */
const stampOf = (parts: readonly unknown[]): number => Number.parseInt(hashOf(JSON.stringify(parts)).slice(0, 12), 16)

/** Pegboard's own timeout fires first, because its message names the API. */
const SLACK_MS = 2_000

/** A catalog entry for an operation. Its schemas are built on first use. */
export function adaptOperation(record: ListedOperation, host: ToolHost, action: string): Tool {
  const { id, module, settings } = host
  const override = overrideOf(settings, record.name)
  const effect = override?.effect ?? effectOf(record.method)
  const description = override?.describe ?? record.description
  const define = once(() => host.define(record))
  let check: ((value: unknown) => ParseResult) | undefined
  const input: Schema = {
    get json() {
      return define().input
    },
    // The API may not validate, or may report errors unclearly.
    parse(value) {
      if (!check) {
        const { input: schema, dependentRequired } = define()
        check = createCheck({ ...schema, ...omitUndefined({ dependentRequired }) }, () => host.onUnchecked(record))
      }
      return check(value)
    },
  }
  const draft: Draft = { description, input }
  const { tags, title, untitled = false, method } = record
  const tool: Tool = {
    id: `${module}.${action}`,
    name: exposedName(settings, action),
    ownNames: ownNamesOf(record.name, settings),
    chosenAliases: overrideAliases(record.name, settings),
    module,
    origin: 'upstream',
    tripwire: 'warn',
    title,
    untitled,
    description,
    get fullDescription() {
      return record.cut && override?.describe === undefined ? define().description : undefined
    },
    input,
    effect,
    idempotent: isIdempotent(method),
    openWorld: true,
    sideEffects: [`calls the API ${id}`],
    tags: ['api', id, ...tags],
    maxResultTokens: override?.maxResultTokens,
    timeoutMs: (override?.timeoutMs ?? settings.timeoutMs) + SLACK_MS,
    ...(override?.replaces === undefined ? {} : { replaces: override.replaces }),
    aliases: [...new Set([...overrideAliases(record.name, settings), record.name])].filter((name) => name !== action),
    get examples() {
      return define().examples
    },
    extra: {
      annotations: {
        ...(untitled ? {} : { title }),
        readOnlyHint: effect === 'read',
        destructiveHint: effect === 'destructive',
        idempotentHint: isIdempotent(method),
        openWorldHint: true,
      },
    },
    stamp: stampOf([host.version, record, override, settings.prefix]),
    available: () => true,
    assemble: () => draft,
    parse: (value) => input.parse(value),
    run: (value, ctx) => host.call(record, define(), value, ctx),
  }
  return Object.defineProperty(tool, 'output', { get: () => define().output, enumerable: true })
}
