import { isLoopback, type NetRules, publicOnly } from '../policy/net.ts'
import type { HttpTarget, ServerSettings } from './settings.ts'

/** Where requests to a configured server may go: anywhere the operator says, but never to a cloud's credentials. */
export function serverRules({ allowPrivate, where }: Pick<ServerSettings, 'allowPrivate' | 'where'>): NetRules {
  const setting = `${where}.allowPrivate`
  if (!allowPrivate) return publicOnly(setting)
  return { allow: new Set(['public', 'private', 'loopback', 'reserved']), http: true, setting }
}

/**
 * Where requests to addresses a server names may go: its authorization server, its metadata. https and public, unless the
 * operator says otherwise or the server itself is on this machine, where people develop.
 */
export function namedRules(where: string, target: HttpTarget, allowPrivate: boolean): NetRules {
  const setting = `${where}.auth.allowPrivate`
  if (allowPrivate) return { allow: new Set(['public', 'private', 'loopback', 'reserved']), http: true, setting }
  const rules = publicOnly(setting)
  return isLoopback(new URL(target.url)) ? { ...rules, allow: new Set(['public', 'loopback']) } : rules
}
