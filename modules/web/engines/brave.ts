import { ToolError } from 'pegboard'
import { asRecord } from '../../_is-record.ts'
import type { Category } from '../config.ts'
import { asArray, type Result, requestJson, type SearchEngine, toResults } from './engine.ts'

const PATHS: Partial<Record<Category, string>> = { text: 'web', image: 'images', video: 'videos', news: 'news' }
const CATEGORIES = Object.keys(PATHS) as Category[]
/** Its image search has no moderate filter. */
const IMAGE_SAFESEARCH = { off: 'off', moderate: 'strict', strict: 'strict' } as const
const MAX_QUERY = 400

export const brave: SearchEngine = {
  nameIn: () => 'brave',
  addressIn: ({ search }) => (search.brave_api_key === '' ? undefined : search.brave_url),
  categoriesIn: () => CATEGORIES,
  async search({ query, category, count }, context) {
    const { brave_api_key, brave_url, safesearch, language } = context.settings.search
    if (query.length > MAX_QUERY)
      throw new ToolError(`The query is too long for brave: at most ${MAX_QUERY} characters.`, { code: 'E_VALIDATION' })
    const url = new URL(`${brave_url.replace(/\/+$/, '')}/res/v1/${PATHS[category]}/search`)
    url.searchParams.set('q', query)
    url.searchParams.set('count', String(count))
    url.searchParams.set('safesearch', category === 'image' ? IMAGE_SAFESEARCH[safesearch] : safesearch)
    if (language !== '') url.searchParams.set('search_lang', language)
    const response = await requestJson('brave', url, context, { 'x-subscription-token': brave_api_key })
    const rows = category === 'text' ? asRecord(response['web'])['results'] : response['results']
    return asArray(rows).flatMap((row) => toResult(asRecord(row)))
  },
}

function toResult(row: Readonly<Record<string, unknown>>): readonly Result[] {
  return toResults({
    title: row['title'],
    url: row['url'],
    snippet: row['description'],
    image_url: asRecord(row['properties'])['url'],
    thumbnail_url: asRecord(row['thumbnail'])['src'],
    published: row['page_age'] ?? row['age'],
    source: row['source'] ?? asRecord(row['meta_url'])['hostname'],
    duration: asRecord(row['video'])['duration'],
  })
}
