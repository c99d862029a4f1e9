import { readdirSync } from 'node:fs'
import type { OwnerNames } from '../catalog/owner-names.ts'
import type { Config } from '../config/load-config.ts'
import { moduleIds } from '../upstream/upstreams.ts'

/**
 * Names of all configured modules and servers in lower case, with their owners. Includes those that are off or not
 * connected: no tool of another server may be found as `shell.run` while the shell is off.
 * @param folders folders of modules
 */
export function claimedNames(config: Config, folders: readonly (string | undefined)[]): OwnerNames {
  const names = new Map<string, Set<string>>()
  const claim = (name: string, id: string): void => {
    const folded = name.toLowerCase()
    if (folded !== '') names.set(folded, (names.get(folded) ?? new Set()).add(id))
  }
  for (const id of [...folders.flatMap(modulesIn), ...Object.keys(config.modules)]) claim(id, id)
  for (const [id, module] of moduleIds(config.servers))
    for (const name of [id, module, module.slice('mcp_'.length), config.servers[id]?.prefix ?? '']) claim(name, module)
  for (const { id } of config.skipped) claim(id, `mcp_${id.toLowerCase()}`)
  // `pegboard.hello.say_hello` is a bundled module's tool, unless a server is called `pegboard`.
  if (!names.has(OWN_NAME)) claim(OWN_NAME, OWN_NAME)
  for (const id of Object.keys(config.openapi)) for (const name of [id, `api_${id}`]) claim(name, `api_${id}`)
  return names
}

const OWN_NAME = 'pegboard'

/** The file names in a folder. Nearly every module has the name of its file. Helpers begin with `_`. */
function modulesIn(folder: string | undefined): string[] {
  try {
    const found = folder === undefined ? [] : readdirSync(folder)
    return found.map((name) => name.replace(/\..*$/, '')).filter((name) => name !== '' && !name.startsWith('_'))
  } catch {
    // A missing folder contains no modules.
    return []
  }
}

/**
 * The server whose tools have the same names as those of a module with this id. A server that is disabled or cannot be
 * used keeps its names, so that they do not mean other tools meanwhile.
 */
export function serverNamed({ servers, skipped }: NamedServers, id: string): string | undefined {
  const modules = moduleIds(servers)
  const module = `mcp_${id}`
  const configured = Object.keys(servers).find(
    (server) => modules.get(server) === module || servers[server]?.prefix.toLowerCase() === id,
  )
  return configured ?? skipped.find((server) => server.id.toLowerCase() === id)?.id
}

type NamedServers = Pick<Config, 'servers' | 'skipped'>

/** A sentence for the operator about a bundled module and a server with the same name. */
export function sharedNameSentence({ servers, skipped }: NamedServers, id: string): string {
  const server = serverNamed({ servers, skipped }, id) ?? id
  return `${servers[server]?.where ?? `The server ${server}`} has the name of the bundled module ${id}, whose tools are now called pegboard.${id}.<tool> (pegboard_${id}__<tool> for clients). Rename the server, or set modules.${id}.enabled to false.`
}

/** A sentence for the operator about a drop-in and a server or API with the same name. */
export const sameRulesSentence = (id: string, other: string): string =>
  `The module ${id} and ${other} have the same name: rules for ${id} apply to both. Write ${other} in rules for it alone.`
