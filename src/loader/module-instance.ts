import type { OwnerInfo, ToolResource } from '../catalog/owner.ts'
import { localCaller, noServices, originOf, type ServicesFor } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { isRecord } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import type { SetupStep, ToolModule } from '../core/module.ts'
import { once } from '../core/once.ts'
import { defaultProfile, type Profile } from '../core/profile.ts'
import { toSchema } from '../core/schema.ts'
import { describeSettingError } from '../core/setting-error.ts'
import type { Tool } from '../core/tool.ts'
import { findNearest } from '../core/tool-names.ts'
import { adaptTool } from './adapt-module-tool.ts'
import { moduleTools } from './module-shapes.ts'
import type { ModuleOwner } from './settle-owners.ts'
import { fillTemplates, type TemplateVars } from './templates.ts'
import { withTimeout } from './with-timeout.ts'

/** A started owner, whose tools are bound to its configuration. */
export interface ModuleInstance {
  readonly id: string
  /** Its record for the catalog. */
  readonly info: Pick<OwnerInfo, 'summary' | 'about' | 'synonyms' | 'toolResources' | 'promptSection' | 'notices'>
  /** Its completed set-up steps. Grows. */
  readonly setup: SetupStep[]
  readonly tools: readonly Tool[]
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
  const counted = (by: 1 | -1): number => {
    if (!module) return 0
    const now = (starts.get(module) ?? 0) + by
    starts.set(module, now)
    return now
  }
  const isBundled = owner.records[0]?.entry.bundled === true
  const config = parseConfig(owner, options.config, options)
  const forProfile = new WeakMap<Profile, unknown>()
  const configFor = (profile: Profile): unknown => {
    const changes = profile.config[id]
    if (changes === undefined || Object.keys(changes).length === 0) return config
    return getOrInsert(forProfile, profile, () =>
      parseConfig(owner, { ...(options.config as object), ...changes }, options, `profiles.${profile.id}.`),
    )
  }
  const running = createRunning(clock)
  const { servicesFor } = options
  const binding = { module: id, config, configFor, log, track: running.track, ...(servicesFor && { servicesFor }) }
  const renamed = lastNames(module?.renamed ?? {})
  const tools = module
    ? moduleTools(module).map((source) =>
        adaptTool(source, {
          ...binding,
          isBundled,
          readOnly: module.readOnly,
          writes: module.writes,
          ...(module.enabled && {
            enabled: (profile: Profile) => module.enabled?.({ config: configFor(profile), profile }) ?? true,
          }),
          aliases: renamed.filter(([, now]) => now === source.action).map(([old]) => old),
        }),
      )
    : owner.slots.map(({ source, aliases }) => adaptTool(source, { ...binding, aliases, tripwire: 'throw' }))

  const abort = new AbortController()
  if (module?.start) {
    const late = (): Error => new Error(`it took longer than ${startTimeoutMs} ms`)
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
      await withTimeout(started, startTimeoutMs, clock, late)
    } catch (error) {
      abort.abort()
      throw new PegboardError('E_MODULE_LOAD', `${id} did not start: ${messageOf(error)}.`, { cause: error })
    }
  }
  counted(1)
  let over = false
  const setup: SetupStep[] = []
  return {
    id,
    setup,
    info: module
      ? {
          summary: module.description,
          about: module.description,
          ...(module.synonyms === undefined ? {} : { synonyms: module.synonyms }),
          ...(module.resources === undefined ? {} : { toolResources: readingsOf(id, module.resources) }),
          ...(module.promptSection && {
            promptSection: (caller, nameOf, profile) =>
              module.promptSection?.({
                config: configFor(profile),
                caller,
                profile,
                services: servicesFor?.({ module: id, caller, profile }) ?? noServices,
                nameOf,
                setup,
              }),
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
    async stop(drainMs) {
      await running.drained(drainMs)
      abort.abort()
      if (over) return
      over = true
      // A later start uses the same resources, so only the last one calls `stop`.
      if (counted(-1) > 0) return
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

const readingsOf = (id: string, resources: NonNullable<ToolModule['resources']>): readonly ToolResource[] =>
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
function lastNames(renamed: Readonly<Record<string, string>>): ReadonlyArray<readonly [string, string]> {
  return Object.keys(renamed).map((old) => {
    let now = old
    for (let steps = 0; Object.hasOwn(renamed, now) && steps <= Object.keys(renamed).length; steps++)
      now = renamed[now] as string
    return [old, now]
  })
}

const summaryOf = (tools: readonly Tool[]): string =>
  tools.length === 1 ? (tools[0]?.description ?? '') : `${tools.map((tool) => tool.title).join(', ')}.`

function parseConfig(
  { id, module, records }: ModuleOwner,
  config: unknown,
  { vars, log }: InstanceOptions,
  where = '',
): unknown {
  const place = `${where}modules.${id}.config`
  const bad = (path: string, message: string): PegboardError =>
    new PegboardError('E_MODULE_CONFIG', `${place}${path && `.${path}`}: ${message}`)
  const fill = (value: unknown, done?: unknown): unknown => {
    try {
      return fillTemplates(value, vars, done)
    } catch (error) {
      throw bad('', messageOf(error))
    }
  }
  const given = fill(config ?? {})
  if (!module?.config) return given
  const schema = toSchema(module.config, describeSettingError)
  const parsed = schema.parse(given)
  const getKeys = once(() => knownKeys(schema.json))
  if (!records[0]?.entry.bundled) getKeys()
  if (!parsed.ok) {
    const [{ path, message } = { path: '', message: 'does not fit' }] = parsed.issues
    const [, unknown] = /^unknown key "([^"]+)"$/.exec(message) ?? []
    const [near] = unknown === undefined || path !== '' ? [] : findNearest(unknown, getKeys() ?? [], 3, 1)
    throw bad(path, near ? `${message}; did you mean "${near}"?` : message)
  }
  for (const key of isRecord(given) ? Object.keys(given) : []) {
    const keys = getKeys()
    if (!keys || keys.includes(key)) continue
    const [near] = findNearest(key, keys, 3, 1)
    log.warn('an unknown configuration key is ignored', { key: `${place}.${key}`, ...(near ? { nearest: near } : {}) })
  }
  // Fills templates again, because defaults such as "{{workspace}}" may contain some.
  return fill(parsed.value, given)
}

/** The keys of a closed configuration; undefined if it accepts any. */
const knownKeys = (json: Readonly<Record<string, unknown>>): string[] | undefined =>
  isRecord(json['properties']) && !json['additionalProperties'] ? Object.keys(json['properties']) : undefined

/** Counts running calls. */
function createRunning(clock: Clock) {
  let count = 0
  let waiting: (() => void) | undefined
  return {
    async track<T>(work: () => Promise<T>): Promise<T> {
      count++
      try {
        return await work()
      } finally {
        if (--count === 0) waiting?.()
      }
    },
    drained: (ms: number): Promise<void> =>
      count === 0 || ms === 0
        ? Promise.resolve()
        : new Promise((resolve) => {
            const cancel = clock.after(ms, resolve)
            waiting = () => {
              cancel()
              resolve()
            }
          }),
  }
}
