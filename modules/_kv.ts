import type { Services } from 'pegboard'

/** `available` of tools that store something. */
export const hasKv = ({ services }: { readonly services: Services }): true | string =>
  services.kv !== null || 'set services.kv to true'
