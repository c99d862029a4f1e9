import { ToolError } from 'pegboard'
import type { Category } from '../config.ts'
import { listOf, type Result, recordOf, requestJson, resultOf, type SearchEngine } from './engine.ts'

const PATHS: Partial<Record<Category, string>> = { text: 'web', image: 'images', video: 'videos', news: 'news' }
const CATEGORIES = Object.keys(PATHS) as Category[]
/** Its image search has no moderate filter. */
const STRICTER = { off: 'off', moderate: 'strict', strict: 'strict' } as const
const MAX_QUERY = 400

export const brave: SearchEngine = {
  nameIn: () => 'brave',
  addressIn: ({ search }) => (search.brave_api_key === '' ? undefined : search.brave_url),
  categoriesIn: () => CATEGORIES,
  async search({ query, category, count }, use) {
    const { brave_api_key, brave_url, safesearch, language } = use.settings.search
    if (query.length > MAX_QUERY)
      throw new ToolError(`The query is too long for brave: at most ${MAX_QUERY} characters.`, { code: 'E_VALIDATION' })
    const url = new URL(`${brave_url.replace(/\/+$/, '')}/res/v1/${PATHS[category]}/search`)
    url.searchParams.set('q', query)
    url.searchParams.set('count', String(count))
    url.searchParams.set('safesearch', category === 'image' ? STRICTER[safesearch] : safesearch)
    if (language !== '') url.searchParams.set('search_lang', language)
    const response = await requestJson('brave', url, use, { 'x-subscription-token': brave_api_key })
    const rows = category === 'text' ? recordOf(response['web'])['results'] : response['results']
    return listOf(rows).flatMap((row) => rowOf(recordOf(row)))
  },
}

function rowOf(row: Readonly<Record<string, unknown>>): readonly Result[] {
  return resultOf({
    title: row['title'],
    url: row['url'],
    snippet: row['description'],
    image_url: recordOf(row['properties'])['url'],
    thumbnail_url: recordOf(row['thumbnail'])['src'],
    published: row['page_age'] ?? row['age'],
    source: row['source'] ?? recordOf(row['meta_url'])['hostname'],
    duration: recordOf(row['video'])['duration'],
  })
}
