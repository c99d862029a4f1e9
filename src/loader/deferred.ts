import { once } from '../core/once.ts'
import { isRecord } from '../core/record.ts'
import type { JsonSchema } from '../core/schema.ts'

/** What is known of a schema without making it. */
export interface Prepared {
  /** Its JSON Schema of draft 2020-12, as it gives it itself. Asked once, since most schemas are never looked at. */
  readonly json: () => JsonSchema
  /** What it makes of an object without keys, where it takes one. */
  readonly empty?: Readonly<Record<string, unknown>>
}

interface Recipe {
  /** The value itself, made at the first call. */
  readonly make: () => unknown
  readonly prepared?: Prepared | undefined
  /** A call of it is answered at once. */
  readonly checks?: boolean
  standard?: unknown
}

type Holder = (() => void) & { recipe: Recipe }

const recipes = new WeakMap<object, Recipe>()

/**
 * Stands for what `make` gives, which is called when a property of a schema is looked at that is not prepared. Calls on it
 * give such stand-ins again: `deferred(() => z).string().min(1)` needs no zod until a value is checked. `parse` and its like check one.
 */
export const deferred = <Value>(make: () => Value, prepared?: Prepared): Value =>
  standFor({ make: once(make), prepared })

function standFor<Value>(recipe: Recipe): Value {
  const stand = new Proxy(Object.assign(() => undefined, { recipe }) as Holder, handler)
  recipes.set(stand, recipe)
  return stand as Value
}

/** Whether what it says is known without making it. */
export const isPrepared = (schema: unknown): boolean =>
  typeof schema === 'function' && recipes.get(schema)?.prepared !== undefined

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
  apply({ recipe }, _this, given) {
    const call = (): unknown => (recipe.make() as (...args: unknown[]) => unknown)(...given.map(settled))
    return recipe.checks ? call() : deferred(call)
  },
}

/** Plain values are given as they are once their owner is made; before that nobody can tell. */
function deferredMember(owner: Recipe, name: string): unknown {
  const make = once(() => {
    const made = owner.make() as Record<string, unknown>
    const member = made[name]
    return typeof member === 'function' ? member.bind(made) : member
  })
  return standFor({ make, checks: CHECKS.has(name) })
}

const CHECKS: ReadonlySet<string> = new Set(['parse', 'safeParse', 'parseAsync', 'safeParseAsync'])

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
  const { prepared } = recipe
  const json = prepared && once(prepared.json)
  const real = (): { validate(value: unknown): unknown; jsonSchema: { input(options: object): unknown } } =>
    (recipe.make() as Record<string, unknown>)['~standard'] as ReturnType<typeof real>
  return {
    version: 1,
    vendor: 'zod',
    validate(value: unknown) {
      if (prepared?.empty && isRecord(value) && Object.keys(value).length === 0)
        return { value: structuredClone(prepared.empty) }
      return real().validate(value)
    },
    jsonSchema: {
      input: (options: { readonly target?: string }) =>
        json && options.target === TARGET ? json() : real().jsonSchema.input(options),
    },
  }
}

const TARGET = 'draft-2020-12'
