import type { OwnerInfo, ToolResource } from '../catalog/owner.ts'
import { localCaller, noServices, originOf, type ServicesFor } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { Log } from '../core/log.ts'
import type { SetupStep, ToolModule } from '../core/module.ts'
import { defaultProfile, type Profile } from '../core/profile.ts'
import type { Tool } from '../core/tool.ts'
import { adaptTool } from './adapt-module-tool.ts'
import { type ProfileOverride, parseModuleConfig } from './module-config.ts'
import { toolsOfModule } from './module-shapes.ts'
import { requireSync } from './require-sync.ts'
import type { ModuleOwner } from './settle-owners.ts'
import type { TemplateVars } from './templates.ts'
import { withTimeout } from './with-timeout.ts'

/** A started owner, whose tools are bound to its configuration. */
export interface ModuleInstance {
  readonly id: string
  /** What the catalog shows about the owner. */
  readonly info: Pick<OwnerInfo, 'summary' | 'about' | 'synonyms' | 'toolResources' | 'promptSection' | 'notices'>
  /** The completed set-up steps. The loader adds later ones. */
  readonly setup: SetupStep[]
  readonly tools: readonly Tool[]
  /** Options that the module probably does not have, as sentences. Those of a profile are added when it is used. */
  readonly unknownOptions: ReadonlySet<string>
  /** Waits up to `drainMs` for running calls, then stops the module. Never rejects. */
  stop(drainMs: number): Promise<void>
}

export interface InstanceOptions {
  readonly config: unknown
  readonly vars: TemplateVars
  readonly log: Log
  readonly clock: Clock
  readonly servicesFor?: ServicesFor
  readonly startTimeoutMs: number
  readonly changed: () => void
  /**
   * Number of running starts of this module. After a configuration change, the new start begins before the old one
   * ends.
   */
  readonly starts: WeakMap<ToolModule, number>
}

/**
 * Checks configuration and schemas, then starts the module.
 * @throws PegboardError E_MODULE_CONFIG, E_MODULE_SHAPE; E_MODULE_LOAD if `start` fails or takes too long
 */
export async function startInstance(owner: ModuleOwner, options: InstanceOptions): Promise<ModuleInstance> {
  const { id, module } = owner
  const { clock, log, startTimeoutMs, starts } = options
  const countStarts = (change: 1 | -1): number => {
    if (!module) return 0
    const count = (starts.get(module) ?? 0) + change
    starts.set(module, count)
    return count
  }
  const isBundled = owner.records[0]?.entry.bundled === true
  const unknownOptions = new Set<string>()
  const parse = (override?: ProfileOverride): unknown =>
    parseModuleConfig(owner, options, override, (sentence, fields) => {
      // Two objects can describe the same profile.
      if (unknownOptions.has(sentence)) return
      unknownOptions.add(sentence)
      log.warn(sentence, fields)
    })
  const config = parse()
  const configByProfile = new WeakMap<Profile, unknown>()
  const configFor = (profile: Profile): unknown => {
    const changes = profile.config[id]
    if (changes === undefined || Object.keys(changes).length === 0) return config
    return getOrInsert(configByProfile, profile, () => parse({ profile: profile.id, changes }))
  }
  const calls = createCallCounter(clock)
  const { servicesFor } = options
  const binding = { module: id, config, configFor, log, track: calls.track, ...(servicesFor && { servicesFor }) }
  const finalNames = finalNamesOf(module?.renamed ?? {})
  const tools = module
    ? toolsOfModule(module).map((source) =>
        adaptTool(source, {
          ...binding,
          isBundled,
          readOnly: module.readOnly,
          writes: module.writes,
          ...(module.enabled && {
            enabled: (profile: Profile) =>
              requireSync('enabled', module.enabled?.({ config: configFor(profile), profile })) ?? true,
          }),
          aliases: finalNames.filter(([, current]) => current === source.action).map(([old]) => old),
        }),
      )
    : owner.toolEntries.map(({ source, aliases }) => adaptTool(source, { ...binding, aliases, tripwire: 'throw' }))

  const abort = new AbortController()
  if (module?.start) {
    const createTimeoutError = (): Error => new Error(`it took longer than ${startTimeoutMs} ms`)
    try {
      const started = Promise.resolve(
        module.start({
          config,
          log: log.scoped(id),
          signal: abort.signal,
          services:
            servicesFor?.({ module: id, caller: localCaller, profile: defaultProfile, until: abort.signal }) ??
            noServices,
          changed: options.changed,
        }),
      )
      await withTimeout(started, startTimeoutMs, clock, createTimeoutError)
    } catch (error) {
      abort.abort()
      throw new PegboardError('E_MODULE_LOAD', `${id} did not start: ${messageOf(error)}.`, { cause: error })
    }
  }
  countStarts(1)
  let isStopped = false
  const setup: SetupStep[] = []
  return {
    id,
    setup,
    info: module
      ? {
          summary: module.description,
          about: module.description,
          ...(module.synonyms === undefined ? {} : { synonyms: module.synonyms }),
          ...(module.resources === undefined ? {} : { toolResources: toolResourcesOf(id, module.resources) }),
          ...(module.promptSection && {
            promptSection: (caller, nameOf, profile) =>
              requireSync(
                'promptSection',
                module.promptSection?.({
                  config: configFor(profile),
                  caller,
                  profile,
                  services: servicesFor?.({ module: id, caller, profile }) ?? noServices,
                  nameOf,
                  setup,
                }),
              ),
          }),
          ...(module.notices && {
            notices: (caller, profile) =>
              module.notices?.({
                config: configFor(profile),
                caller,
                profile,
                origin: originOf(caller, profile),
                services: servicesFor?.({ module: id, caller, profile }) ?? noServices,
              }) ?? [],
          }),
        }
      : { summary: summaryOf(tools) },
    tools,
    unknownOptions,
    async stop(drainMs) {
      await calls.waitUntilIdle(drainMs)
      abort.abort()
      if (isStopped) return
      isStopped = true
      // A later start uses the same resources, so only the last one calls `stop`.
      if (countStarts(-1) > 0) return
      try {
        if (module?.stop)
          await withTimeout(
            Promise.resolve(module.stop()),
            startTimeoutMs,
            clock,
            () => new Error('stop() took too long'),
          )
      } catch (error) {
        log.warn('a module did not stop cleanly', { module: id, error: messageOf(error) })
      }
    },
  }
}

const toolResourcesOf = (id: string, resources: NonNullable<ToolModule['resources']>): readonly ToolResource[] =>
  Object.entries(resources).map(
    ([uri, { tool, input = {}, mimeType = 'application/json', name, title, description }]) => ({
      uri,
      entry: { uri, name, ...(title === undefined ? {} : { title }), description, mimeType },
      tool: `${id}.${tool}`,
      input,
      mimeType,
    }),
  )

/** Maps each old name to the final one. Names that were renamed in a circle are dropped. */
function finalNamesOf(renamed: Readonly<Record<string, string>>): ReadonlyArray<readonly [string, string]> {
  return Object.keys(renamed).map((old) => {
    let name = old
    for (let steps = 0; Object.hasOwn(renamed, name) && steps <= Object.keys(renamed).length; steps++)
      name = renamed[name] as string
    return [old, name]
  })
}

const summaryOf = (tools: readonly Tool[]): string =>
  tools.length === 1 ? (tools[0]?.description ?? '') : `${tools.map((tool) => tool.title).join(', ')}.`

/** Counts running calls. */
function createCallCounter(clock: Clock) {
  let count = 0
  let onIdle: (() => void) | undefined
  return {
    async track<T>(work: () => Promise<T>): Promise<T> {
      count++
      try {
        return await work()
      } finally {
        if (--count === 0) onIdle?.()
      }
    },
    waitUntilIdle: (ms: number): Promise<void> =>
      count === 0 || ms === 0
        ? Promise.resolve()
        : new Promise((resolve) => {
            const cancel = clock.after(ms, resolve)
            onIdle = () => {
              cancel()
              resolve()
            }
          }),
  }
}
