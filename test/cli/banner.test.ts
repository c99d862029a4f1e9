import { expect, it } from 'vitest'
import { formatBanner, type ServeFacts } from '../../src/cli/banner.ts'

const facts: ServeFacts = {
  url: 'http://127.0.0.1:8000/mcp',
  mode: 'direct',
  why: 'few tools',
  tools: 0,
  categories: 0,
  tokens: 0,
  listedTokens: 600,
  budgetTokens: 1_000,
  failed: [],
  loading: true,
}

it('the banner shows no tool count before modules are loaded', () => {
  expect(formatBanner(facts, undefined)).toBe(
    'Pegboard serves at http://127.0.0.1:8000/mcp\nSome modules are still loading. Clients get their tools when they are ready.\n',
  )
  expect(formatBanner({ ...facts, tools: 2, categories: 1 }, undefined)).toContain(
    '\nSo far 2 tools in 1 category, shown',
  )
})
