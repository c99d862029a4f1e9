import { describe, expect, it } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import { type Caller, localCaller, type Turn } from '../../src/core/caller.ts'
import { silentLog } from '../../src/core/log.ts'
import { createPolicy } from '../../src/policy/policy.ts'
import { deliberateOptions } from '../../src/view/deliberate-options.ts'
import type { View } from '../../src/view/view.ts'
import { createViews } from '../../src/view/views.ts'
import { makeTool } from '../tools.ts'
import { sameRules } from '../view-rules.ts'

/** A weather tool for all, and one tool each for pictures and sounds; `names` after a message, in one conversation. */
function talk(settings: object = { enabled: true }) {
  const catalog = createCatalog()
  catalog.set(
    { id: 'm', summary: 'm', origin: 'module', state: 'ready' },
    {
      tools: [
        makeTool('m.weather'),
        makeTool('m.image', { intent: 'image' }),
        makeTool('m.voice', { intent: 'voice' }),
        makeTool('m.deploy', { intent: 'deploy_site' }),
      ],
    },
  )
  const rules = { ...sameRules(createPolicy())('default'), deliberate: deliberateOptions.parse(settings) }
  const views = createViews({ catalog, rulesOf: () => rules, log: silentLog })
  const view = (turn: Turn | undefined, caller: Partial<Caller> = {}): View =>
    views.viewFor({ ...localCaller, ...(turn && { turn }), ...caller })
  const names = (message: string, turn: Turn = {}, caller: Partial<Caller> = {}): string[] =>
    view({ message, ...turn }, caller)
      .tools.map(({ tool }) => tool.id.slice(2))
      .filter((name) => name !== 'weather')
  return { views, view, names, catalog }
}

const ALL = ['image', 'voice', 'deploy']

describe('tools with an intent', () => {
  it('are listed when the message asks for them, and for four turns after that', () => {
    const { names } = talk()
    expect(names("what's the weather")).toEqual([])
    expect(names('draw a cat')).toEqual(['image'])
    const next = ['is it nice?', 'why?', 'and in Rome?', 'thanks']
    expect(next.map((message) => names(message))).toEqual([['image'], ['image'], ['image'], ['image']])
    expect(names('what time is it')).toEqual([])
  })

  it('are listed for one turn if nothing is stored', () => {
    const { names } = talk({ enabled: true, keepTurns: 0 })
    expect([names('draw a cat'), names('draw a cat'), names('hello')]).toEqual([['image'], ['image'], []])
  })

  it('stay while they are used', () => {
    const { names, views } = talk({ enabled: true, keepTurns: 1 })
    names('draw a cat')
    for (const message of ['hm', 'well', 'so']) {
      expect(names(message), message).toEqual(['image'])
      views.recordIntent({ ...localCaller, turn: { message } }, 'image')
    }
    expect([names('yes'), names('no')]).toEqual([['image'], []])
  })

  it('return when the same request is repeated', () => {
    const { names } = talk({ enabled: true, keepTurns: 0 })
    names('draw a cat')
    expect(names('nice')).toEqual([])
    expect(names('another one, please')).toEqual(['image'])
    expect(names('noch einmal!')).toEqual(['image'])
    for (let n = 0; n < 11; n++) names(`about ${n}`)
    expect(names('again')).toEqual([])
  })

  it('are all listed without a message, if the profile disables this, and for callers that opted out', () => {
    const { names, view } = talk()
    expect(view(undefined).size).toBe(4)
    expect(names('  ')).toEqual(ALL)
    expect(names('hello', { deliberate: 'off' })).toEqual(ALL)
    expect(names('hello', { deliberate: 'follow' })).toEqual([])
    const open = talk({ enabled: false })
    expect([open.names('hello'), open.names('hello', { deliberate: 'on' })]).toEqual([ALL, []])
  })

  it("are also requested by the profile's own phrases", () => {
    const { names } = talk({
      enabled: true,
      keepTurns: 0,
      triggers: { image: ['/img', 'make it pop'], deploy_site: ['ship it'] },
    })
    expect(names('/IMG a cat')).toEqual(['image'])
    expect(names('please make it pop!')).toEqual(['image'])
    expect(names('make it popular')).toEqual([])
    expect(names('now ship it')).toEqual(['deploy'])
    expect(names('deploy site now')).toEqual(['deploy'])
  })

  it('stay for all requests of one answer', () => {
    const { names } = talk({ enabled: true, keepTurns: 1 })
    const generation = 'g1'
    expect(names('draw a cat', { generation })).toEqual(['image'])
    expect(names('', { generation })).toEqual(['image'])
    expect(names('draw a cat', { generation })).toEqual(['image'])
    expect(names('hello', { generation: 'g2' })).toEqual(['image'])
    // The first answer is late and does not start a turn.
    expect(names('draw a cat', { generation })).toEqual(['image'])
    expect(names('hello', { generation: 'g2' })).toEqual(['image'])
    expect(names('hello', { generation: 'g3' })).toEqual([])
  })

  it('are separate for each person, session and channel', () => {
    const { names } = talk()
    expect(names('draw a cat')).toEqual(['image'])
    const origin = { platform: 'chat', channelId: '7', messageId: '', userId: '', userName: '', guildId: '' }
    for (const other of [{ principal: 'ada' }, { session: 's2' }, { origin }, { profile: 'work' }])
      expect(names('hello', {}, other), JSON.stringify(other)).toEqual([])
    expect(names('hello')).toEqual(['image'])
  })

  it('do not change the view while the same ones are offered', () => {
    const { view, catalog } = talk()
    const first = view({ message: 'what is the weather' })
    expect(view({ message: 'and tomorrow?' })).toBe(first)
    const drawing = view({ message: 'draw a cat' })
    expect(drawing).not.toBe(first)
    expect(view({ message: 'nice' })).toBe(drawing)
    expect(view({ message: 'hello' }, { session: 'other' })).toBe(first)
    expect(view(undefined)).not.toBe(first)
    catalog.touch()
    expect(view({ message: 'nice' }).size).toBe(2)
  })

  it('are the same for tools that act on behalf of the caller', () => {
    const { view, views } = talk()
    const drawing = view({ message: 'draw a cat' })
    expect(views.viewFor(drawing.caller)).toBe(drawing)
    expect(view(undefined).size).toBe(4)
  })

  it('forget the callers that were away the longest', () => {
    const { names } = talk()
    names('draw a cat', {}, { session: 'first' })
    for (let n = 0; n < 100; n++) names('draw a cat', {}, { session: `s${n}` })
    expect(names('hello', {}, { session: 's99' })).toEqual(['image'])
    expect(names('hello', {}, { session: 'first' })).toEqual([])
  })
})
