import { once } from '../core/once.ts'
import { isRecord } from '../core/record.ts'
import { isStandardSchema, type JsonSchema } from '../core/schema.ts'

/** What is known of a schema without making it. */
export interface Prepared {
  /** Its JSON Schema of draft 2020-12, as it gives it itself. */
  readonly json: JsonSchema
  /** What it makes of an object without keys, where it takes one. */
  readonly empty?: Readonly<Record<string, unknown>>
}

/** Of a module, by the names of its tools. */
export interface PreparedModule {
  readonly config?: Prepared
  readonly tools: Readonly<Record<string, { readonly input?: Prepared; readonly output?: Prepared }>>
}

interface Recipe {
  /** The value itself, made at the first call. */
  readonly make: () => unknown
  prepared?: Prepared
  standard?: unknown
}

type Holder = (() => void) & { recipe: Recipe }

const recipes = new WeakMap<object, Recipe>()

/**
 * Stands for what `make` gives, which is called when a property of a schema is looked at that is not prepared. Calls on it
 * give such stand-ins again: `deferred(() => z).string().min(1)` needs no zod until a value is checked.
 */
export function deferred<Value>(make: () => Value): Value {
  const recipe: Recipe = { make: once(make) }
  const stand = new Proxy(Object.assign(() => undefined, { recipe }) as Holder, handler)
  recipes.set(stand, recipe)
  return stand as Value
}

const handler: ProxyHandler<Holder> = {
  get({ recipe }, name) {
    if (name === '~standard') {
      recipe.standard ??= standardOf(recipe)
      return recipe.standard
    }
    // It is no promise, and is not made in order to find that out.
    if (name === 'then') return undefined
    if (typeof name === 'symbol') return Reflect.get(recipe.make() as object, name) as unknown
    return deferredMember(recipe, name)
  },
  has: ({ recipe }, name) => name === '~standard' || Reflect.has(recipe.make() as object, name),
  ownKeys: ({ recipe }) => Reflect.ownKeys(recipe.make() as object).filter((key) => key !== 'prototype'),
  getOwnPropertyDescriptor({ recipe }, name) {
    const found = Reflect.getOwnPropertyDescriptor(recipe.make() as object, name)
    return found && { ...found, configurable: true }
  },
  apply: ({ recipe }, _this, given) =>
    deferred(() => (recipe.make() as (...args: unknown[]) => unknown)(...given.map(settled))),
}

/** Plain values are given as they are once their owner is made; before that nobody can tell. */
function deferredMember(owner: Recipe, name: string): unknown {
  return deferred(() => {
    const made = owner.make() as Record<string, unknown>
    const member = made[name]
    return typeof member === 'function' ? member.bind(made) : member
  })
}

/** With what its stand-ins stand for. */
function settled(value: unknown): unknown {
  const recipe =
    typeof value === 'function' || (typeof value === 'object' && value !== null) ? recipes.get(value) : undefined
  if (recipe) return recipe.make()
  if (Array.isArray(value)) return value.map(settled)
  if (!isRecord(value) || Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, settled(one)]))
}

function standardOf(recipe: Recipe): unknown {
  const real = (): { validate(value: unknown): unknown; jsonSchema: { input(options: object): unknown } } =>
    (recipe.make() as Record<string, unknown>)['~standard'] as ReturnType<typeof real>
  return {
    version: 1,
    vendor: 'zod',
    validate(value: unknown) {
      const { empty } = recipe.prepared ?? {}
      if (empty && isRecord(value) && Object.keys(value).length === 0)
        return { value: JSON.parse(JSON.stringify(empty)) }
      return real().validate(value)
    },
    jsonSchema: {
      input: (options: { readonly target?: string }) =>
        recipe.prepared && options.target === TARGET ? recipe.prepared.json : real().jsonSchema.input(options),
    },
  }
}

const TARGET = 'draft-2020-12'

/** Gives the schemas of a module what was found out about them; those that are no stand-ins stay as they are. */
export function prepare(module: unknown, known: PreparedModule): void {
  if (!isRecord(module)) return
  const give = (schema: unknown, prepared: Prepared | undefined): void => {
    const recipe = isStandardSchema(schema) ? recipes.get(schema) : undefined
    if (recipe && prepared) recipe.prepared = prepared
  }
  give(module['config'], known.config)
  for (const [name, tool] of Object.entries(isRecord(module['tools']) ? module['tools'] : {})) {
    if (!isRecord(tool)) continue
    give(tool['input'], known.tools[name]?.input)
    give(tool['output'], known.tools[name]?.output)
  }
}
