import MiniSearch from 'minisearch'
import { contentWords, fieldsOf, stemOf, wordsOf } from './text.mjs'

const FIELDS = ['name', 'description', 'parameters', 'server']
const rowOf = (tool) => ({ id: tool.id, ...fieldsOf(tool) })

function answering(index) {
  return (query, limit) =>
    index
      .search(query)
      .slice(0, limit)
      .map(({ id }) => id)
}

/** MiniSearch as it comes, told only what to read. */
export const minisearchDefault = {
  name: 'MiniSearch default',
  create(tools) {
    const index = new MiniSearch({ fields: FIELDS })
    index.addAll(tools.map(rowOf))
    return answering(index)
  },
}

/** MiniSearch with words cut at camelCase, stems, stop words, the name three times as much and the server's name. */
export const minisearchTuned = {
  name: 'MiniSearch tuned',
  create(tools) {
    const index = new MiniSearch({
      fields: FIELDS,
      tokenize: (text) => contentWords(wordsOf(text)),
      processTerm: stemOf,
      searchOptions: { boost: { name: 3 } },
    })
    index.addAll(tools.map(rowOf))
    return answering(index)
  },
}
