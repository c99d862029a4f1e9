// Tests calls against recorded answers, without starting a server: `node --test`. To record the answers again, set RECORD=1.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createToolset } from 'pegboard/agent'

const here = (name) => fileURLToPath(new URL(name, import.meta.url))
const cassettes = here('cassettes')
let toolset

before(async () => {
  const how = process.env.RECORD ? { record: cassettes } : { replay: cassettes }
  toolset = await createToolset({ config: here('mcp.config.json'), ...how })
})
after(() => toolset.close())

test('remembers a person and finds the person again', async () => {
  const entities = [{ name: 'Ann', entityType: 'person', observations: ['likes tea'] }]
  const created = await toolset.call('memory__create_entities', { entities })
  assert.equal(created.isError, false)
  const found = await toolset.call('memory__search_nodes', { query: 'tea' })
  assert.match(found.text, /Ann/)
})

test('a call that was not recorded names the nearest one', { skip: Boolean(process.env.RECORD) }, async () => {
  const { isError, text } = await toolset.call('memory__search_nodes', { query: 'coffee' })
  assert.equal(isError, true)
  assert.match(text, /E_NOT_RECORDED.*search_nodes \{"query":"tea"\}/s)
})
