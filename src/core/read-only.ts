import { PegboardError } from './errors.ts'

/** Which functions of the value may be called: those with names such as `get` and `list`, or all. */
export type Callable = 'reads' | 'all'

const READS =
  /^(?:at|count|describe|entries|exists|find|forEach|get|has|includes|is|keys|list|llen|lrange|neighbors|peek|read|recent|search|size|stat|status|toJSON|toString|values)(?![a-z])/

const throwReadOnlyError = (what: string): never => {
  throw new PegboardError('E_READ_ONLY_CONTRACT', `A read-only tool may not ${what}.`)
}

/**
 * A deeply read-only view of a value: setting, deleting, defining, and calling a function that may change something
 * all throw. The value itself is unaffected.
 * @throws PegboardError E_READ_ONLY_CONTRACT on the attempt
 */
export function readOnly<T>(value: T, callable: Callable = 'reads', name = 'its context'): T {
  if (typeof value === 'function') return createReadOnlyFunction(value, undefined, callable, name) as T
  if (typeof value !== 'object' || value === null) return value
  return createReadOnlyView(value, callable, name) as T
}

/** An object whose own members cannot be changed; nested values can. */
export function createReadOnlyObject<T extends object>(value: T, name = 'its context'): T {
  const change = (_value: T, key: string | symbol): never => throwReadOnlyError(`change ${name}.${String(key)}`)
  return new Proxy(value, { set: change, defineProperty: change, deleteProperty: change })
}

function createReadOnlyView(target: object, callable: Callable, name: string): object {
  // The methods of a promise fail on a proxy.
  if (target instanceof Promise) return target.then((one) => readOnly(one, callable, name))
  const isList = Array.isArray(target)
  const child = (key: string | symbol): unknown => {
    const value = Reflect.get(target, key) as unknown
    const place = `${name}.${String(key)}`
    if (typeof value !== 'function') return readOnly(value, callable, place)
    // Array methods run on the view itself, where changes fail.
    if (isList || Object.hasOwn(Object.prototype, key) || key === 'constructor') return value
    return createReadOnlyFunction(value, target, callable, place)
  }
  const change = (key: string | symbol): never => throwReadOnlyError(`change ${name}.${String(key)}`)
  // The proxy target is an empty object, because a proxy must show a frozen target's real members.
  return new Proxy((isList ? [] : {}) as object, {
    get: (_shadow, key) => child(key),
    has: (_shadow, key) => Reflect.has(target, key),
    ownKeys: () => Reflect.ownKeys(target),
    getPrototypeOf: () => Reflect.getPrototypeOf(target),
    getOwnPropertyDescriptor(shadow, key) {
      const own = Reflect.getOwnPropertyDescriptor(target, key)
      if (!own) return undefined
      if (isList && key === 'length') return { ...Reflect.getOwnPropertyDescriptor(shadow, key), value: target.length }
      return { value: child(key), enumerable: own.enumerable === true, writable: true, configurable: true }
    },
    set: (_shadow, key) => change(key),
    deleteProperty: (_shadow, key) => change(key),
    defineProperty: (_shadow, key) => change(key),
    setPrototypeOf: () => change('prototype'),
    preventExtensions: () => change('extensibility'),
  })
}

function createReadOnlyFunction(fn: object, self: object | undefined, callable: Callable, name: string): unknown {
  const short = name.slice(name.lastIndexOf('.') + 1)
  const isAllowed = callable === 'all' || READS.test(short)
  return (...args: unknown[]): unknown =>
    isAllowed
      ? readOnly(Reflect.apply(fn as (...given: unknown[]) => unknown, self, args), callable, `${name}()`)
      : throwReadOnlyError(`call ${name}`)
}
