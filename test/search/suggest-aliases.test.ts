import { afterAll, describe, expect, it } from 'vitest'
import { createMeasuredSearch } from '../../src/app/measured-search.ts'
import type { Miss } from '../../src/search/misses.ts'
import type { SearchSource } from '../../src/search/search-document.ts'
import { searchOptions } from '../../src/search/search-options.ts'
import { suggestAliases } from '../../src/search/suggest-aliases.ts'

const source = (id: string, description: string): SearchSource => ({
  id,
  name: id.replace('.', '__'),
  module: id.slice(0, id.indexOf('.')),
  title: '',
  description,
  aliases: [],
  tags: [],
  sideEffects: [],
  inputJson: {},
  origin: 'upstream',
})

const sources = [
  source('mcp_plan.split_tasks', 'Splits a plan into steps.'),
  source('mcp_plan.verify_task', 'Checks a step of the plan.'),
  source('mcp_shop.list_orders', 'Lists orders of groceries.'),
  source('mcp_mail.send', 'Sends a letter.'),
]

const measured = createMeasuredSearch({
  settings: searchOptions.parse({ embedder: 'none' }),
  places: { cacheDir: '.', baseDir: '.' },
  ranker: 'lexical',
})
afterAll(() => measured.close())
const suggest = (misses: readonly Miss[]) => suggestAliases(sources, misses, measured.search)

describe('suggested aliases', () => {
  it('use the words of recorded queries and move the called tool up', async () => {
    const { proposals, before, after } = await suggest([
      { at: 1, query: 'jot down my groceries', called: 'mcp_plan.split_tasks' },
      { at: 2, query: 'jot down the errands', called: 'mcp_plan.split_tasks' },
    ])
    expect(proposals).toEqual([
      {
        tool: 'mcp_plan.split_tasks',
        alias: 'jot down',
        queries: [
          { query: 'jot down my groceries', before: 0, after: 1 },
          { query: 'jot down the errands', before: 0, after: 1 },
        ],
      },
    ])
    expect([before.recall[1], after.recall[1]]).toEqual([0, 1])
  })

  it('are not proposed if another recorded query gets worse', async () => {
    const errands = { at: 1, query: 'groceries errands', called: 'mcp_plan.split_tasks' }
    expect((await suggest([errands])).proposals.map(({ alias }) => alias)).toEqual(['groceries errands'])
    const orders = { at: 2, query: 'groceries', called: 'mcp_shop.list_orders' }
    expect((await suggest([errands, orders])).proposals).toEqual([])
  })

  it('have no names, numbers or quoted texts of a query', async () => {
    const { proposals } = await suggest([
      {
        at: 1,
        query: 'please tell Anna and Bob about "secret plans" 12345 by carrier pigeon',
        called: 'mcp_mail.send',
      },
    ])
    expect(proposals.map(({ alias }) => alias)).toEqual(['tell carrier pigeon'])
  })

  it('ignore tools that are gone, and count queries without a call', async () => {
    const { proposals, unused } = await suggest([
      { at: 1, query: 'fly to the moon' },
      { at: 2, query: 'open the pod bay doors', called: 'mcp_ship.open' },
      { at: 3, query: 'fly to the moon' },
    ])
    expect(proposals).toEqual([])
    expect(unused).toEqual([{ query: 'fly to the moon', times: 2 }])
  })
})
