import type { Owner } from '../catalog/owner.ts'
import { shownState } from '../catalog/owner-state.ts'
import type { Caller } from '../core/caller.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { toPrintable } from '../core/printable.ts'
import type { ClientRow, OwnerRow, ServerAction, TokenUsage } from '../ui/api-types.ts'
import type { UpstreamStatus } from '../upstream/upstream.ts'
import { tokensOf } from '../view/listed-tools.ts'
import type { View } from '../view/view.ts'
import type { App } from './app.ts'
import type { UiContext } from './ui-parts.ts'

/** Servers in the order of the configuration, then APIs, then modules that have a tool. */
export function listOwners(parts: UiContext): readonly OwnerRow[] {
  const { app, config } = parts
  const view = app.view(parts.caller('default'))
  const { owners } = app.catalog.snapshot()
  const tokens = tokensByOwner(view)
  const costs = (id: string) => ({ tools: view.count(id), tokens: tokens.get(id) ?? 0 })
  const summaryOf = (owner: Owner | undefined): string => (owner ? parts.toSafeText(app.categoryLine(owner, view)) : '')

  const servers = app.upstreams.status().map((status): OwnerRow => {
    const { id, module, transport, era, version, startMs, nextAttemptAt } = status
    const owner = owners.get(module)
    const reason = status.detail ?? status.reason ?? owner?.notice
    const state = owner
      ? shownState(owner, owner.tools.length)
      : status.reason === 'disabled'
        ? 'disabled'
        : status.state
    const downloading = status.installs === true && status.pending && status.tools === 0
    return {
      id: module,
      server: id,
      kind: 'server',
      state,
      ...(reason === undefined || reason === 'disabled' ? {} : { reason: parts.toSafeText(reason) }),
      summary: summaryOf(owner),
      ...costs(module),
      transport,
      ...(era === undefined ? {} : { protocol: era === 'modern' ? '2026' : '2025' }),
      ...(version === undefined ? {} : { version: toPrintable(version) }),
      ...omitUndefined({ startMs, nextAttemptAt }),
      ...(downloading ? { downloading: true as const } : {}),
      ...(needsLogin(reason) ? { needsLogin: true as const } : {}),
      actions: actionsOf(status, state, canLogIn(parts, id)),
    }
  })
  const skipped = config().skipped.map(
    ({ id, reason }): OwnerRow => ({
      id: `mcp_${id}`,
      server: id,
      kind: 'server',
      state: 'skipped',
      reason: parts.toSafeText(reason),
      summary: '',
      tools: 0,
      tokens: 0,
      actions: [],
    }),
  )
  const toRow = (id: string, kind: 'api' | 'module', state: string, reason: string | undefined): OwnerRow => ({
    id,
    kind,
    state: state === 'ready' ? 'started' : state,
    ...(reason === undefined ? {} : { reason: parts.toSafeText(reason) }),
    summary: summaryOf(owners.get(id)),
    ...costs(id),
    actions: [],
  })
  const apis = app.apis
    .status()
    .map(({ module, state, reason }) => toRow(module, 'api', state, reason ?? owners.get(module)?.notice))
  const modules = [...owners.values()]
    .filter(({ id, origin }) => origin === 'module' && view.count(id) > 0)
    .map(({ id, state, reason }) => toRow(id, 'module', state, reason))
  return [...servers, ...skipped, ...apis, ...modules]
}

const needsLogin = (reason: string | undefined): boolean => /requires (?:a login|authorization)/.test(reason ?? '')

function canLogIn({ config }: UiContext, id: string): boolean {
  const settings = config().servers[id]
  return settings !== undefined && settings.target.kind !== 'stdio' && settings.auth?.type !== 'none'
}

function actionsOf(status: UpstreamStatus, state: string, logsIn: boolean): readonly ServerAction[] {
  if (status.reason === 'disabled') return []
  const runs = state === 'started' || state === 'degraded' || state === 'failing'
  return [
    ...(runs ? (['restart', 'disconnect'] as const) : (['connect'] as const)),
    ...(logsIn ? ['login' as const] : []),
  ]
}

const tokensByView = new WeakMap<View, ReadonlyMap<string, number>>()

/** Estimated tokens of the definitions of each owner. */
const tokensByOwner = (view: View): ReadonlyMap<string, number> =>
  getOrInsert(tokensByView, view, () => {
    const sums = new Map<string, number>()
    for (const entry of view.tools) sums.set(entry.tool.module, (sums.get(entry.tool.module) ?? 0) + tokensOf(entry))
    return sums
  })

/** The clients that are connected, one row for each profile they use. */
export function listClients({ app, clients }: UiContext): readonly ClientRow[] {
  return clients.all().flatMap(({ id, callers }) =>
    callers.map((caller): ClientRow => {
      const exposure = app.explainExposure(caller)
      const { client, era, profile, principal } = caller
      const spent = spentBy(app, caller)
      return {
        id: `${id}/${profile}`,
        name: toPrintable([client?.name ?? 'unknown', client?.version ?? ''].join(' ').trim()),
        principal,
        profile,
        protocol: era === 'modern' ? '2026' : '2025',
        mode: exposure.mode,
        tools: app.surface.list(caller, exposure.mode).length,
        ...(spent ? { spent } : {}),
      }
    }),
  )
}

/** Counted tokens of a caller's session, or of all sessions. */
export function spentBy(app: App, caller?: Caller): TokenUsage | undefined {
  const sums = app.spent(caller)
  return sums && sums.calls > 0 ? { calls: sums.calls, tokens: sums.tokens, direct: sums.direct } : undefined
}
