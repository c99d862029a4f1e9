import { PegboardError } from '../core/errors.ts'
import { firstSentence } from '../core/first-sentence.ts'
import { riskOf } from '../core/tool.ts'
import { findNearest } from '../core/tool-names.ts'
import { valueResult } from '../core/tool-result.ts'
import { firstFitting, readMaxTokens, shrinking } from './fit-answer.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'
import { inputSchema, READS, readInteger, readText, TEXT } from './meta-input.ts'
import { ownerStatus } from './owner-status.ts'

export const browseCategory = (host: MetaHost): MetaTool => ({
  name: 'browse_category',
  title: 'Browse category',
  step: 'discover',
  description: () => 'List the tools of one category, in pages.',
  inputSchema: inputSchema(
    { category: TEXT, page: { type: 'integer' }, page_size: { type: 'integer', default: 20 } },
    'category',
  ),
  otherKeys: ['max_tokens'],
  hints: READS,
  run(input, request) {
    const tokens = readMaxTokens(input, 'browse_category')
    const category = readText(input, 'category', 'browse_category', 200)
    const page = readInteger(input, 'page', 'browse_category', 1, 1_000_000, 1)
    const pageSize = readInteger(input, 'page_size', 'browse_category', 1, 100, 20)
    const view = host.view(request.caller)
    const owner =
      view.owners.find(({ id }) => id === category) ?? view.owners.find(({ id }) => id === `mcp_${category}`)
    if (!owner) {
      const ids = view.owners.map(({ id }) => id)
      const [near] = findNearest(category, ids)
      throw new PegboardError(
        'E_NOT_FOUND',
        `Category '${category.slice(0, 80)}' not found. Available categories: ${ids.join(', ')}.`,
        { hint: near ? `Did you mean '${near}'?` : 'Use one of these.' },
      )
    }
    const all = view.tools.filter((entry) => entry.tool.module === owner.id)
    const tools = all.slice((page - 1) * pageSize, page * pageSize).map((entry) => ({
      name: entry.tool.id,
      description: firstSentence(entry.description, 140),
      risk_level: riskOf(entry.tool.effect),
      tags: entry.tool.tags,
    }))
    const answer = (some: readonly object[], size: number, rest: object = {}): object => ({
      category: owner.id,
      ...rest,
      ...ownerStatus(owner, host.now()),
      tools: some,
      page,
      page_size: size,
      total_pages: Math.ceil(all.length / size),
      total_tools: all.length,
    })
    const summary = host.categoryLine(owner, view)
    function* answers(): Iterable<object> {
      yield answer(tools, pageSize, { summary })
      const names = tools.map(({ name }) => ({ name }))
      yield answer(
        tools.map(({ name, description }) => ({ name, description })),
        pageSize,
      )
      yield answer(names, pageSize)
      const from = (page - 1) * pageSize
      // A smaller page that begins with the same tool.
      for (const some of shrinking(names))
        if (from % some.length === 0) yield { ...answer(some, some.length), page: from / some.length + 1 }
    }
    return valueResult(firstFitting(tokens, answers()))
  },
})
