import { isRecord } from '../core/record.ts'

/**
 * Whether clients can read the content of a result: absent, or a list of blocks that each say what they are. Clients drop a
 * whole result for one bad block, and their message names nobody. Kinds of blocks nobody knows yet may pass.
 */
export const isContent = (content: unknown): boolean =>
  content === undefined || (Array.isArray(content) && content.every(isBlock))

const isBlock = (block: unknown): boolean =>
  isRecord(block) &&
  typeof block['type'] === 'string' &&
  (block['type'] !== 'text' || typeof block['text'] === 'string')

// Overrides and isolates of direction, and the tags that spell what nobody sees. No flag `u`: this is run on every text.
const SUSPECT = /[\u202A-\u202E\u2066-\u2069]|\uDB40[\uDC00-\uDC7F]/
// The tags of three flags stay: they follow a black flag and end with U+E007F.
const UNSEEN = /(\u{1F3F4}[\u{E0061}-\u{E007A}]{5}\u{E007F})|[\u202A-\u202E\u2066-\u2069]|[\u{E0000}-\u{E007F}]/gu

/**
 * The same content without characters that turn text around or that only a model reads, in texts and embedded resources. The same object
 * where there are none. Marks such as U+200F stay: right-to-left text needs them.
 */
export function withoutUnseen(content: readonly unknown[]): readonly unknown[] {
  return content.some(hides) ? content.map((block) => (hides(block) ? shown(block as Json) : block)) : content
}

type Json = Readonly<Record<string, unknown>>

const isUnseen = (text: unknown): boolean => typeof text === 'string' && SUSPECT.test(text)

const hides = (block: unknown): boolean =>
  isRecord(block) && (isUnseen(block['text']) || (isRecord(block['resource']) && isUnseen(block['resource']['text'])))

const strip = (text: string): string => text.replaceAll(UNSEEN, (_all, flag: string | undefined) => flag ?? '')

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
