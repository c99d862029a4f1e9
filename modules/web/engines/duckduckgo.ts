import { ToolError } from 'pegboard'
import { textOf } from '../../_text.ts'
import { requestEngine, type SearchEngine, toResults } from './engine.ts'

const SAFE = { off: '-2', moderate: '-1', strict: '1' } as const
const ROW = '.result:not(.result--ad):not(.result--no-result)'

/** DuckDuckGo's pages that need neither scripts nor a key. */
export const duckduckgo: SearchEngine = {
  nameIn: () => 'duckduckgo_html',
  addressIn: ({ search }) => search.ddg_base_url || undefined,
  categoriesIn: () => ['text'],
  async search({ query }, context) {
    const { ddg_base_url, safesearch, language } = context.settings.search
    const url = new URL(ddg_base_url)
    url.searchParams.set('q', query)
    url.searchParams.set('kp', SAFE[safesearch])
    if (language !== '') url.searchParams.set('kl', language)
    const { bytes, type, status } = await requestEngine('duckduckgo_html', url, context, { accept: 'text/html' })
    const html = textOf(bytes, type) ?? ''
    // It answers with 202 and a challenge if it suspects a robot.
    if (status === 202 || /anomaly-modal|challenge-form/.test(html))
      throw new ToolError('duckduckgo_html asks for a captcha.', {
        code: 'E_BACKEND_UNAVAILABLE',
        hint: 'Try again later, or the operator configures another engine.',
        retryAfterMs: 10 * 60_000,
      })
    const fields = { title: ['.result__a'], url: ['.result__a', 'href'], snippet: ['.result__snippet'] } as const
    const rows = await context.reader.select({ html, url: url.href, each: ROW, fields }, context)
    if (!rows || (rows.length === 0 && !/no-results|result--no-result|No results/i.test(html)))
      throw new ToolError('duckduckgo_html answered with a page without results.', {
        code: 'E_BACKEND_UNAVAILABLE',
      })
    return rows.flatMap((row) => toResults({ ...row, url: resolveRedirect(row['url'] ?? '', url) }))
  },
}

/** Links lead through a redirect page with the address in `uddg`; advertisements are dropped. */
function resolveRedirect(href: string, base: URL): string {
  if (!URL.canParse(href, base.href)) return ''
  const url = new URL(href, base)
  const inner = url.searchParams.get('uddg')
  if (url.pathname.endsWith('/y.js')) return ''
  return inner ?? (url.origin === base.origin ? '' : url.href)
}
