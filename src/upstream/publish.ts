import type { Catalog, Endpoints, OwnerInfo, Prompt } from '../catalog/catalog.ts'
import type { Tool } from '../core/tool.ts'
import { adaptPrompt, createAdapter, createFilter, createNames, type ToolHost } from './adapt.ts'
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

export function createPublisher(options: PublisherOptions): Publisher {
  const { id, module, settings, catalog } = options
  const passes = createFilter(settings)
  let published: Listing | undefined
  /** By the server's names for them. */
  let tools = new Map<string, { readonly tool: Tool; readonly record: ToolRecord }>()
  let prompts = new Map<string, string>()

  function toolsOf(listing: Listing): typeof tools {
    const adapt = createAdapter(options, { ids: createNames(), wire: createNames(options.reserved) })
    const next: typeof tools = new Map()
    for (const record of listing.tools) {
      if (!passes(record.name)) continue
      const tool = adapt(record)
      // The same object while nothing changed: whoever keeps something about a tool need not make it again.
      const before = tools.size > 0 ? tools.get(record.name) : undefined
      const same = before?.tool.id === tool.id && before.tool.name === tool.name && before.record.text === record.text
      next.set(record.name, same ? before : { tool, record })
    }
    return next
  }

  return {
    get tools() {
      return tools.size
    },
    publish(listing, now) {
      const { resources, templates, prompts: offered } = listing
      if (published && isSame(published, listing)) return false
      const wire = createNames()
      const named: Array<readonly [Prompt, string]> = offered.map((entry) => [
        adaptPrompt(entry, settings, wire),
        String(entry['name']),
      ])
      tools = toolsOf(listing)
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
