import type { Catalog, Endpoints, LaterTools, OwnerInfo, Prompt } from '../catalog/catalog.ts'
import type { Tool } from '../core/tool.ts'
import { adaptPrompt, createAdapter, createFilter, createNames, exposedName, type ToolHost } from './adapt.ts'
import type { ToolRecord } from './definition.ts'
import type { Listing } from './listing.ts'
import { plain } from './plain.ts'

export interface PublisherOptions extends ToolHost {
  readonly catalog: Catalog
  readonly endpoints: Endpoints
  readonly reserved: ReadonlySet<string>
}

/** Puts what a server offers into the catalogue, when it differs from what is there. */
export interface Publisher {
  /** Tools published last. */
  readonly tools: number
  /** Answers false when nothing differs. */
  publish(listing: Listing, now: Pick<OwnerInfo, 'state' | 'reason' | 'nextAttemptAt' | 'startsInMs'>): boolean
  promptNamed(exposed: string): string
}

interface Made {
  readonly tool: Tool
  readonly record: ToolRecord
}

export function createPublisher(options: PublisherOptions): Publisher {
  const { id, module, settings, catalog } = options
  const passes = createFilter(settings)
  let published: Listing | undefined
  let count = 0
  /** By the server's names for them. */
  let made: ReadonlyMap<string, Made> = new Map()
  let prompts = new Map<string, string>()

  function make(records: readonly ToolRecord[]): readonly Tool[] {
    const adapt = createAdapter(options, { ids: createNames(), wire: createNames(options.reserved) })
    const before = made
    const next = records.map((record): readonly [string, Made] => {
      const tool = adapt(record)
      // The same object while nothing changed: whoever keeps something about a tool need not make it again.
      const old = before.size > 0 ? before.get(record.name) : undefined
      const same = old?.tool.id === tool.id && old.tool.name === tool.name && old.record.text === record.text
      return [record.name, same ? old : { tool, record }]
    })
    made = new Map(next)
    return next.map(([, { tool }]) => tool)
  }

  /** Tools of a server that nothing was configured for are made when someone looks at them: their number is all a list needs. */
  function toolsOf(records: readonly ToolRecord[]): readonly Tool[] | LaterTools {
    count = records.length
    const tokens = Object.keys(settings.tools).length === 0 ? tokensOf(records) : undefined
    // Who may see which is another matter for each caller, where each logs in for itself.
    if (tokens === undefined || settings.auth?.perPrincipal) return make(records)
    return { count, tokens, available: options.available, make: () => make(records) }
  }

  /** Estimated tokens of listing all; undefined where the records alone do not tell. */
  function tokensOf(records: readonly ToolRecord[]): number | undefined {
    let tokens = 0
    for (const { name, listed } of records) {
      if (listed === undefined) return undefined
      tokens += Math.ceil((listed + exposedName(settings, name).length) / 4)
    }
    return tokens
  }

  return {
    get tools() {
      return count
    },
    publish(listing, now) {
      const { resources, templates, prompts: offered } = listing
      if (published && isSame(published, listing)) return false
      const wire = createNames()
      const named: Array<readonly [Prompt, string]> = offered.map((entry) => [
        adaptPrompt(entry, settings, wire),
        String(entry['name']),
      ])
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
          tools: toolsOf(listing.tools.filter(({ name }) => passes(name))),
          resources: resources.map((entry) => ({ uri: String(entry['uri']), entry })),
          templates: templates.map((entry) => ({ uriTemplate: String(entry['uriTemplate']), entry })),
          prompts: named.map(([prompt]) => prompt),
          endpoints: options.endpoints,
        },
      )
      published = listing
      return true
    },
    promptNamed: (exposed) => prompts.get(exposed) ?? exposed,
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
