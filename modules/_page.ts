import { setImmediate as nextTurn } from 'node:timers/promises'

/** The readable content of a page. */
export interface Page {
  readonly title: string
  readonly text: string
  readonly links: readonly { readonly text: string; readonly url: string }[]
}

const MAX_LINKS = 200
/** Elements whose content is not part of the text. */
const UNREAD = new Set('title script style noscript template svg iframe object textarea select'.split(' '))
const BLOCKS =
  /^(?:address|article|aside|blockquote|br|dd|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]|header|hr|li|main|nav|ol|p|pre|section|table|tr|ul)$/
const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: ' ',
  copy: '©',
  reg: '®',
  hellip: '…',
  mdash: '—',
  ndash: '–',
  lsquo: '‘',
  rsquo: '’',
  ldquo: '“',
  rdquo: '”',
  laquo: '«',
  raquo: '»',
  bull: '•',
  middot: '·',
  euro: '€',
  shy: '',
}

export const decodeText = (text: string): string =>
  text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,8}));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return ENTITIES[String(name).toLowerCase()] ?? whole
    const code = decimal === undefined ? Number.parseInt(String(hex), 16) : Number(decimal)
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : ''
  })

export const oneLine = (text: string): string => decodeText(text).replace(/\s+/g, ' ').trim()

/** Time after which parsing yields to other work. */
const SLICE_MS = 10
/** Characters that are changed at a time: entities and white space take up to half a microsecond each. */
const PIECE = 16 * 1024
/** The longest entity that `decodeText` reads, less one. */
const ENTITY = 9

/** Returns a function that yields to other work from time to time. */
function createPauses(): Pauses {
  let startedAt = performance.now()
  return () => {
    if (performance.now() - startedAt < SLICE_MS) return undefined
    return nextTurn().then(() => {
      startedAt = performance.now()
    })
  }
}

/** Parses a page in a single pass, so that no page can be slow to parse. Large pages yield to other work. */
export async function readPage(html: string, base: string): Promise<Page> {
  const pauses = createPauses()
  let [at, title, text] = [0, '', '']
  const linkParts: LinkPart[] = []
  while (at < html.length) {
    const pause = pauses()
    if (pause) await pause
    const tagStart = html.indexOf('<', at)
    text += html.slice(at, tagStart === -1 ? html.length : tagStart)
    if (tagStart === -1) break
    const tag = readTag(html, tagStart)
    at = tag.end
    if (tag.isStart && UNREAD.has(tag.name)) {
      const end = findEnd(html, tag.name, at)
      if (tag.name === 'title' && title === '') title = await oneLineOf(html.slice(at, end), pauses)
      at = end
      continue
    }
    if (tag.name === 'a') endLink(linkParts, text.length)
    if (tag.name === 'a' && tag.isStart) startLink(linkParts, text.length, addressIn(tag.source, base))
    text += tag.text
  }
  const links: { readonly text: string; readonly url: string }[] = []
  for (const { url, from, to } of linkParts) links.push({ text: await oneLineOf(text.slice(from, to), pauses), url })
  return { title, text: await tidy(text, pauses), links }
}

/** Which part of the text a link has. Without `to`, it is not closed yet. */
interface LinkPart {
  readonly url: string
  readonly from: number
  to?: number
}

function startLink(links: LinkPart[], from: number, url: string | undefined): void {
  if (url !== undefined && links.length < MAX_LINKS) links.push({ url, from })
}

function endLink(links: readonly LinkPart[], to: number): void {
  const link = links.at(-1)
  if (link) link.to ??= to
}

interface Tag {
  /** In lower case; empty for a comment, a declaration, and a `<` that is text. */
  readonly name: string
  readonly isStart: boolean
  readonly source: string
  /** Where it ends in the page. */
  readonly end: number
  /** What the text has in its place. */
  readonly text: string
}

/** Reads what begins with the `<` at `start`. */
function readTag(html: string, start: number): Tag {
  const name = /^<\/?([a-z][a-z0-9]{0,20})/i.exec(html.slice(start, start + 24))?.[1]?.toLowerCase() ?? ''
  const next = html[start + 1]
  if (name === '' && next !== '!' && next !== '?')
    return { name, isStart: false, source: '<', end: start + 1, text: '<' }
  const isComment = html.startsWith('<!--', start)
  const close = isComment ? html.indexOf('-->', start + 4) : html.indexOf('>', start)
  const sourceEnd = close === -1 ? html.length : close
  const end = Math.min(sourceEnd + (isComment ? 3 : 1), html.length)
  return { name, isStart: next !== '/', source: html.slice(start, sourceEnd), end, text: separatorFor(name) }
}

function separatorFor(name: string): string {
  if (BLOCKS.test(name)) return '\n'
  return name === 'td' || name === 'th' ? '\t' : ''
}

function findEnd(html: string, name: string, from: number): number {
  const closingTag = new RegExp(`</${name}\\b`, 'gi')
  closingTag.lastIndex = from
  return closingTag.exec(html)?.index ?? html.length
}

function addressIn(tag: string, base: string): string | undefined {
  const match = /\shref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/i.exec(tag.slice(0, 4096))
  const address = decodeText(match?.[1] ?? match?.[2] ?? match?.[3] ?? '').trim()
  if (address === '' || address.startsWith('#') || !URL.canParse(address, base)) return undefined
  const url = new URL(address, base)
  return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : undefined
}

type Pauses = () => Promise<void> | undefined

async function tidy(text: string, pauses: Pauses): Promise<string> {
  const lines: string[] = []
  for (const line of (await inPieces(text, decodeText, pauses)).split('\n')) {
    const pause = pauses()
    if (pause) await pause
    const words = (line.length > PIECE ? await collapseSpaces(line, pauses) : collapse(line)).trim()
    // At most one empty line in a row, and none at the beginning.
    if (words !== '' || (lines.length > 0 && lines.at(-1) !== '')) lines.push(words)
  }
  return lines.join('\n').trim()
}

/** `oneLine` of a text of any length. */
const oneLineOf = async (text: string, pauses: Pauses): Promise<string> =>
  (await collapseSpaces(await inPieces(text, decodeText, pauses), pauses)).trim()

const collapse = (text: string): string => text.replace(/\s+/g, ' ')

/** A run of white space in several pieces has become a space of each. */
const collapseSpaces = async (text: string, pauses: Pauses): Promise<string> =>
  (await inPieces(text, collapse, pauses)).replace(/ {2,}/g, ' ')

async function inPieces(text: string, change: (piece: string) => string, pauses: Pauses): Promise<string> {
  let changed = ''
  for (let at = 0; at < text.length; ) {
    const pause = pauses()
    if (pause) await pause
    const end = pieceEnd(text, at)
    changed += change(text.slice(at, end))
    at = end
  }
  return changed
}

/** No entity is cut. */
function pieceEnd(text: string, at: number): number {
  const end = Math.min(at + PIECE, text.length)
  const entity = end < text.length ? text.lastIndexOf('&', end - 1) : -1
  return entity > at && end - entity <= ENTITY ? entity : end
}
