import { createRegistry, type Registry } from '../setup/registry-client.ts'
import { type Args, readInteger, readOption } from './args.ts'
import { formatTable, type Io, UsageError, writeJson, writeWarning } from './io.ts'
import { openConfig } from './open-app.ts'

/** `pegboard registry search <words>` and `pegboard registry show <name>`. */
export async function run(args: Args, io: Io): Promise<number> {
  const [action, ...words] = args.positionals
  if (action === 'search' && words.length > 0) return await search(args, io, words)
  if (action === 'show' && words[0] !== undefined && words.length === 1) return await show(args, io, words[0])
  throw new UsageError('registry takes search <words> or show <name>')
}

/** Uses the registry of --registry or of the configuration, and closes it. */
export async function withRegistry<T>(args: Args, io: Io, use: (registry: Registry) => Promise<T>): Promise<T> {
  const { config } = await openConfig(args, io)
  const { url, allowPrivate } = config.registry
  const registry = createRegistry({ url: readOption(args, 'registry') ?? url, allowPrivate })
  return await use(registry).finally(() => registry.close())
}

function search(args: Args, io: Io, words: readonly string[]): Promise<number> {
  return withRegistry(args, io, async (registry) => {
    const hits = await registry.search(
      words.flatMap((word) => word.split(/\s+/)),
      readInteger(args, 'limit', 1, 100, 10),
    )
    if (args.values['json'] === true) writeJson(io, { registry: registry.url, servers: hits })
    else if (hits.length === 0) io.stdout(`The registry has no server whose name contains ${words.join(' or ')}.\n`)
    else {
      const rows = hits.map(({ name, version, description, deprecated }) => [
        name,
        version,
        deprecated ? `(deprecated) ${description}` : description,
      ])
      io.stdout(formatTable(rows))
      io.stderr(
        'Anybody can publish there; nobody has checked these servers. To see what one would run: pegboard registry show NAME. To add it: pegboard add NAME\n',
      )
    }
    return 0
  })
}

function show(args: Args, io: Io, nameAndVersion: string): Promise<number> {
  const [, name = '', version] = /^([^@]*)(?:@(.+))?$/.exec(nameAndVersion) ?? []
  return withRegistry(args, io, async (registry) => {
    const server = await registry.server(name, version)
    const versions = await registry.versions(name)
    if (args.values['json'] === true) writeJson(io, { registry: registry.url, ...server, versions })
    else {
      const { createPlans, formatPlans } = await import('./add-plan.ts')
      const plans = createPlans(server, registry.url, (why) => writeWarning(io, why))
      io.stdout(formatPlans(plans, server, versions))
    }
    return 0
  })
}
