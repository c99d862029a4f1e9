import { describe, expect, it } from 'vitest'
import { asksToDelete, safeSiblingsOf, withSafeSiblings } from '../../src/search/safe-siblings.ts'

const deleteIssue = { id: 'mcp_gitlab.delete_issue', effect: 'destructive' } as const

describe('the safe siblings of a destructive tool', () => {
  it('change the same object and are not destructive', () => {
    const others = [
      { id: 'mcp_gitlab.update_issue', effect: 'write' },
      { id: 'mcp_gitlab.closeIssues', effect: 'write' },
      { id: 'mcp_gitlab.edit_issue', effect: 'destructive' },
      { id: 'mcp_gitlab.update_issue_note', effect: 'write' },
      { id: 'mcp_gitlab.create_issue', effect: 'write' },
      { id: 'mcp_gitlab.get_issue', effect: 'read' },
      { id: 'mcp_gitlab.update', effect: 'write' },
    ] as const
    expect(safeSiblingsOf(deleteIssue, others)).toEqual(['mcp_gitlab.update_issue', 'mcp_gitlab.closeIssues'])
    expect(safeSiblingsOf({ id: 'mcp_gitlab.delete', effect: 'destructive' }, others)).toEqual([])
    expect(safeSiblingsOf({ id: 'mcp_gitlab.delete_issue', effect: 'write' }, others)).toEqual([])
  })
})

it.each([
  'delete issue 12',
  'I want to get rid of this branch',
  'Borra la tabla de prueba',
  'Enlève la ligne 4',
  'Lösch den Schlüssel',
  '把那页删掉',
  'このメッセージを削除して',
  '그 메시지 지워줘',
  'احذف المفتاح',
  'Удали тикет',
])('“%s” asks to delete', (query) => expect(asksToDelete(query)).toBe(true))

it.each(['close issue 12', 'put it in my Dropbox', 'silver price', 'Ferme le ticket 12', '关闭工单'])(
  '“%s” does not ask to delete',
  (query) => expect(asksToDelete(query)).toBe(false),
)

describe('an answer with a destructive tool', () => {
  const hit = (id: string, score: number) => ({ id, score, matched: ['issue'] })
  const siblingsOf = (id: string): readonly string[] => (id === 'x.delete_issue' ? ['x.update_issue'] : [])
  const answerTo = (query: string, hits: readonly ReturnType<typeof hit>[]) =>
    withSafeSiblings(hits, () => query, siblingsOf).map(({ id, score }) => `${id} ${score}`)

  it('gets the sibling before it, with its score', () => {
    expect(answerTo('close issue 12', [hit('x.delete_issue', 0.9), hit('x.get_issue', 0.5)])).toEqual([
      'x.update_issue 0.9',
      'x.delete_issue 0.9',
      'x.get_issue 0.5',
    ])
  })

  it('moves the sibling before it, and leaves one that is already there', () => {
    const both = [hit('x.delete_issue', 0.9), hit('x.get_issue', 0.5), hit('x.update_issue', 0.4)]
    const moved = ['x.update_issue 0.9', 'x.delete_issue 0.9', 'x.get_issue 0.5']
    expect(answerTo('close issue 12', both)).toEqual(moved)
    expect(answerTo('close issue 12', [...both].reverse())).toEqual([
      'x.update_issue 0.4',
      'x.get_issue 0.5',
      'x.delete_issue 0.9',
    ])
  })

  it('gets the sibling at the end if the query asks to delete', () => {
    expect(answerTo('remove issue 12', [hit('x.delete_issue', 0.9), hit('x.get_issue', 0.5)])).toEqual([
      'x.delete_issue 0.9',
      'x.get_issue 0.5',
      'x.update_issue 0.5',
    ])
  })

  it('gets no sibling if the query is the name of the destructive tool', () => {
    expect(answerTo('x.delete_issue', [hit('x.delete_issue', 1)])).toEqual(['x.delete_issue 1'])
  })
})
