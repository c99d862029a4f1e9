import type { Config } from '../config/load-config.ts'
import { PegboardError } from '../core/errors.ts'
import { quoteWord } from '../core/quote-word.ts'
import { moduleOf } from '../openapi/apis.ts'
import { moduleIds } from '../upstream/upstreams.ts'

/** A server, module or API that the operator disabled. */
export interface DisabledOwner {
  readonly kind: 'server' | 'module' | 'API'
  /** Its key in the configuration. */
  readonly id: string
  /** Its id in the catalog. */
  readonly owner: string
  /** What disables it. */
  readonly setting: string
}

interface ConfiguredOwner extends DisabledOwner {
  readonly enabled: boolean
  /** What names of its tools begin with. */
  readonly names: readonly string[]
}

/** All that the configuration names. Entries that are left out because a variable is missing count as enabled. */
function configuredOwners({ servers, modules, openapi, missing }: Config): readonly ConfiguredOwner[] {
  const modulesOfServers = moduleIds(servers)
  return [
    ...Object.entries(servers).map(([id, { enabled, prefix, where }]): ConfiguredOwner => {
      const owner = modulesOfServers.get(id) as string
      return { kind: 'server', id, owner, setting: where, enabled, names: [id, owner, prefix] }
    }),
    ...Object.entries(openapi).map(([id, { enabled, prefix }]): ConfiguredOwner => {
      const [owner, key] = [moduleOf(id), `openapi.${id}`]
      const isEnabled = enabled || key in missing
      return { kind: 'API', id, owner, setting: `${key}.enabled`, enabled: isEnabled, names: [id, owner, prefix] }
    }),
    ...Object.entries(modules).map(([id, { enabled }]): ConfiguredOwner => {
      const key = `modules.${id}`
      const isEnabled = enabled || key in missing
      return { kind: 'module', id, owner: id, setting: `${key}.enabled`, enabled: isEnabled, names: [id] }
    }),
  ]
}

export const disabledOwners = (config: Config): readonly DisabledOwner[] =>
  configuredOwners(config).filter(({ enabled }) => !enabled)

/**
 * The disabled server, module or API that a tool name begins with, whether or not it has this tool.
 * @param sees whether the caller may know an owner; default all
 */
export function findDisabledOwner(
  config: Config,
  name: string,
  sees: (owner: string) => boolean = () => true,
): DisabledOwner | undefined {
  const dotted = name.replace(/__|::|:|\//, '.').toLowerCase()
  return configuredOwners(config).find(
    ({ enabled, owner, names }) =>
      !enabled && sees(owner) && names.some((one) => one !== '' && dotted.startsWith(`${one.toLowerCase()}.`)),
  )
}

/** The error for a call of a tool of a disabled owner. */
export const createDisabledError = (name: string, { kind, id }: DisabledOwner): PegboardError =>
  new PegboardError('E_TOOL_DISABLED', `'${name}' is not available: the operator disabled the ${kind} ${id}.`, {
    hint: `Use another tool. The operator can enable the ${kind} with: pegboard enable ${quoteWord(id)}`,
  })
