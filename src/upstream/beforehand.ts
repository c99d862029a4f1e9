import type { UnreadTools } from '../catalog/catalog.ts'
import { actionName, exposedName } from '../catalog/naming.ts'
import { LEGAL_WIRE, WIRE_NAME_MAX } from '../core/names.ts'
import { once } from '../core/once.ts'
import { isRecord } from '../core/record.ts'
import type { Tool } from '../core/tool.ts'
import type { Names } from '../trust/steering.ts'
import type { ToolRecord } from './definition.ts'
import type { Unread } from './listing.ts'
import type { ServerSettings } from './settings.ts'

type Json = Readonly<Record<string, unknown>>

export interface Made {
  readonly tool: Tool
  readonly record: ToolRecord
}

export interface BeforehandOptions {
  readonly module: string
  readonly settings: ServerSettings
  readonly unread: Unread
  passes(name: string): boolean
  adapter(): (record: ToolRecord) => Tool
  /** Whether trust lets it in. @param own names of all tools of its server */
  admits(record: ToolRecord, definition: Json, own: Names): boolean
  /** Where those that were told are kept, by the server's names. */
  readonly made: Map<string, Made>
}

/**
 * Single tools of a list that was not looked at yet. A call that waited for its server needs one of them; what is odd about
 * a name, or kept out, is left to the look at all.
 */
export function createBeforehand(options: BeforehandOptions): Pick<UnreadTools, 'byId' | 'byName' | 'wants'> {
  const { module, settings, unread, made } = options
  /** By the server's names, without those that are there twice. */
  const sent = once(() => {
    const all = new Map<string, Json>()
    const twice = new Set<string>()
    for (const one of unread.sent) {
      const name = isRecord(one) ? one['name'] : undefined
      if (typeof name !== 'string') continue
      if (all.has(name)) twice.add(name)
      else all.set(name, one as Json)
    }
    // Which of them counts takes a look at all.
    for (const name of twice) all.delete(name)
    return all
  })
  const adapt = once(options.adapter)
  // Fifty servers that come one after the other are asked about each other's names.
  const head = headOf(settings)
  /** The server's names by what clients see, in lower case; undefined for one that several want. */
  const shown = once(() => {
    const names = new Map<string, string | undefined>()
    const longest = head === '' ? 0 : WIRE_NAME_MAX - head.length
    for (const name of sent().keys()) {
      if (!options.passes(name)) continue
      const asIs = name.length <= longest && LEGAL_WIRE.test(name)
      const folded = asIs ? head + name.toLowerCase() : exposedName(settings, actionName(name, settings)).toLowerCase()
      names.set(folded, names.has(folded) ? undefined : name)
    }
    return names
  })

  function named(name: string | undefined): Tool | undefined {
    const known = name === undefined ? undefined : made.get(name)
    if (known) return known.tool
    const definition = name === undefined ? undefined : sent().get(name)
    if (!definition) return undefined
    const record = unread.record(definition)
    if (typeof record === 'string' || !options.admits(record, definition, sent())) return undefined
    const tool = adapt()(record)
    made.set(record.name, { tool, record })
    return tool
  }

  return {
    wants: (folded) => folded.startsWith(head) && shown().has(folded),
    byName: (folded) => named(shown().get(folded)),
    byId(id) {
      const name = id.startsWith(`${module}.`) ? id.slice(module.length + 1) : ''
      const tool = sent().has(name) && options.passes(name) ? named(name) : undefined
      return tool?.id === id ? tool : undefined
    },
  }
}

/** What all names that clients see begin with, in lower case, where they all do. */
function headOf({ prefix }: ServerSettings): string {
  const isWhole = prefix !== '' && prefix.length <= LONGEST_PREFIX && /^[\w-]+$/.test(prefix)
  return isWhole ? `${prefix}__`.toLowerCase() : ''
}

/** A longer one may be cut in the name of a tool. */
const LONGEST_PREFIX = WIRE_NAME_MAX - 12
