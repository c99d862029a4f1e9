import type { Catalog, Endpoints, OwnerInfo, Prompt } from '../catalog/catalog.ts'
import { actionNames, createFilter, mayStillCome, namingProblems } from '../catalog/naming.ts'
import type { Log } from '../core/log.ts'
import { plain } from '../core/plain.ts'
import type { Tool } from '../core/tool.ts'
import { adaptPrompt, createAdapter, createNames, type ToolHost } from './adapt.ts'
import type { ToolRecord } from './definition.ts'
import type { Listing } from './listing.ts'

export interface PublisherOptions extends ToolHost {
  readonly catalog: Catalog
  readonly endpoints: Endpoints
  readonly log: Log
}

/** Puts what a server offers into the catalogue, when it differs from what is there. */
export interface Publisher {
  /** Tools published last. */
  readonly tools: number
  /** Answers false when nothing differs. */
  publish(listing: Listing, now: Pick<OwnerInfo, 'state' | 'reason'>): boolean
  promptNamed(exposed: string): string
  /** Settings of its tools that have no effect, as sentences for the operator. Empty until its list is known. */
  problems(): readonly string[]
}

export function createPublisher(options: PublisherOptions): Publisher {
  const { id, module, catalog, log } = options
  let published: Listing | undefined
  /** The naming that was published. */
  let said = ''
  /** By the server's names for them. */
  let tools = new Map<string, { readonly tool: Tool; readonly record: ToolRecord }>()
  let prompts = new Map<string, string>()
  /** By the server's own name, those that are not let through included; only kept where there are settings of tools. */
  let listed: ReadonlyMap<string, Tool | undefined> = new Map()
  const told = new Set<string>()

  /** @param renamed what is said of tools has changed, so they all are other ones */
  function toolsOf(listing: Listing, renamed: boolean): typeof tools {
    const { settings } = options
    const passes = createFilter(settings)
    const passing = listing.tools.filter(({ name }) => passes(name))
    const actions = actionNames(
      passing.map(({ name }) => name),
      settings,
    )
    const adapt = createAdapter(options, actions)
    const next: typeof tools = new Map()
    for (const record of passing) {
      const tool = adapt(record)
      // The same object while nothing changed: whoever keeps something about a tool need not make it again.
      const before = tools.size > 0 && !renamed ? tools.get(record.name) : undefined
      const same = before?.tool.id === tool.id && before.tool.name === tool.name && before.record.text === record.text
      next.set(record.name, same ? before : { tool, record })
    }
    listed =
      Object.keys(settings.tools).length > 0
        ? new Map(listing.tools.map(({ name }) => [name, next.get(name)?.tool]))
        : new Map()
    return next
  }

  const problems = (): string[] => namingProblems(`mcpServers.${id}.tools`, id, options.settings, listed, catalog)

  function tell(): void {
    for (const problem of problems().filter((one) => !mayStillCome(one))) {
      if (told.has(problem)) continue
      told.add(problem)
      log.warn(problem)
    }
  }

  return {
    get tools() {
      return tools.size
    },
    publish(listing, now) {
      const { resources, templates, prompts: offered } = listing
      const { settings } = options
      const saying = JSON.stringify([settings.prefix, settings.allow, settings.deny, settings.tools, settings.summary])
      if (published && said === saying && isSame(published, listing)) return false
      const wire = createNames()
      const named: Array<readonly [Prompt, string]> = offered.map((entry) => [
        adaptPrompt(entry, settings, wire),
        String(entry['name']),
      ])
      tools = toolsOf(listing, said !== saying)
      prompts = new Map(named.map(([prompt, own]) => [prompt.name, own]))
      catalog.set(
        {
          id: module,
          summary: plain(settings.summary ?? `MCP server ${id}`),
          ...(settings.summary === undefined ? {} : { about: plain(settings.summary) }),
          origin: 'upstream',
          ...now,
        },
        {
          tools: Array.from(tools.values(), ({ tool }) => tool),
          resources: resources.map((entry) => ({ uri: String(entry['uri']), entry })),
          templates: templates.map((entry) => ({ uriTemplate: String(entry['uriTemplate']), entry })),
          prompts: named.map(([prompt]) => prompt),
          endpoints: options.endpoints,
        },
      )
      published = listing
      said = saying
      tell()
      return true
    },
    promptNamed: (exposed) => prompts.get(exposed) ?? exposed,
    problems,
  }
}

function isSame(before: Listing, now: Listing): boolean {
  const others = ({ resources, templates, prompts }: Listing): string => JSON.stringify([resources, templates, prompts])
  return (
    before.tools.length === now.tools.length &&
    before.tools.every(({ text }, at) => text === now.tools[at]?.text) &&
    others(before) === others(now)
  )
}
