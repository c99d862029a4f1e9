import { describe, expect, it } from 'vitest'
import { documentOf } from '../../src/search/search-document.ts'
import { toolOf } from './fixture.ts'

const textOf = (source: Parameters<typeof documentOf>[0], field: string): string | undefined =>
  documentOf(source).fields.find(({ name }) => name === field)?.text

describe('documentOf', () => {
  it('names every searched part of a tool', () => {
    const source = toolOf('mcp_github.list_issues', 'List issues.', {
      origin: 'upstream',
      title: 'Issues of a repository',
      aliases: ['show bugs'],
      tags: ['bugs'],
      sideEffects: ['none'],
      inputJson: {
        type: 'object',
        properties: {
          state: { enum: ['open', 'closed'], description: 'Which ones' },
          filter: { type: 'object', properties: { label: { type: 'string' } } },
          sort: { anyOf: [{ enum: ['newest'] }, { type: 'null' }] },
        },
      },
    })
    expect(Object.fromEntries(documentOf(source).fields.map(({ name, text }) => [name, text]))).toEqual({
      name: 'list_issues Issues of a repository',
      aliases: 'show bugs',
      description: 'List issues.',
      parameters: 'state Which ones open closed filter label sort newest',
      tags: 'bugs',
      effects: 'none',
      module: 'github',
    })
  })

  it('includes every spelling of a name', () => {
    expect(documentOf(toolOf('mcp_github.list_issues', '', { origin: 'upstream' })).names).toEqual([
      'mcp_github.list_issues',
      'mcp_github__list_issues',
      'github.list_issues',
    ])
  })

  it('cuts long texts, so that no tool can fill the index', () => {
    const properties = Object.fromEntries(
      Array.from({ length: 500 }, (_, i) => [`p${i}`, { description: 'long '.repeat(400) }]),
    )
    const source = toolOf('a.b', 'weather '.repeat(20_000), { inputJson: { type: 'object', properties } })
    expect(textOf(source, 'description')?.length).toBe(2048)
    expect(textOf(source, 'parameters')?.length).toBe(1024)
  })

  it('stops at a circular schema', () => {
    const node: Record<string, unknown> = { type: 'object' }
    node.properties = { child: node }
    expect(textOf(toolOf('a.b', '', { inputJson: node }), 'parameters')).toBe('child child child child child')
  })
})
