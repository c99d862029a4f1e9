import { type ToolDef, ToolError, z } from 'pegboard'
import { readPage } from '../_page.ts'
import { bytesOf, partEnd, textOf } from '../_text.ts'
import { checkAddress } from './check-address.ts'
import { reads, type Settings } from './config.ts'
import { checkSize } from './engines/mcp_fetch.ts'
import type { Reader } from './reader.ts'
import type { Robots } from './robots.ts'
import type { ClientPool } from './web-clients.ts'

const Input = z.object({
  url: z.string().trim().min(1).max(8192).describe('Full address, with https:// or http://.'),
  mode: z
    .enum(['text', 'links', 'metadata'])
    .default('text')
    .describe('All text of the page, its links, or its metadata.'),
})

const MAX_TEXT = 50_000
const meta = (name: string): readonly [string, string] => [
  `meta[name="${name}" i], meta[property="${name}" i]`,
  'content',
]
const METADATA: Readonly<Record<string, readonly [string, string?]>> = {
  title: ['title'],
  description: meta('description'),
  canonical: ['link[rel="canonical"]', 'href'],
  author: meta('author'),
  published: meta('article:published_time'),
  site: meta('og:site_name'),
  image: meta('og:image'),
  kind: meta('og:type'),
  keywords: meta('keywords'),
  robots: meta('robots'),
}

export const createExtract = (client: ClientPool, reader: Reader, robots: Robots): ToolDef<Settings, typeof Input> => ({
  title: 'Extract from a page',
  description:
    'Extract one thing from a web page: all its words as plain text with menus, its links, or its metadata (title, description, author, date). To read its content use {url_fetch_tool}.',
  aliases: ['page links', 'page metadata', 'list links', 'liens de la page', 'enlaces de la página'],
  tags: ['web', 'links', 'metadata'],
  input: Input,
  effect: 'read',
  openWorld: true,
  opaque: ['text', 'links', 'metadata'],
  sideEffects: ['sends a request to the address'],
  examples: [{ input: { url: 'https://example.com/', mode: 'links' } }],
  available: reads,
  async run({ url: given, mode }, { config, caller: { principal }, signal }) {
    const { pages } = client.clientsFor(config)
    const url = await checkAddress(given, pages)
    await robots.check(url, pages, config, signal)
    const response = await pages(url, { headers: { accept: 'text/html, */*;q=0.5' }, signal })
    checkSize(response.headers.get('content-length'), config.fetch.max_bytes)
    const html = textOf(await bytesOf(response), response.headers.get('content-type') ?? '')
    if (!response.ok || html === undefined)
      throw new ToolError(
        response.ok ? 'The response is not text.' : `Failed to fetch the page: status ${response.status}.`,
        { hint: 'Try another address.' },
      )
    const facts = { url: response.url, mode }
    if (mode === 'metadata') {
      const job = { html, url: response.url, each: 'html', fields: METADATA }
      const [selected = {}] = (await reader.select(job, { principal, signal })) ?? []
      const metadata = Object.fromEntries(Object.entries(selected).filter(([, value]) => value !== ''))
      return { ...facts, metadata }
    }
    const page = await readPage(html, response.url)
    const linksByUrl = new Map(page.links.map((link) => [link.url, link] as const).reverse())
    const links = page.links.filter((link) => linksByUrl.get(link.url) === link)
    if (mode === 'links') return { ...facts, title: page.title, links }
    const { title, text } = page
    return { ...facts, title, text: text.slice(0, partEnd(text, 0, MAX_TEXT)), truncated: text.length > MAX_TEXT }
  },
})
