import { type Caller, localCaller } from '../core/caller.ts'
import { createEmitter } from '../core/emitter.ts'
import { PegboardError } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { knownSecrets } from '../core/known-secrets.ts'
import { toPrintable } from '../core/printable.ts'
import type { RecentCall } from '../exec/recent-calls.ts'
import { readMisses } from '../search/misses.ts'
import { toBearerToken } from '../server/bearer-tokens.ts'
import { isExpired, type StoredToken } from '../server/token-store.ts'
import { applyEdits } from '../setup/file-edits.ts'
import { findPlainSecrets } from '../setup/plain-secrets.ts'
import { switchEntries } from '../setup/switch-entries.ts'
import { escapeLine } from '../trust/find-hidden-text.ts'
import { lockFile } from '../trust/lock-file.ts'
import type { CallRow, ReviewServer, TokenRow } from '../ui/api-types.ts'
import type { UiHost } from '../ui/ui-host.ts'
import type { UpstreamStatus } from '../upstream/upstream.ts'
import { describeReach, type HttpTarget, type StdioTarget } from '../upstream/upstream-settings.ts'
import { type AliasReport, editAliases, reportAliases } from './alias-proposals.ts'
import type { App } from './app.ts'
import { moduleNames } from './module-names.ts'
import { decide, openReviewDesk, type ReviewDesk, ReviewError, type ReviewedServer, serversOf } from './review-desk.ts'
import { missesFile } from './search-misses.ts'
import { listLater, stopLater } from './ui-later.ts'
import { createUiLogins } from './ui-logins.ts'
import { listClients, listOwners, spentBy } from './ui-owners.ts'
import { notFound, type UiContext } from './ui-parts.ts'
import { listTools, searchTools, showTool, tryTool } from './ui-tools.ts'

const MAX_STDERR_LINES = 50
/** Assumed bytes of a token, because the text of a result is not kept. */
const BYTES_PER_TOKEN = 4

export type UiHostOptions = Omit<UiContext, 'caller' | 'toSafeText'> & {
  hide(text: string): string
  readonly version: string
  /** Folder for the data of `pegboard undo`. */
  readonly setupDir: string
}

/** Creates what the page shows and does, with the functions that commands and tools use. */
export function createUiHost(options: UiHostOptions): UiHost {
  const { app, clock, recent, log } = options
  const callers = new Map<string, Caller>()
  const toSafeText = (text: string): string => toPrintable(options.hide(text))
  const parts: UiContext = {
    ...options,
    toSafeText,
    // One object per profile, because views are cached by caller object.
    caller: (profile) =>
      getOrInsert(callers, profile, () => ({ ...localCaller, profile, client: { name: 'page', version: '' } })),
  }
  const changed = createEmitter<[call?: CallRow]>()
  app.catalog.onChange(() => changed.emit())
  recent.onCall((call) => changed.emit(rowOf(call)))
  const logins = createUiLogins(parts, () => changed.emit())

  const rowOf = (call: RecentCall): CallRow => ({
    id: call.id,
    at: call.at,
    tool: toPrintable(call.tool),
    owner: call.module,
    client: toPrintable([call.caller.client?.name ?? '', call.caller.client?.version ?? ''].join(' ').trim()),
    principal: call.caller.principal,
    profile: call.caller.profile,
    ms: call.ms,
    outcome: call.outcome,
    ...(call.bytes === undefined ? {} : { bytes: call.bytes, tokens: Math.ceil(call.bytes / BYTES_PER_TOKEN) }),
    ...(call.error === undefined ? {} : { error: toSafeText(call.error) }),
    ...(call.hint === undefined || call.hint === '' ? {} : { hint: toSafeText(call.hint) }),
    ...(call.place === undefined ? {} : { place: call.place }),
    replayable: recent.inputOf(call.id) !== undefined,
  })

  function openDesk(): ReviewDesk {
    const file = lockFile(options.config().file)
    if (file === undefined)
      throw new PegboardError('E_NOT_FOUND', 'There is nothing to review without a configuration file.')
    return openReviewDesk(options.config(), file, log)
  }

  const requireFile = (): string => {
    const { file } = options.config()
    if (file !== undefined) return file
    throw new PegboardError('E_NOT_FOUND', 'There is no configuration file to change.', {
      hint: 'Start pegboard serve with --config FILE.',
    })
  }
  let report: AliasReport | undefined

  const requireStatus = (id: string): UpstreamStatus => {
    const found = app.upstreams.status().find((one) => one.id === id || one.module === id)
    if (!found) throw notFound('server', id)
    return found
  }

  return {
    overview: () => showOverview(parts, options.version),
    owners: () =>
      listOwners(parts).map((row) => {
        const login = row.server === undefined ? undefined : logins.stateOf(row.server)
        return login ? { ...row, login } : row
      }),
    server(name) {
      const { id, notes = [] } = requireStatus(name)
      const settings = options.config().servers[id]
      const { target } = settings ?? {}
      // Arguments and queries may contain secrets.
      const reached =
        target === undefined ? undefined : target.kind === 'stdio' ? target.command : withoutQuery(target.url)
      return {
        id,
        stderr: toSafeText(withoutSecrets(app.upstreams.stderrTail(id), target))
          .split('\n')
          .filter(Boolean)
          .slice(-MAX_STDERR_LINES),
        notes: notes.map(toSafeText),
        ...(reached === undefined ? {} : { target: reached }),
        ...(target?.kind === 'stdio' && settings ? { mayTouch: toSafeText(describeReach(settings)) } : {}),
        where: app.upstreams.where(id),
      }
    },
    async act(name, action) {
      const { id } = requireStatus(name)
      if (action === 'login') return await logins.start(id)
      if (action === 'restart' || action === 'disconnect') await app.upstreams.disconnect(id)
      if (action === 'restart' || action === 'connect') await app.upstreams.connect(id)
      changed.emit()
      return {}
    },
    version: () => app.catalog.snapshot().version,
    tools: (profile) => listTools(parts, profile),
    tool(id, profile) {
      const found = showTool(parts, id, profile)
      if (!found) throw notFound('tool', id)
      return found
    },
    search: (query, profile, limit) => searchTools(parts, query, profile, limit),
    try: (name, input, profile, signal) => tryTool(parts, { name, input, caller: parts.caller(profile), signal }),
    calls: () => recent.list().map(rowOf),
    async replay(id, signal) {
      const call = recent.get(id)
      const inputRecord = recent.inputOf(id)
      if (!call || !inputRecord)
        throw new PegboardError('E_NOT_FOUND', 'The arguments of this call are no longer in memory.', {
          hint: 'Pegboard keeps them for 15 minutes and never writes them to disk. Run the tool from the list of tools.',
        })
      const caller = parts.caller(call.caller.profile)
      return await tryTool(parts, { name: call.tool, input: inputRecord.input, caller, signal })
    },
    clients: () => listClients(parts),
    async usage() {
      const { rows } = (await app.usage?.({ by: 'day', days: 30 })) ?? { rows: [] }
      return rows.map(({ name, calls, failures, tokens, direct }) => ({ day: name, calls, failures, tokens, direct }))
    },
    async tokens() {
      const now = clock.now()
      return (await app.server.tokens.list()).map((token) => tokenRow(token, app, now))
    },
    async revoke(id) {
      if (!(await app.server.tokens.remove(id))) throw notFound('token', id)
    },
    later: () => listLater(parts),
    async stop(kind, id) {
      if (!(await stopLater(parts, kind, id))) throw notFound(kind, id)
    },
    async review() {
      return serversOf(openDesk(), undefined).map(reviewRow)
    },
    async decide(server, hashes, accept) {
      const names = Object.keys(hashes)
      if (names.length === 0) throw new PegboardError('E_VALIDATION', 'No tool is selected.')
      const review = openDesk()
      try {
        const done = await decide(review, serversOf(review, server), names, accept, hashes)
        if (review.lock.unsaved !== undefined)
          throw new PegboardError('E_STATE_UNAVAILABLE', `Nothing was changed: ${review.lock.unsaved}.`)
        if (done.length === 0) throw notFound('tool', names[0] ?? '')
      } catch (error) {
        throw error instanceof ReviewError
          ? new PegboardError('E_VALIDATION', `${error.message}.`, {
              hint: 'Look at the current definition and decide again.',
            })
          : error
      }
      app.reviewed()
      changed.emit()
    },
    async switch(names, enabled) {
      const target = { file: requireFile(), stateDir: options.setupDir, modules: moduleNames(options.config()), clock }
      const { undo } = await switchEntries(names, enabled, target)
      return undo === undefined ? {} : { undo }
    },
    async misses() {
      // Measuring loads the search model, which takes seconds.
      if (readMisses(missesFile(options.config().dirs.state), clock.now()).length === 0)
        return { recorded: 0, proposals: [], unused: [], before: 0, after: 0 }
      report = await reportAliases({ app, config: options.config(), caller: parts.caller('default') }, clock.now())
      const { misses, proposals, unused, before, after } = report
      return {
        recorded: misses.length,
        proposals: proposals.map((one) => ({
          ...one,
          queries: one.queries.map((each) => ({ ...each, query: toSafeText(each.query) })),
        })),
        unused: unused.map((one) => ({ ...one, query: toSafeText(one.query) })),
        before: before.recall[1],
        after: after.recall[1],
      }
    },
    async addAlias(tool, alias) {
      const proposal = report?.proposals.find((one) => one.tool === tool && one.alias === alias)
      if (!proposal) throw notFound('proposal', alias)
      const { edit } = await editAliases(app, options.config(), parts.caller('default'), [proposal])
      if (!edit)
        throw new PegboardError('E_NOT_FOUND', 'The entry of this tool is not in the configuration file.', {
          hint: `Add the alias to ${proposal.setting ?? 'the code of the module'} by hand.`,
        })
      const { id } = await applyEdits([edit], {
        stateDir: options.setupDir,
        clock,
        reason: 'suggest',
        config: edit.path,
      })
      return { undo: id }
    },
    onChange: (listener) => changed.listen(listener),
  }
}

function showOverview(
  { app, recent, config, caller: callerOf, calls, clients }: UiContext,
  version: string,
): ReturnType<UiHost['overview']> {
  const caller = callerOf('default')
  const view = app.view(caller)
  const { mode, why } = app.explainExposure(caller)
  const spent = spentBy(app)
  const servers = app.upstreams.status().filter(({ reason }) => reason !== 'disabled')
  return {
    version,
    profiles: ['default', ...Object.keys(config().profiles).filter((name) => name !== 'default')],
    mode,
    why,
    tools: view.size,
    hidden: view.hidden.size,
    listed: app.listedTokens(caller, mode),
    ...(spent ? { spent } : {}),
    servers: servers.length,
    failing: servers.filter(({ state }) => state === 'failing').length,
    toReview: [...view.hidden.values()].filter(({ kind, rejected }) => kind === 'quarantined' && !rejected).length,
    calls: {
      total: recent.total,
      failed: recent.failed,
      running: calls.load().running,
      lastMinute: recent.lastMinute(),
    },
    clients: clients.all().length,
  }
}

function tokenRow(token: StoredToken, app: App, now: number): TokenRow {
  const { id, name, principal, profile, roles, grants = [], createdAt, expiresAt } = token
  const { digest: _digest, credential: _id, ...bearer } = toBearerToken(token)
  const caller: Caller = { ...localCaller, ...bearer, profile: profile ?? 'default', byToken: true }
  return {
    id,
    name,
    principal,
    ...(profile === undefined ? {} : { profile }),
    roles,
    limits: grants.flatMap(({ tools = [], effect }) => [...tools, ...(effect ? [`at most ${effect}`] : [])]),
    tools: app.view(caller).size,
    createdAt,
    ...(expiresAt === undefined ? {} : { expiresAt }),
    expired: isExpired(token, now),
  }
}

const reviewRow = ({ id, trust, seen, waiting, rejected }: ReviewedServer): ReviewServer => ({
  id,
  trust,
  seen,
  rejected: rejected.map(escapeLine),
  waiting: waiting.map(({ name, hash, state, findings, changes, unknownBefore }) => ({
    name: escapeLine(name),
    hash,
    state,
    unknownBefore,
    findings: findings.map(({ level, where, what, evidence, code }) => ({
      level,
      text: `${code}: ${escapeLine(`${where} ${what}`)}`,
      evidence: escapeLine(evidence),
    })),
    changes,
  })),
})

/** Hides secret arguments of a server, and the values of all its variables: programs print them, and any may be a secret. */
function withoutSecrets(text: string, target: StdioTarget | HttpTarget | undefined): string {
  if (target?.kind !== 'stdio') return text
  const secretArgs = findPlainSecrets(target.args).map(({ secret }) => secret)
  return knownSecrets([...Object.values(target.env), ...secretArgs])?.hide(text) ?? text
}

/** A URL without user and query. */
function withoutQuery(text: string): string {
  const url = new URL(text)
  return `${url.origin}${url.pathname}`
}
