import { isLoopback, type NetRules, publicOnly } from '../policy/network-rules.ts'
import { OPERATOR_NETWORK } from '../policy/own-network.ts'
import type { HttpTarget, ServerSettings } from './upstream-settings.ts'

/** Network rules for a configured server: any address the operator configured, except cloud metadata. */
export function serverRules({ allowPrivate, where }: Pick<ServerSettings, 'allowPrivate' | 'where'>): NetRules {
  const setting = `${where}.allowPrivate`
  if (!allowPrivate) return publicOnly(setting)
  return { allow: new Set(['public', ...OPERATOR_NETWORK, 'reserved']), http: true, setting }
}

/**
 * Network rules for addresses that a server names, such as its authorization server: https and public, unless the
 * operator allows more or the server itself runs on this machine.
 */
export function namedRules(where: string, target: HttpTarget, allowPrivate: boolean): NetRules {
  const rules = serverRules({ allowPrivate, where: `${where}.auth` })
  return !allowPrivate && isLoopback(new URL(target.url)) ? { ...rules, allow: new Set(['public', 'loopback']) } : rules
}
