/** What a reader of a page sees. */
export interface Page {
  readonly title: string
  readonly text: string
  readonly links: readonly { readonly text: string; readonly url: string }[]
}

const MAX_LINKS = 200
/** Their content is nothing to read. */
const UNREAD = new Set(['script', 'style', 'noscript', 'template', 'svg', 'iframe', 'object', 'textarea', 'select'])
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

export const decoded = (text: string): string =>
  text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,8}));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return ENTITIES[String(name).toLowerCase()] ?? whole
    const code = decimal === undefined ? Number.parseInt(String(hex), 16) : Number(decimal)
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : ''
  })

export const oneLine = (text: string): string => decoded(text).replace(/\s+/g, ' ').trim()

/** Reads a page from its beginning to its end once: a page made to be slow to read is as fast as any other. */
export function readPage(html: string, base: string): Page {
  let [at, title, text] = [0, '', '']
  let link: { url: string; from: number } | undefined
  const links: { text: string; url: string }[] = []
  const endLink = (): void => {
    if (link && links.length < MAX_LINKS) links.push({ text: oneLine(text.slice(link.from)), url: link.url })
    link = undefined
  }
  while (at < html.length) {
    const open = html.indexOf('<', at)
    text += html.slice(at, open === -1 ? html.length : open)
    if (open === -1) break
    if (html.startsWith('<!--', open)) {
      const end = html.indexOf('-->', open + 4)
      at = end === -1 ? html.length : end + 3
      continue
    }
    const name = /^<\/?([a-z][a-z0-9]{0,20})/i.exec(html.slice(open, open + 24))?.[1]?.toLowerCase()
    if (name === undefined && html[open + 1] !== '!' && html[open + 1] !== '?') {
      text += '<'
      at = open + 1
      continue
    }
    const close = html.indexOf('>', open)
    const tag = html.slice(open, close === -1 ? html.length : close)
    at = close === -1 ? html.length : close + 1
    const isEnd = tag[1] === '/'
    if (name !== undefined && !isEnd && (UNREAD.has(name) || name === 'title')) {
      const end = endOf(html, name, at)
      if (name === 'title' && title === '') title = oneLine(html.slice(at, end))
      at = end
    } else if (name === 'a') {
      endLink()
      const url = isEnd ? undefined : addressIn(tag, base)
      if (url !== undefined) link = { url, from: text.length }
    } else if (name !== undefined && BLOCKS.test(name)) text += '\n'
    else if (name === 'td' || name === 'th') text += '\t'
  }
  endLink()
  return { title, text: tidy(text), links }
}

function endOf(html: string, name: string, from: number): number {
  const end = new RegExp(`</${name}\\b`, 'gi')
  end.lastIndex = from
  return end.exec(html)?.index ?? html.length
}

function addressIn(tag: string, base: string): string | undefined {
  const found = /\shref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/i.exec(tag.slice(0, 4096))
  const given = decoded(found?.[1] ?? found?.[2] ?? found?.[3] ?? '').trim()
  if (given === '' || given.startsWith('#') || !URL.canParse(given, base)) return undefined
  const url = new URL(given, base)
  return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : undefined
}

const tidy = (text: string): string =>
  decoded(text)
    .split('\n')
    .map((line) => line.replace(/\s+/g, ' ').trim())
    .join('\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
