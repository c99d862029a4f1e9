import { asRecord } from '../../_is-record.ts'
import { CATEGORIES, type Category } from '../config.ts'
import { asArray, asString, requestJson, type SearchEngine, toResults } from './engine.ts'

const NAMES: Readonly<Record<Category, string>> = {
  text: 'general',
  image: 'images',
  video: 'videos',
  news: 'news',
  papers: 'science',
  code: 'it',
  files: 'files',
  music: 'music',
}
const SAFE = { off: '0', moderate: '1', strict: '2' } as const

/** A SearXNG server of the operator, with the json format enabled. */
export const searxng: SearchEngine = {
  nameIn: () => 'searxng',
  addressIn: ({ search }) => search.searxng_url || undefined,
  categoriesIn: () => CATEGORIES,
  async search({ query, category }, context) {
    const { searxng_url, safesearch, language } = context.settings.search
    const url = new URL(`${searxng_url.replace(/\/+$/, '')}/search`)
    url.searchParams.set('q', query)
    url.searchParams.set('format', 'json')
    url.searchParams.set('categories', NAMES[category])
    url.searchParams.set('safesearch', SAFE[safesearch])
    if (language !== '') url.searchParams.set('language', language)
    const response = await requestJson('searxng', url, context)
    return asArray(response['results']).flatMap((result) => {
      const row = asRecord(result)
      return toResults({
        title: row['title'],
        url: row['url'],
        snippet: row['content'],
        image_url: withScheme(row['img_src']),
        thumbnail_url: withScheme(row['thumbnail_src']) || withScheme(row['thumbnail']),
        published: row['publishedDate'],
        duration: row['length'],
        source: row['engine'],
      })
    })
  },
}

const withScheme = (address: unknown): string => asString(address).replace(/^\/\//, 'https://')
