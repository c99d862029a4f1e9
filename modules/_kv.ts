import type { Kv, Services } from 'pegboard'
import { unavailable } from './_errors.ts'

interface Host {
  readonly services: Services
}

/** `available` of tools that store something. */
export const hasKv = ({ services }: Host): true | string => services.kv !== null || 'set services.kv to true'

/**
 * The key-value store of the caller.
 * @param what begins the error, such as "Messages"
 * @throws ToolError E_BACKEND_UNAVAILABLE if the host has none
 */
export function requireKv({ services }: Host, what: string): Kv {
  if (services.kv) return services.kv
  throw unavailable(`${what} cannot be stored here.`, 'The operator sets services.kv to true.')
}
