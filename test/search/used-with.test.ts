import { expect, it } from 'vitest'
import type { Tool } from '../../src/core/tool.ts'
import type { Atlas } from '../../src/search/atlas.ts'
import { findUsedWith } from '../../src/search/used-with.ts'
import { makeTool } from '../tools.ts'

const atlas: Atlas = {
  id: 'a1',
  requestsOf: () => undefined,
  vectorOf: () => undefined,
  lineOf: () => undefined,
  needOf: () => undefined,
  neighboursOf: ({ name }) =>
    name === 'mcp_git__git_commit'
      ? { before: ['git_status', 'git_add', 'git_init'], after: ['git_push', 'git_log', 'git_tag'] }
      : undefined,
}
const tools = ['git_add', 'git_init', 'git_log', 'git_push', 'git_status', 'git_tag'].map((name) =>
  makeTool(`mcp_git.${name}`, { effect: name === 'git_log' || name === 'git_status' ? 'read' : 'write' }),
)
const commit = makeTool('mcp_git.git_commit')

it('names the tool that changes something before it, and two that follow', () => {
  expect(findUsedWith(commit, tools, atlas)).toEqual({
    before: ['mcp_git.git_add'],
    after: ['mcp_git.git_push', 'mcp_git.git_log'],
  })
})

it('leaves out alternatives, and tools before it that prepare nothing', () => {
  const [bar, pie, upload, view] = ['generate_bar_chart', 'generate_pie_chart', 'upload_data', 'view_data'].map(
    (name) => makeTool(`mcp_chart.${name}`, { effect: 'write' }),
  ) as [Tool, Tool, Tool, Tool]
  const charts: Atlas = {
    ...atlas,
    neighboursOf: () => ({ before: ['view_data', 'upload_data'], after: ['generate_pie_chart', 'view_data'] }),
  }
  expect(findUsedWith(bar, [pie, upload, view], charts)).toEqual({
    before: ['mcp_chart.upload_data'],
    after: ['mcp_chart.view_data'],
  })
})

it('leaves out tools that the caller does not see or that the answer lists', () => {
  const others = tools.filter(({ id }) => id === 'mcp_git.git_tag')
  expect(findUsedWith(commit, others, atlas)).toEqual({ before: [], after: ['mcp_git.git_tag'] })
  expect(findUsedWith(commit, [], atlas)).toBeUndefined()
})

it('names the tools that this principal calls before and after it first, also for unknown tools', () => {
  const own = { before: ['mcp_git.git_init', 'mcp_git.gone'], after: ['mcp_git.git_tag'] }
  expect(findUsedWith(commit, tools, atlas, own)).toEqual({
    before: ['mcp_git.git_init'],
    after: ['mcp_git.git_tag', 'mcp_git.git_push'],
  })
  expect(findUsedWith(makeTool('mcp_git.other'), tools, undefined, own)).toEqual({
    before: ['mcp_git.git_init'],
    after: ['mcp_git.git_tag'],
  })
})

it('says nothing about a tool that nobody knows', () => {
  expect(findUsedWith(makeTool('mcp_git.other'), tools, atlas)).toBeUndefined()
  expect(findUsedWith(commit, tools, undefined)).toBeUndefined()
})
