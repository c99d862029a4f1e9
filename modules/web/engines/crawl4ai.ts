import { ToolError } from 'pegboard'
import { asRecord } from '../../_is-record.ts'
import { bytesOf, parseJsonText } from '../../_text.ts'
import { crawl4aiUrl, type Settings } from '../config.ts'
import { asString } from './engine.ts'
import type { ReadingEngine } from './reading-engine.ts'

const PROBE_TIMEOUT_MS = 3_000

const headersOf = ({ fetch }: Settings): Record<string, string> => ({
  accept: 'application/json',
  ...(fetch.crawl4ai_token === '' ? {} : { authorization: `Bearer ${fetch.crawl4ai_token}` }),
})

/** A Crawl4AI server, which renders pages in a browser: for pages built by scripts. */
export const crawl4ai: ReadingEngine = {
  async isAvailable({ settings, clients, health, signal }, raw) {
    const base = crawl4aiUrl(settings)
    // It cannot return raw pages; after a failure it is tried again later.
    if (base === '' || raw || !health.isHealthy(base)) return false
    return await health.probe(base, settings.health_seconds * 1000, async () => {
      const response = await clients.engines(`${base}/health`, {
        headers: headersOf(settings),
        signal,
        redirect: 'error',
        timeoutMs: PROBE_TIMEOUT_MS,
      })
      await response.body?.cancel()
      return response.ok
    })
  },
  async read(url, _raw, context) {
    const { settings, clients, signal, health } = context
    const base = crawl4aiUrl(settings)
    try {
      const response = await clients.engines(`${base}/md`, {
        method: 'POST',
        headers: { ...headersOf(settings), 'content-type': 'application/json' },
        body: JSON.stringify({ url, f: settings.fetch.crawl4ai_filter, q: null, c: '0' }),
        signal,
        redirect: 'error',
        timeoutMs: settings.fetch.timeout * 1000,
      })
      const content = asRecord(parseJsonText((await bytesOf(response)).toString('utf8'))?.value)
      const text = asString(content['markdown'])
      if (!response.ok || content['success'] !== true || text.trim() === '') throw createReadError(response.status)
      const title = /^#\s+(.{1,300})$/m.exec(text)?.[1]
      return { url, text, content_type: 'text/markdown', ...(title === undefined ? {} : { title }) }
    } catch (error) {
      if (!context.signal.aborted) health.markFailed(base, settings.health_seconds * 1000)
      throw error
    }
  },
}

const createReadError = (status: number): ToolError =>
  new ToolError(`crawl4ai could not read the page (status ${status}).`, { code: 'E_BACKEND_UNAVAILABLE' })
