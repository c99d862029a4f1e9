import { isRecord } from '../core/record.ts'
import { isUnseen, withoutUnseen as strip } from '../core/unseen.ts'

/**
 * Whether clients can read the content of a result: absent, or a list of blocks that each say what they are. Clients drop a
 * whole result for one bad block, and their message names nobody. Kinds of blocks nobody knows yet may pass.
 */
export const isContent = (content: unknown): boolean =>
  content === undefined || (Array.isArray(content) && content.every(isBlock))

const isBlock = (block: unknown): boolean =>
  isRecord(block) &&
  typeof block['type'] === 'string' &&
  isRecordOrNone(block['annotations']) &&
  isRecordOrNone(block['_meta']) &&
  (!Object.hasOwn(NEEDED, block['type']) || NEEDED[block['type']]?.(block) === true)

const isRecordOrNone = (value: unknown): boolean => value === undefined || isRecord(value)
const areStrings = (block: Readonly<Record<string, unknown>>, ...names: readonly string[]): boolean =>
  names.every((name) => typeof block[name] === 'string')
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/
const isMedia: Check = (block) => areStrings(block, 'data', 'mimeType') && BASE64.test(block['data'] as string)

type Check = (block: Readonly<Record<string, unknown>>) => boolean

/** What the kinds that every client knows must have. */
const NEEDED: Readonly<Record<string, Check>> = {
  text: (block) => areStrings(block, 'text'),
  image: isMedia,
  audio: isMedia,
  resource_link: (block) => areStrings(block, 'uri', 'name'),
  resource: ({ resource }) =>
    isRecord(resource) &&
    areStrings(resource, 'uri') &&
    (areStrings(resource, 'text') || (areStrings(resource, 'blob') && BASE64.test(resource['blob'] as string))),
}

/**
 * The same content without characters that turn text around or that only a model reads, in texts and embedded resources. The same object
 * where there are none. Marks such as U+200F stay: right-to-left text needs them.
 */
export function withoutUnseen(content: readonly unknown[]): readonly unknown[] {
  return content.some(hides) ? content.map((block) => (hides(block) ? shown(block as Json) : block)) : content
}

type Json = Readonly<Record<string, unknown>>

const hides = (block: unknown): boolean =>
  isRecord(block) && (isUnseen(block['text']) || (isRecord(block['resource']) && isUnseen(block['resource']['text'])))

function shown(block: Json): Json {
  const { text, resource } = block
  return {
    ...block,
    ...(typeof text === 'string' ? { text: strip(text) } : {}),
    ...(isRecord(resource) && typeof resource['text'] === 'string'
      ? { resource: { ...resource, text: strip(resource['text']) } }
      : {}),
  }
}

/**
 * What a server answered for a resource, a prompt or a completion, without what only a model reads; the same object where there
 * is nothing of it.
 * @returns undefined for what no client can read
 */
export function readableAnswer(method: string, result: Json): Json | undefined {
  // A question is looked at elsewhere.
  if (result['resultType'] === 'input_required' || !Object.hasOwn(READERS, method)) return result
  return READERS[method]?.(result)
}

const isTextOrNone = (value: unknown): boolean => value === undefined || typeof value === 'string'
const ROLES: ReadonlySet<unknown> = new Set(['user', 'assistant'])

const READERS: Readonly<Record<string, (result: Json) => Json | undefined>> = {
  'resources/read'(result) {
    const { contents } = result
    const isReadable = (one: unknown): boolean =>
      isRecord(one) &&
      isBlock({ type: 'resource', resource: one }) &&
      isTextOrNone(one['mimeType']) &&
      isRecordOrNone(one['_meta'])
    if (!Array.isArray(contents) || !contents.every(isReadable)) return undefined
    const seen = withoutUnseen(contents)
    return seen === contents ? result : { ...result, contents: seen }
  },
  'prompts/get'(result) {
    const { messages, description } = result
    const isReadable = (one: unknown): boolean => isRecord(one) && ROLES.has(one['role']) && isBlock(one['content'])
    if (!Array.isArray(messages) || !messages.every(isReadable) || !isTextOrNone(description)) return undefined
    const contents = messages.map(({ content }: Json) => content)
    const seen = withoutUnseen(contents)
    if (seen === contents) return result
    return { ...result, messages: messages.map((one: Json, at) => ({ ...one, content: seen[at] })) }
  },
  'completion/complete'(result) {
    const { completion } = result
    const values = isRecord(completion) ? completion['values'] : undefined
    return Array.isArray(values) && values.every((one) => typeof one === 'string') ? result : undefined
  },
}
