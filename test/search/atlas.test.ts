import { describe, expect, it } from 'vitest'
import { createAtlas, likenessOf, sketchOf } from '../../src/search/atlas.ts'
import { sourceOfEvalTool } from '../../src/search/evaluate.ts'

const DESCRIPTION = 'Create a new issue in a GitHub repository with a title, a body, labels and assignees'
const vector = Buffer.from(Int8Array.of(127, -1, 0).buffer).toString('base64')
const read: string[] = []
const atlas = createAtlas(
  {
    id: 'a1',
    encoder: 'e1',
    tools: {
      create_issue: [
        ['gitlab', 0, sketchOf('Create a new issue in a GitLab project for a milestone, an iteration or an epic')],
        ['github', 0, sketchOf(DESCRIPTION)],
      ],
    },
    needs: { github: 'browser' },
  },
  (server) => {
    read.push(server)
    const others = [
      { name: 'close_issue', requests: [], next: [], vector },
      { name: 'create_label', requests: [], next: ['close_issue', 'create_issue'], vector },
      { name: 'create_repository', requests: [], next: ['create_issue'], vector },
    ]
    const own = { name: 'create_issue', requests: [`report a bug on ${server}`], next: ['close_issue'], vector }
    return { line: '', tools: [own, ...others] }
  },
)
const sourceOf = (name: string, description: string, server = 'work') =>
  sourceOfEvalTool({ id: `${server}/${name}`, server, name, description })

describe('the atlas', () => {
  it('recognizes a tool of a known server under any server name, and reads only its file', () => {
    expect(atlas.requestsOf(sourceOf('create_issue', DESCRIPTION))).toEqual(['report a bug on github'])
    expect(read).toEqual(['github'])
  })

  it('recognizes another version of a tool by most of its words', () => {
    const other = `${DESCRIPTION.replace('assignees', 'people')}. Returns its number.`
    expect(atlas.requestsOf(sourceOf('create_issue', other))).toEqual(['report a bug on github'])
  })

  it.each([
    ['another tool with the same name', sourceOf('create_issue', 'Make a printed magazine ready for sale')],
    ['another name with the same description', sourceOf('make_ticket', DESCRIPTION)],
  ])('does not know %s', (_, source) => {
    expect(atlas.requestsOf(source)).toBeUndefined()
    expect(atlas.vectorOf(source, 'e1')).toBeUndefined()
  })

  it('has vectors for one encoder only', () => {
    expect(atlas.vectorOf(sourceOf('create_issue', DESCRIPTION), 'e1')).toEqual(Float32Array.of(127, -1, 0))
    expect(atlas.vectorOf(sourceOf('create_issue', DESCRIPTION), 'e2')).toBeUndefined()
  })

  it('names the tools that come before and after a tool, the most usual first', () => {
    expect(atlas.neighboursOf(sourceOf('create_issue', DESCRIPTION))).toEqual({
      before: ['create_repository', 'create_label'],
      after: ['close_issue'],
    })
    expect(atlas.neighboursOf(sourceOf('make_ticket', DESCRIPTION))).toBeUndefined()
  })

  it('says what calls of a known server need', () => {
    expect(atlas.needOf(sourceOf('create_issue', DESCRIPTION))).toBe('browser')
    expect(atlas.needOf(sourceOf('make_ticket', DESCRIPTION))).toBeUndefined()
  })

  it('estimates the share of common words', () => {
    expect(likenessOf(sketchOf('one two three'), sketchOf('Three, two: one!'))).toBe(1)
    expect(likenessOf(sketchOf('one two three'), sketchOf('four five six'))).toBe(0)
    expect(likenessOf(sketchOf('one two three'), sketchOf('one two four'))).toBe(0.5)
    expect(likenessOf(sketchOf(''), sketchOf(''))).toBe(1)
  })
})
