import { ToolError } from 'pegboard'
import { tooLarge } from '../../_errors.ts'
import { oneLine, readPage } from '../../_page.ts'
import { bytesOf, textOf } from '../../_text.ts'
import { SETTING } from '../config.ts'
import { callTextTool } from './mcp.ts'
import type { Page, ReadContext, ReadingEngine } from './reading-engine.ts'

/** The built-in reader, or the server tool that the operator configured instead. */
export const mcp_fetch: ReadingEngine = {
  isAvailable: async () => true,
  async read(url, raw, context) {
    const { mcp_tool } = context.settings.fetch
    return mcp_tool === undefined
      ? await readPageItself(url, raw, context)
      : await readWithTool(mcp_tool, url, raw, context)
  },
}

const ACCEPT = 'text/html, application/xhtml+xml, text/markdown;q=0.9, text/plain;q=0.8, */*;q=0.5'
const PICTURE = /^image\/(?:png|jpeg|gif|webp)\b/i

async function readPageItself(
  url: string,
  raw: boolean,
  { clients, signal, principal, settings, reader }: ReadContext,
): Promise<Page> {
  const response = await clients.pages(url, { headers: { accept: ACCEPT }, signal })
  const type = response.headers.get('content-type') ?? ''
  // Checked before reading the body.
  checkSize(response.headers.get('content-length'), settings.fetch.max_bytes)
  const bytes = await bytesOf(response)
  const pageText = textOf(bytes, type)
  const isPage =
    /html|xhtml/i.test(type) || (type === '' && /^\s*<(?:!doctype|html)/i.test(pageText?.slice(0, 500) ?? ''))
  if (!response.ok) {
    const excerpt =
      pageText === undefined ? '' : (isPage ? (await readPage(pageText, response.url)).text : pageText).slice(0, 500)
    throw new ToolError(`Failed to fetch the page: status ${response.status}.`, {
      hint: excerpt === '' ? 'Try another address.' : `The page says: ${oneLine(excerpt)}`,
      data: { status: response.status, url: response.url },
    })
  }
  const common = { url: response.url, content_type: type }
  if (PICTURE.test(type)) return { ...common, text: '', picture: bytes }
  if (pageText === undefined)
    throw new ToolError(`The response is not text (${type || 'unknown type'}).`, {
      hint: 'Save it with url_fetch and download_path, if available.',
    })
  if (raw || !isPage) return { ...common, text: pageText }
  const article = await reader.read(pageText, response.url, { principal, signal })
  if (article) {
    const { title, markdown, byline, published } = article
    return { ...common, text: markdown, title, byline, published }
  }
  // A page that cannot be parsed in time, or was built to prevent it.
  const { title, text } = await readPage(pageText, response.url)
  return { ...common, text, title }
}

async function readWithTool(tool: string, url: string, raw: boolean, { call, settings }: ReadContext): Promise<Page> {
  const { text } = await callTextTool(call, tool, { url, raw, start_index: 0, max_length: 999_999 })
  const content = text.replace(/^Contents of \S+:\s*\n/, '')
  if (content.length > settings.fetch.max_bytes) checkSize(String(content.length), settings.fetch.max_bytes)
  return { url, text: content, content_type: raw ? 'text/html' : 'text/markdown' }
}

/** @throws ToolError E_TOO_LARGE if the declared size is too large */
export function checkSize(length: string | null, maxBytes: number): void {
  if (length === null || !(Number(length) > maxBytes)) return
  throw tooLarge(`The page has ${length} bytes; the limit is ${maxBytes}.`, `See ${SETTING}.fetch.max_bytes.`)
}
