import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import type { App } from '../app/app.ts'
import { moduleNames } from '../app/module-names.ts'
import { mayConcern } from '../app/unmatched-rules.ts'
import type { Config } from '../config/load-config.ts'
import type { Caller } from '../core/caller.ts'
import { formatCount } from '../core/format-count.ts'
import { actionOf, didYouMean, OWN_PREFIX } from '../core/tool-names.ts'
import { compilePatterns, lower, shortOwnerName } from '../policy/policy-rules.ts'
import { grantFitsNone } from '../policy/token-scope.ts'
import { grantsOf } from '../server/bearer-tokens.ts'
import { moduleIds } from '../upstream/upstreams.ts'
import { hasAlternatives } from '../view/portable-schema.ts'

/** One sentence for each setting without effect that only the loaded tools show. Call it once the servers have answered. */
export function configWarnings(app: App, config: Config, caller: Caller): string[] {
  return [
    ...app.upstreams.status().flatMap(({ id, notes = [] }) => notes.map((note) => `${id}: ${note}`)),
    ...app.nameProblems(),
    ...findUnknownNames(app, config, caller),
    ...findUnknownProfileNames(app, config),
    ...app.idleModules(caller),
  ]
}

/** Settings that name unknown tools or modules, probably misspelled. */
function findUnknownNames(app: App, config: Config, caller: Caller): string[] {
  const { tools, owners } = app.catalog.snapshot()
  const unknown = app
    .unmatchedConstraints()
    .map(({ owner, action }) => `modules.${owner}.constraints names "${action}", which is no tool of ${owner}.`)
  // Modules that failed to load are reported elsewhere.
  const failed = new Set(app.failed().flatMap(({ file }) => file.split(/[/\\.]/)))
  const modules = Object.entries(config.modules)
    .filter(([id, { enabled }]) => enabled && !owners.has(id) && !owners.has(`${OWN_PREFIX}${id}`) && !failed.has(id))
    // What is said of the tools of a server or API.
    .filter(([id, { constraints, tripwire }]) => {
      const servers = [config.servers[id] && moduleIds(config.servers).get(id), `mcp_${id}`, `api_${id}`]
      return !(constraints ?? tripwire) || !servers.some((owner) => owner !== undefined && owners.has(owner))
    })
    .map(([id]) => `modules.${id} names no loaded module${didYouMean(id, owners.keys(), '.')}`)
  const ids = tools.map((tool) => tool.id)
  const knownNames = new Set(
    tools.flatMap((tool) => [tool.id, tool.name, actionOf(tool), `${shortOwnerName(tool.module)}.${actionOf(tool)}`]),
  )
  const switches = Object.keys(config.tools)
    .filter((name) => !(name.includes('*') ? [...knownNames].some(compilePatterns([name])) : knownNames.has(name)))
    .map((name) => `tools.${name} names no tool${didYouMean(name, ids, '.')}`)
  const view = app.view(caller)
  const pinned = config.exposure.pinned
    .filter((name) => view.resolve(name).kind !== 'found')
    .map((name) => `exposure.pinned names "${name}", which is no visible tool${didYouMean(name, ids, '.')}`)
  // The tools of a server that was left out are unknown, so a rule about them may be right.
  const denied = app
    .unmatchedRules('off')
    .filter((rule) => !config.skipped.some(({ id }) => mayConcern(rule, `mcp_${id}`)))
    .map(({ sentence }) => sentence)
  const granted = config.server.http.tokens.flatMap(({ tools: patterns = [] }, at) =>
    patterns
      .filter((pattern) => grantFitsNone(pattern, app.catalog.snapshot().owners.values()))
      .map((pattern) => `server.http.tokens.${at}.tools names ${JSON.stringify(pattern)}, which matches no tool.`),
  )
  const useless = config.server.http.tokens.flatMap(({ tools: patterns, effect }, at) => {
    const named = app.view({ ...caller, ...grantsOf({ tools: patterns }) }).size
    const isUseless =
      effect !== undefined && named > 0 && app.view({ ...caller, ...grantsOf({ tools: patterns, effect }) }).size === 0
    return isUseless
      ? [
          `server.http.tokens.${at} can use no tool: none of ${formatCount(named, 'tool')} that it names counts as "${effect}".`,
        ]
      : []
  })
  const alternatives = view.tools.filter(
    ({ input, schema = 'portable' }) => schema === 'portable' && hasAlternatives(input.json),
  )
  const refused =
    alternatives.length > 0 && app.explainExposure(caller).mode === 'direct'
      ? [
          `${alternatives.map(({ tool }) => tool.id).join(', ')}: the schema has alternatives at its top level, for which some providers refuse all tools; set exposure.schema to "strict" to merge them.`,
        ]
      : []
  const intents = [...new Set(tools.flatMap(({ intent }) => intent ?? []))]
  const triggers = Object.entries(config.profiles).flatMap(([id, { deliberate }]) =>
    Object.keys(deliberate.triggers)
      .filter((intent) => !intents.includes(intent))
      .map(
        (intent) =>
          `profiles.${id}.deliberate.triggers names "${intent}", which is no tool's intent${didYouMean(intent, intents, '.')}`,
      ),
  )
  const folder =
    config.modulesDir !== undefined && basename(config.modulesDir) !== 'modules' && !existsSync(config.modulesDir)
      ? [`modulesDir names a folder that does not exist: ${config.modulesDir}`]
      : []
  return [
    ...unknown,
    ...modules,
    ...switches,
    ...pinned,
    ...denied,
    ...granted,
    ...useless,
    ...triggers,
    ...refused,
    ...folder,
  ]
}

/** Names of servers and modules in profiles, probably misspelled. A server that is off or cannot start is known. */
function findUnknownProfileNames(app: App, config: Config): string[] {
  const common = [
    ...app.catalog.snapshot().owners.keys(),
    ...app.failed().map(({ file }) => basename(file).replace(/\..*$/, '')),
    ...Object.keys(config.servers),
    ...moduleIds(config.servers).values(),
    ...config.skipped.map(({ id }) => id),
    ...Object.keys(config.openapi).flatMap((id) => [id, `api_${id}`]),
    ...moduleNames(config),
  ]
  return Object.entries(config.profiles).flatMap(([profile, { use = [], modules, servers }]) => {
    const known = [...new Set([...common, ...common.map(shortOwnerName), ...Object.keys(servers)].map(lower))]
    const findUnknown = (setting: string, patterns: readonly string[]): string[] =>
      patterns
        .filter((pattern) => pattern !== '*' && !known.some(compilePatterns([lower(pattern)])))
        .map(
          (pattern) =>
            `profiles.${profile}.${setting} names "${pattern}", which is no server, API or module${didYouMean(pattern, known, '.')}`,
        )
    return [...findUnknown('use', use), ...findUnknown('modules', Object.keys(modules))]
  })
}
