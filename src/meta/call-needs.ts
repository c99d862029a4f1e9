import type { Owner } from '../catalog/owner.ts'
import { isRecord } from '../core/is-record.ts'
import type { JsonSchema } from '../core/schema.ts'
import type { KnownNeed } from '../search/atlas.ts'
import type { ViewTool } from '../view/view.ts'
import { needsPerson } from '../view/visibility.ts'
import type { MetaHost } from './meta-host.ts'
import { waitFor } from './owner-status.ts'

/** Fixed words, so that no server chooses what a model reads here. */
export type CallNeed = 'login' | 'setup' | KnownNeed | 'network' | 'existing path'

/** Names of parameters, in lower case without separators. */
const ADDRESSES = new Set(['baseurl', 'host', 'pageurl', 'targeturl', 'url', 'urls', 'websiteurl'])
const PATHS = new Set(
  'absolutepath file fileabsolutepath filepath filepaths files inputfilepath inputpath localpath path paths repopath'.split(
    ' ',
  ),
)

/**
 * What a call needs besides its arguments, the most likely cause of a failure first: a person who logs in (`login`) or
 * corrects the configuration (`setup`), something that the atlas knows, a host that can be reached, a file or folder that
 * exists. Undefined without evidence.
 */
export function callNeed(
  { tool, input }: ViewTool,
  owner: Owner | undefined,
  knownNeed: KnownNeed | undefined,
): CallNeed | undefined {
  const person = owner && needsPerson(owner)
  if (person) return person
  if (knownNeed) return knownNeed
  const required = requiredTexts(input.json)
  if (tool.openWorld && required.some((name) => ADDRESSES.has(name))) return 'network'
  // A tool that writes may create the file.
  return tool.effect === 'read' && required.some((name) => PATHS.has(name)) ? 'existing path' : undefined
}

export type CallState = ReturnType<typeof waitFor> & { readonly needs?: CallNeed }

/** What a caller has to expect, and what a call needs. */
export function callState(entry: ViewTool, owner: Owner | undefined, host: Pick<MetaHost, 'knownNeed'>): CallState {
  const needs = callNeed(entry, owner, host.knownNeed(entry.tool))
  // These say why the server is failing.
  if (needs === 'login' || needs === 'setup') return { needs }
  const wait = waitFor(owner)
  return needs === undefined || wait.state === 'failing' ? wait : { ...wait, needs }
}

/** Names of required parameters that are texts or lists of texts. */
function requiredTexts({ properties, required }: JsonSchema): string[] {
  if (!isRecord(properties) || !Array.isArray(required)) return []
  return required
    .filter((name) => typeof name === 'string')
    .filter((name) => {
      const schema = properties[name]
      if (!isRecord(schema)) return false
      return (
        schema.type === 'string' ||
        (schema.type === 'array' && isRecord(schema.items) && schema.items.type === 'string')
      )
    })
    .map((name) => name.replaceAll(/[_-]/g, '').toLowerCase())
}
