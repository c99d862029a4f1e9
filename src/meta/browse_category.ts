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
    const requestedSize = readInteger(input, 'page_size', 'browse_category', 1, 100, 20)
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
    const ownTools = view.tools.filter((entry) => entry.tool.module === owner.id)
    const tools = ownTools.slice((page - 1) * requestedSize, page * requestedSize).map((entry) => ({
      name: entry.tool.id,
      description: firstSentence(entry.description, 140),
      risk_level: riskOf(entry.tool.effect),
      tags: entry.tool.tags,
    }))
    const answer = (rows: readonly object[], pageSize: number, rest: object = {}): object => ({
      category: owner.id,
      ...rest,
      ...ownerStatus(owner, host.now()),
      tools: rows,
      page,
      page_size: pageSize,
      total_pages: Math.ceil(ownTools.length / pageSize),
      total_tools: ownTools.length,
    })
    const summary = host.categoryLine(owner, view)
    function* answers(): Iterable<object> {
      yield answer(tools, requestedSize, { summary })
      const descriptions = tools.map(({ name, description }) => ({ name, description }))
      yield answer(descriptions, requestedSize)
      const names = tools.map(({ name }) => ({ name }))
      yield answer(names, requestedSize)
      const from = (page - 1) * requestedSize
      // A smaller page that begins with the same tool. It is a whole number of pages after the first tool, so the client can
      // read on with this page size.
      for (const fewer of shrinking(names))
        if (from % fewer.length === 0) yield { ...answer(fewer, fewer.length), page: from / fewer.length + 1 }
    }
    return valueResult(firstFitting(tokens, answers()))
  },
})
