import { type CallContext, type Caller, noServices, type ServicesFor } from '../core/caller.ts'
import { ToolError } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { isRecord } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import type { ToolDef } from '../core/module.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { once } from '../core/once.ts'
import type { Profile } from '../core/profile.ts'
import { createReadOnlyObject, readOnly } from '../core/read-only.ts'
import { isStandardSchema, type JsonSchema, type Schema } from '../core/schema.ts'
import type { NameOf, Tool, Tripwire } from '../core/tool.ts'
import { wireName } from '../core/tool-names.ts'
import { type ToolResult, valueResult } from '../core/tool-result.ts'
import { closeSchema, convertSchema } from './close-schema.ts'
import { requireSync } from './require-sync.ts'
import { createShapeError } from './shape-error.ts'

// biome-ignore lint/suspicious/noExplicitAny: a loaded file's input types are not known here
type AnyToolDef = ToolDef<any, any>

/**
 * One tool of a file, in whatever format the file used. `invoke` decides how much of the context the author's function
 * gets.
 */
export interface ToolSource {
  readonly action: string
  readonly def: Omit<AnyToolDef, 'run'>
  invoke(input: unknown, ctx: CallContext): unknown
  /** True if the author's function uses `ctx`. */
  takesContext(): boolean
}

/** What a definition is bound to when it becomes a callable tool. */
export interface ToolBinding {
  readonly module: string
  readonly config: unknown
  /** The options of the module for a profile that changes them; default `config` for all. */
  readonly configFor?: (profile: Profile) => unknown
  readonly log: Log
  /** True for a bundled module: its schemas need no check, and are converted on first access, because zod takes 1 ms each. */
  readonly isBundled?: boolean
  /** The part of the host that `available` and `assemble` may read; default nothing. */
  readonly servicesFor?: ServicesFor
  /** Whether the options of the module enable it. */
  readonly enabled?: ((profile: Profile) => true | string) | undefined
  /** Additional names of the tool. */
  readonly aliases?: readonly string[]
  /** `readOnly` of the module, and the services that its tools write to anyway. */
  readonly readOnly?: boolean | undefined
  readonly writes?: readonly string[] | undefined
  /** What to do with result fields that look like credentials. Default: redact them, and fail for a read-only tool. */
  readonly tripwire?: Tripwire
  /** Wraps every run, so that the owner can count running calls. */
  readonly track?: <T>(work: () => Promise<T>) => Promise<T>
}

/**
 * Turns a definition into a `Tool`. Afterwards, no other code sees the configuration of the module.
 * @throws PegboardError E_MODULE_SHAPE for a schema that no client could use
 */
export function adaptTool(source: ToolSource, binding: ToolBinding): Tool {
  const { action, def } = source
  const { module } = binding
  const servicesFor = binding.servicesFor ?? (() => noServices)
  const configFor = binding.configFor ?? (() => binding.config)
  /** What `available` and `assemble` get. */
  const contextFor = (caller: Caller, profile: Profile, nameOf: NameOf) => ({
    config: configFor(profile),
    caller,
    profile,
    services: servicesFor({ module, caller, profile }),
    nameOf,
  })
  const id = `${module}.${action}`
  const log = binding.log.scoped(module)
  const hidden = def.hidden ?? []
  // A copy, because a function that changes the definition in place would change it for all callers.
  if (def.assemble) freeze(def.input)
  const input = once(() => closeSchema(def.input, hidden, id))
  const output = once(() => (def.output === undefined ? undefined : convertSchema(def.output, `the output of ${id}`)))
  if (!binding.isBundled) {
    input()
    output()
  }
  const track = binding.track ?? ((work) => work())
  // Keyed by identity, so that constant variants are converted once.
  const variants = once(() => new WeakMap<object, Schema>())
  const convertVariant = (variantInput: object): Schema =>
    variantInput === def.input
      ? input()
      : getOrInsert(variants(), variantInput, () => closeSchema(freeze(variantInput), hidden, id))
  const isReadOnly = def.readOnly ?? binding.readOnly ?? false
  const writes = def.writes ?? binding.writes ?? []
  if (isReadOnly && def.effect !== 'read' && writes.length === 0)
    throw createShapeError(`${id} is read-only: set its effect to "read", or name its targets in writes`)
  /** Results of other tools. If the author returns one, it is passed on unchanged. */
  const callResults = once(() => new WeakSet<object>())
  /** Creates the context that the author's function receives. */
  const createAuthorContext = (ctx: CallContext): CallContext => {
    const config = configFor(ctx.profile)
    const context: CallContext = {
      ...ctx,
      config: isReadOnly ? readOnly(config, 'all', 'ctx.config') : config,
      log,
      async call(id, input) {
        const result = await ctx.call(id, input)
        callResults().add(result)
        return result
      },
    }
    return isReadOnly ? createReadOnlyObject(context) : context
  }

  // The parts must be in this order: an object with getters before other parts costs V8 a hidden class per part, again
  // for each tool.
  return {
    id,
    name: wireName(id),
    module,
    origin: 'module',
    title: def.title ?? titleOf(action),
    description: def.description,
    effect: def.effect,
    idempotent: def.idempotent ?? def.effect === 'read',
    openWorld: def.openWorld ?? false,
    sideEffects: def.sideEffects ?? [],
    aliases: [...new Set([...(def.aliases ?? []), ...(binding.aliases ?? [])])],
    tags: def.tags ?? [],
    examples: def.examples ?? [],
    tripwire: binding.tripwire ?? (isReadOnly ? 'throw' : 'redact'),
    extra: {},
    available(caller, profile) {
      const result: unknown = def.available?.(contextFor(caller, profile, () => undefined))
      const availability = requireSync('available', result) ?? true
      return availability === true || typeof availability === 'string' ? availability : 'it is not available now'
    },
    assemble(caller, nameOf, profile) {
      // The tool itself, so that its schema is not converted until it is read.
      if (!def.assemble) return this
      const whole = { description: def.description, input: def.input ?? emptyInput }
      const draft = requireSync('assemble', def.assemble(contextFor(caller, profile, nameOf), whole))
      if (!draft) return null
      return {
        description: draft.description,
        input: draft.input === emptyInput ? input() : convertVariant(draft.input),
      }
    },
    takesContext: source.takesContext,
    parse: (value) => input().parse(value),
    run: (value, ctx) =>
      track(async () => {
        const result = await source.invoke(value, source.takesContext() ? createAuthorContext(ctx) : ctx)
        if (isRecord(result) && callResults().has(result)) return withoutFiles(result as unknown as ToolResult)
        throwReturnedError(result)
        const outputSchema = output()
        if (outputSchema) checkOutput(outputSchema, result, id)
        return valueResult(result)
      }),
    ...(isReadOnly ? { readOnly: true, writes } : {}),
    ...pickOptions(def),
    ...(binding.enabled ? { enabled: binding.enabled } : {}),
    get input() {
      return input()
    },
    get output() {
      return output()?.json
    },
    get hiddenParameters() {
      return hidden.length > 0 ? input().hidden : undefined
    },
  }
}

const orAbsent = (flag: boolean | undefined): true | undefined => (flag === true ? true : undefined)

/** The optional members of a tool; those that its definition does not set are absent. */
function pickOptions(def: ToolSource['def']): Partial<Tool> {
  const { opaque, volatile, needs, provides, intent, task } = def
  return omitUndefined({
    opaque,
    volatile,
    needs,
    provides,
    intent,
    task,
    needsUserInput: orAbsent(def.needsUserInput),
    internal: orAbsent(def.internal),
    asksFirst: orAbsent(def.asksFirst),
    noBackground: orAbsent(def.noBackground),
    allowRepeat: orAbsent(def.allowRepeat),
    toldWhenOff: orAbsent(def.toldWhenOff),
    untitled: orAbsent(def.title === undefined),
    asTask: orAbsent(task !== undefined),
  })
}

/** @throws ToolError if the author's function returned an `error` instead of throwing it */
function throwReturnedError(result: unknown): void {
  if (!isRecord(result) || typeof result['error'] !== 'string' || result['error'] === '') return
  const { error, ...data } = result
  throw new ToolError(error as string, Object.keys(data).length > 0 ? { data } : {})
}

/** Removes the files of an inner call's result, because they are already in the output that both calls share. */
const withoutFiles = (result: ToolResult): ToolResult => (result.kind === 'value' ? { ...result, files: [] } : result)

const emptyInput: JsonSchema = freeze({ type: 'object', properties: {} })

/** Freezes a JSON Schema deeply, but no object of a schema library, because it may have accessors. */
function freeze<T>(schema: T): T {
  if (typeof schema !== 'object' || schema === null || Object.isFrozen(schema) || isStandardSchema(schema))
    return schema
  for (const value of Object.values(schema)) freeze(value)
  return Object.freeze(schema)
}

/** @throws TypeError, as a bug of the module, if a result does not match the listed output schema */
function checkOutput(output: Schema, result: unknown, id: string): void {
  const checked = output.parse(result)
  if (checked.ok) return
  const [issue] = checked.issues
  throw new TypeError(
    `the result of ${id} does not match its output schema: ${issue?.path ?? ''} ${issue?.message ?? ''}`,
  )
}

/** `say_hello` becomes `Say hello`. */
const titleOf = (action: string): string => {
  const words = action
    .replaceAll(/[_.-]+/g, ' ')
    .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
    .trim()
  return words.charAt(0).toUpperCase() + words.slice(1)
}
