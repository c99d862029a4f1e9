import { describe, expect, it } from 'vitest'
import { actionName } from '../../src/catalog/naming.ts'
import type { Tool } from '../../src/core/tool.ts'
import { createBeforehand } from '../../src/upstream/beforehand.ts'
import { readDefinition, type ToolRecord } from '../../src/upstream/definition.ts'
import { parseServer } from '../../src/upstream/settings.ts'

function setUp(sent: readonly unknown[], more: object = {}, kept: readonly string[] = []) {
  const looked: string[] = []
  const { settings } = parseServer('calc', { command: 'none', ...more })
  const beforehand = createBeforehand({
    module: 'mcp_calc',
    settings,
    unread: {
      sent,
      record(one) {
        looked.push(String((one as ToolRecord).name))
        return readDefinition(one)
      },
      read: () => ({ tools: [] }),
    },
    passes: (name) => !settings.deny.includes(name),
    adapter:
      () =>
      ({ name }) =>
        ({ id: `mcp_calc.${actionName(name, settings)}`, name: `calc__${name}` }) as Tool,
    admits: ({ name }) => !kept.includes(name),
    made: new Map(),
  })
  return { ...beforehand, looked }
}

const named = (...names: string[]) => names.map((name) => ({ name, description: 'Does it.' }))

describe('one tool of a list that nobody looked at', () => {
  it('is told by its id and by the name clients see, and is looked at alone and once', () => {
    const { byId, byName, wants, looked } = setUp(named('add', 'subtract', 'Divide'))
    expect(byName('calc__subtract')?.id).toBe('mcp_calc.subtract')
    expect(byId('mcp_calc.subtract')).toBe(byName('calc__subtract'))
    expect(byName('calc__divide')?.id).toBe('mcp_calc.Divide')
    expect(looked).toEqual(['subtract', 'Divide'])
    expect([wants('calc__add'), wants('calc__none'), wants('other__add')]).toEqual([true, false, false])
    expect(byName('calc__none')).toBeUndefined()
  })

  it('takes a look at all where it is kept out, left out, unfit or not the only one of its name', () => {
    const sent = [...named('evil', 'secret', 'twin', 'Twin'), { name: 'odd', inputSchema: 7 }]
    const { byId, byName } = setUp(sent, { deny: ['secret'] }, ['evil'])
    for (const name of ['evil', 'secret', 'twin', 'odd']) expect(byName(`calc__${name}`)).toBeUndefined()
    for (const name of ['evil', 'secret', 'odd']) expect(byId(`mcp_calc.${name}`)).toBeUndefined()
  })

  it('is known where names begin with nothing, or with what no name can have', () => {
    expect(setUp(named('add'), { prefix: '' }).byName('add')?.id).toBe('mcp_calc.add')
    expect(setUp(named('add'), { prefix: 'my calc' }).wants('my_calc__add')).toBe(true)
  })
})
