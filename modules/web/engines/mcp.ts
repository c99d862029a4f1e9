import { ToolError } from 'pegboard'
import { asRecord } from '../../_is-record.ts'
import { parseJsonText } from '../../_text.ts'
import { asArray, asString, type Result, type SearchEngine, toResults } from './engine.ts'

/** A tool of a configured MCP server. Its call goes through the same policy as any other. */
export const mcp: SearchEngine = {
  nameIn: ({ search }) => search.mcp?.tool.split(/\.|__/)[0] ?? 'mcp',
  addressIn: ({ search }) => search.mcp && `mcp:${search.mcp.tool}`,
  categoriesIn: ({ search }) => search.mcp?.categories ?? [],
  async search({ query, count }, { settings, call }) {
    const { mcp: mcpSettings } = settings.search
    if (!mcpSettings) return []
    const text = await callTextTool(call, mcpSettings.tool, {
      ...mcpSettings.arguments,
      [mcpSettings.query]: query,
      ...(mcpSettings.count === undefined ? {} : { [mcpSettings.count]: count }),
    })
    return parseResults(text)
  },
}

/** The text result of a server's tool. @throws ToolError E_BACKEND_UNAVAILABLE if it fails */
export async function callTextTool(
  call: (id: string, input: unknown) => Promise<unknown>,
  id: string,
  input: unknown,
): Promise<{ readonly text: string; readonly texts: readonly string[]; readonly structured: unknown }> {
  const toolResult = asRecord(await call(id, input))
  const result =
    toolResult['kind'] === 'mcp' ? asRecord(toolResult['result']) : { structuredContent: toolResult['value'] }
  const { structuredContent: structured, isError } = result as { structuredContent?: unknown; isError?: unknown }
  const texts = asArray((result as { content?: unknown }).content).map((block) => asString(asRecord(block)['text']))
  const text = texts.filter(Boolean).join('\n') || (typeof structured === 'string' ? structured : '')
  if (isError === true) throw new ToolError(`${id} failed: ${text.slice(0, 200)}`, { code: 'E_BACKEND_UNAVAILABLE' })
  return { text, texts, structured }
}

const URL_KEYS = ['url', 'link', 'href']
const SNIPPET_KEYS = ['snippet', 'description', 'content', 'text', 'summary']

/** Servers return JSON, in one text or one per result, or blocks of `Title: … URL: …`. */
function parseResults({ text, texts, structured }: Awaited<ReturnType<typeof callTextTool>>): readonly Result[] {
  const values = texts.map((text) => parseJsonText(text)?.value)
  const each = values.every((value) => typeof value === 'object' && value !== null) ? rowsIn(values) : undefined
  const rows = rowsIn(structured) ?? (values.length === 1 ? rowsIn(values[0]) : undefined) ?? each
  if (rows) return rows.flatMap((row) => toResults(resultFields(row)))
  const blocks = text.split(/\n\s*\n|\n(?=(?:\d+\.\s|Title:))/)
  return blocks.flatMap((block) => {
    const url = /https?:\/\/[^\s<>"')\]]+/.exec(block)?.[0]
    const line = (name: string): string => new RegExp(`^\\W*${name}:[ \\t]*(.+)$`, 'im').exec(block)?.[1] ?? ''
    const [first = ''] = block.trim().split('\n')
    return toResults({
      title: line('title') || first.replace(/^[\d.\s*#[\]-]+/, '').replace(/\]?\(?https?:.*$/, ''),
      url,
      snippet:
        line('(?:description|snippet|summary|content)') ||
        block
          .trim()
          .split('\n')
          .slice(1)
          .filter((line) => !/https?:\/\//.test(line))
          .join(' '),
    })
  })
}

/** The longest list of objects with addresses, at any depth. */
function rowsIn(value: unknown, depth = 0): readonly Readonly<Record<string, unknown>>[] | undefined {
  if (typeof value !== 'object' || value === null || depth > 4) return undefined
  if (Array.isArray(value)) {
    const rows = value.map(asRecord).filter((row) => URL_KEYS.some((key) => asString(row[key]) !== ''))
    return rows.length > 0 ? rows : undefined
  }
  for (const inner of Object.values(value)) {
    const rows = rowsIn(inner, depth + 1)
    if (rows) return rows
  }
  return undefined
}

const resultFields = (row: Readonly<Record<string, unknown>>) => ({
  title: row['title'] ?? row['name'],
  url: URL_KEYS.map((key) => row[key]).find((value) => asString(value) !== ''),
  snippet: SNIPPET_KEYS.map((key) => row[key]).find((value) => asString(value) !== ''),
  image_url: row['image_url'] ?? row['image'],
  published: row['published'] ?? row['date'],
})
