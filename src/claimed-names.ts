import { readdirSync } from 'node:fs'
import type { Claims } from './catalog/catalog.ts'
import type { Config } from './config/load.ts'
import { moduleIds } from './upstream/upstreams.ts'

/**
 * What every module and server of this installation is called, in lower case, and by which owner, also of those that are
 * off or not connected: a tool of another server must not be found under `shell.run` while the shell is off.
 * @param folders of modules
 */
export function claimedNames(config: Config, folders: readonly (string | undefined)[]): Claims {
  const names = new Map<string, Set<string>>()
  const claim = (name: string, id: string): void => {
    const folded = name.toLowerCase()
    if (folded !== '') names.set(folded, (names.get(folded) ?? new Set()).add(id))
  }
  for (const id of [...folders.flatMap(modulesIn), ...Object.keys(config.modules)]) claim(id, id)
  for (const [id, module] of moduleIds(Object.keys(config.servers)))
    for (const name of [id, module, module.slice('mcp_'.length), config.servers[id]?.prefix ?? '']) claim(name, module)
  for (const { id } of config.skipped) claim(id, `mcp_${id.toLowerCase()}`)
  // `pegboard.hello.say_hello` is a bundled module's tool, unless the operator calls a server so.
  if (!names.has(OURS)) claim(OURS, OURS)
  for (const id of Object.keys(config.openapi)) for (const name of [id, `api_${id}`]) claim(name, `api_${id}`)
  return names
}

const OURS = 'pegboard'

/** Names of files are those of their modules nearly always; helpers begin with `_`. */
function modulesIn(folder: string | undefined): string[] {
  try {
    const found = folder === undefined ? [] : readdirSync(folder)
    return found.map((name) => name.replace(/\..*$/, '')).filter((name) => name !== '' && !name.startsWith('_'))
  } catch {
    // A folder that does not exist has no modules.
    return []
  }
}

/** The enabled server whose tools are called as those of a module with this id would be. */
export function serverNamed({ servers }: Pick<Config, 'servers'>, id: string): string | undefined {
  const modules = moduleIds(Object.keys(servers))
  return Object.keys(servers).find(
    (server) =>
      servers[server]?.enabled && (modules.get(server) === `mcp_${id}` || servers[server].prefix.toLowerCase() === id),
  )
}

/** For the operator, about a bundled module and a server of one name. */
export function sharedNameSentence({ servers }: Pick<Config, 'servers'>, id: string): string {
  const server = serverNamed({ servers }, id) ?? id
  return `${servers[server]?.where ?? server} has the name of the bundled module ${id}, whose tools are now called pegboard.${id}.<tool> (pegboard_${id}__<tool> for clients). Rename the server, or set modules.${id}.enabled to false.`
}
