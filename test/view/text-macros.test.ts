import { describe, expect, it } from 'vitest'
import { expandMacros, type MacroScope } from '../../src/view/text-macros.ts'
import { makeTool } from '../tools.ts'

const entry = (id: string, change: Parameters<typeof makeTool>[1] = {}) => {
  const tool = makeTool(id, change)
  return { tool, description: tool.description, input: tool.input }
}
const bundled = entry('web.fetch_url', { provides: 'url_fetcher', aliases: ['read page'] })
const scrape = entry('mcp_far.scrape', { origin: 'upstream', name: 'far__scrape' })
const crawl = entry('mcp_far.crawl', { origin: 'upstream', name: 'far__crawl' })
const far = { id: 'mcp_far', provides: 'url_fetcher' }
const scope = (owners: MacroScope['owners'], ...tools: MacroScope['tools']): MacroScope => ({ tools, owners })

describe('macros', () => {
  const text = 'Read links with {url_fetch_tool}.'

  it("name the tool of the profile's server, otherwise the bundled tool, otherwise plain words", () => {
    expect(expandMacros(text, scope([far], bundled, scrape, crawl))).toBe('Read links with far__scrape or far__crawl.')
    expect(expandMacros(text, scope([{ id: 'mcp_far' }], bundled, scrape))).toBe('Read links with web__fetch_url.')
    expect(expandMacros(text, scope([far]))).toBe('Read links with a tool that reads web pages, if you have one.')
    expect(expandMacros('{web_search_tool}', scope([]))).toBe('a tool that searches the web, if you have one')
  })

  it('name any tool by its id, its action or an alias', () => {
    expect(expandMacros('{fetch_url_tool}, {scrape_tool}', scope([], bundled, scrape))).toBe(
      'web__fetch_url, far__scrape',
    )
    expect(expandMacros('{draw_picture_tool}', scope([], bundled))).toBe('a tool for draw picture, if you have one')
    expect(expandMacros('{constructor_tool}', scope([]))).toBe('a tool for constructor, if you have one')
  })

  it('keep everything else in braces', () => {
    const other = 'Send {"a": {b}} to {Some_tool} or { url_fetch_tool }.'
    expect(expandMacros(other, scope([far], scrape))).toBe(other)
  })
})
