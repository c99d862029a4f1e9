import { PegboardError } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { LATER_KINDS, type LaterKind, SERVER_ACTIONS, type ServerAction } from './api-types.ts'
import type { UiHost } from './ui-host.ts'

export interface UiRequest {
  readonly query: URLSearchParams
  readonly body: Json
  /** Aborts when the browser leaves. */
  readonly signal: AbortSignal
}

type Route = (host: UiHost, request: UiRequest) => unknown

const MAX_RESULTS = 50
const MAX_NAMES = 500

/** Reads and actions of the page. A GET changes nothing. */
export const uiRoutes: Readonly<Record<string, Route>> = {
  'GET overview': (host) => host.overview(),
  'GET servers': (host) => host.owners(),
  'GET server': (host, { query }) => host.server(text(query.get('id'), 'id')),
  'POST server': (host, { body }) =>
    host.act(text(body['id'], 'id'), oneOf<ServerAction>(body['action'], SERVER_ACTIONS, 'action')),
  'GET tools': (host, { query }) => ({ version: host.version(), tools: host.tools(profileIn(host, query)) }),
  'GET tool': (host, { query }) => host.tool(text(query.get('id'), 'id'), profileIn(host, query)),
  'GET search': (host, { query }) => {
    const limit = Math.min(MAX_RESULTS, Math.max(1, Number(query.get('limit') ?? 10) || 10))
    return host.search(text(query.get('q'), 'q'), profileIn(host, query), limit)
  },
  'POST try': (host, { body, query, signal }) =>
    host.try(text(body['id'], 'id'), body['input'] ?? {}, profileIn(host, query), signal),
  'POST switch': (host, { body }) =>
    host.switch(namesIn(body['names']), oneOf(body['to'], ['enabled', 'disabled'], 'to') === 'enabled'),
  'GET misses': (host) => host.misses(),
  'POST alias': (host, { body }) => host.addAlias(text(body['tool'], 'tool'), text(body['alias'], 'alias')),
  'GET calls': (host) => host.calls(),
  'POST replay': (host, { body, signal }) => host.replay(text(body['id'], 'id'), signal),
  'GET clients': (host) => host.clients(),
  'GET usage': (host) => host.usage(),
  'GET tokens': (host) => host.tokens(),
  'POST revoke': (host, { body }) => host.revoke(text(body['id'], 'id')),
  'GET later': (host) => host.later(),
  'POST stop': (host, { body }) =>
    host.stop(oneOf<LaterKind>(body['kind'], LATER_KINDS, 'kind'), text(body['id'], 'id')),
  'GET review': (host) => host.review(),
  'POST review': (host, { body }) =>
    host.decide(
      text(body['server'], 'server'),
      textsIn(body['shown']),
      oneOf(body['decision'], ['accept', 'reject'], 'decision') === 'accept',
    ),
}

const invalid = (name: string, what: string): PegboardError =>
  new PegboardError('E_VALIDATION', `${name} ${what}.`, { hint: 'Reload the page and try again.' })

function text(value: unknown, name: string): string {
  if (typeof value === 'string' && value !== '' && value.length <= 1_000) return value
  throw invalid(name, 'must be a text of 1 to 1,000 characters')
}

function oneOf<T extends string>(value: unknown, allowed: readonly T[], name: string): T {
  if (allowed.includes(value as T)) return value as T
  throw invalid(name, `must be one of ${allowed.join(', ')}`)
}

function namesIn(value: unknown): readonly string[] {
  if (Array.isArray(value) && value.length > 0 && value.length <= MAX_NAMES)
    return value.map((one) => text(one, 'names'))
  throw invalid('names', `must be a list of 1 to ${MAX_NAMES} names`)
}

function textsIn(value: unknown): Readonly<Record<string, string>> {
  if (isRecord(value) && Object.values(value).every((one) => typeof one === 'string'))
    return value as Readonly<Record<string, string>>
  throw invalid('shown', 'must be an object of texts')
}

function profileIn(host: UiHost, query: URLSearchParams): string {
  const name = query.get('profile') ?? 'default'
  if (host.overview().profiles.includes(name)) return name
  throw new PegboardError('E_NOT_FOUND', `There is no profile "${name.slice(0, 80)}".`)
}
