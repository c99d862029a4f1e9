import { isOwnScheme } from '../catalog/resource-owner.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { mayLink } from '../core/raw-result.ts'

/**
 * True if clients can read a result's content: absent, or a list of typed blocks. Clients reject a whole result for
 * one invalid block, with an error that names no server. Unknown types are allowed.
 */
export const isContent = (content: unknown): boolean =>
  content === undefined || (Array.isArray(content) && content.every(isBlock))

const isBlock = (block: unknown): boolean =>
  isRecord(block) &&
  typeof block['type'] === 'string' &&
  isRecordOrNone(block['annotations']) &&
  isRecordOrNone(block['_meta']) &&
  (!Object.hasOwn(REQUIRED_MEMBERS, block['type']) || REQUIRED_MEMBERS[block['type']]?.(block) === true)

const isRecordOrNone = (value: unknown): boolean => value === undefined || isRecord(value)
const areStrings = (block: Readonly<Record<string, unknown>>, ...names: readonly string[]): boolean =>
  names.every((name) => typeof block[name] === 'string')
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/
const isMedia: Check = (block) => areStrings(block, 'data', 'mimeType') && BASE64.test(block['data'] as string)

type Check = (block: Readonly<Record<string, unknown>>) => boolean

/** Members that the known block types require. */
const REQUIRED_MEMBERS: Readonly<Record<string, Check>> = {
  text: (block) => areStrings(block, 'text'),
  image: isMedia,
  audio: isMedia,
  resource_link: (block) => areStrings(block, 'uri', 'name'),
  resource: ({ resource }) =>
    isRecord(resource) &&
    areStrings(resource, 'uri') &&
    (areStrings(resource, 'text') || (areStrings(resource, 'blob') && BASE64.test(resource['blob'] as string))),
}

/** Moves resources of a tool result that have an address of Pegboard to a URN of their server. */
export function withoutOwnSchemes(serverId: string, result: Json): Json {
  const { content } = mayLink(result) ? result : {}
  if (!Array.isArray(content)) return result
  const moved = content.map((block: Json) => {
    const resource = block['type'] === 'resource_link' ? block : (block['resource'] as Json | undefined)
    const uri = resource?.['uri']
    if (typeof uri !== 'string' || !isOwnScheme(uri)) return block
    const renamedResource = { ...resource, uri: `urn:${serverId}:${uri}` }
    return resource === block ? renamedResource : { ...block, resource: renamedResource }
  })
  return moved.every((block, at) => block === content[at]) ? result : { ...result, content: moved }
}

/** True if clients can read a server's answer for a resource, prompt, completion or task. */
export function isReadableAnswer(method: string, result: Json): boolean {
  // Questions are checked elsewhere.
  if (result['resultType'] === 'input_required' || !Object.hasOwn(READERS, method)) return true
  return READERS[method]?.(result) === true
}

const isTextOrNone = (value: unknown): boolean => value === undefined || typeof value === 'string'
const STATUSES: ReadonlySet<unknown> = new Set(['working', 'input_required', 'completed', 'failed', 'cancelled'])
const ROLES: ReadonlySet<unknown> = new Set(['user', 'assistant'])

const READERS: Readonly<Record<string, (result: Json) => boolean>> = {
  'resources/read'(result) {
    const { contents } = result
    const isReadable = (one: unknown): boolean =>
      isRecord(one) &&
      isBlock({ type: 'resource', resource: one }) &&
      isTextOrNone(one['mimeType']) &&
      isRecordOrNone(one['_meta'])
    return Array.isArray(contents) && contents.every(isReadable)
  },
  'prompts/get'(result) {
    const { messages, description } = result
    const isReadable = (one: unknown): boolean => isRecord(one) && ROLES.has(one['role']) && isBlock(one['content'])
    return Array.isArray(messages) && messages.every(isReadable) && isTextOrNone(description)
  },
  'completion/complete'(result) {
    const { completion } = result
    const values = asRecord(completion)['values']
    return Array.isArray(values) && values.every((one) => typeof one === 'string')
  },
  'tasks/get'({ status, result }) {
    if (!STATUSES.has(status) || !isRecordOrNone(result)) return false
    const { content, resultType = 'complete' } = (result ?? {}) as Json
    return isContent(content) && resultType === 'complete'
  },
  'tasks/result': ({ content }) => isContent(content),
}
