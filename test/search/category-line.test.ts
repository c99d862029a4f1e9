import { expect, it } from 'vitest'
import type { Owner } from '../../src/catalog/owner.ts'
import type { Atlas } from '../../src/search/atlas.ts'
import { categoryLine } from '../../src/search/category-line.ts'
import { makeTool } from '../tools.ts'

const owner = (summary: string) => ({ id: 'mcp_memory', summary }) as Owner
const tools = ['create_entities', 'addObservations', 'read-graph', 'open_nodes', 'search_nodes', 'x'].map((name) =>
  makeTool(`mcp_memory.${name}`),
)
const atlas = { lineOf: () => 'Remembers people, facts and preferences' } as unknown as Atlas
const unknown = { lineOf: () => undefined } as unknown as Atlas

it('is what the owner says, then what the atlas says, then the names of tools', () => {
  expect(categoryLine(owner('Facts about people'), tools, atlas)).toBe('Facts about people')
  expect(categoryLine(owner(''), tools, atlas)).toBe('Remembers people, facts and preferences')
  const names = 'create entities, add observations, read graph, open nodes and 2 more'
  expect(categoryLine(owner(''), tools, unknown)).toBe(names)
  expect(categoryLine(owner(''), tools.slice(0, 2), undefined)).toBe('create entities, add observations')
})
