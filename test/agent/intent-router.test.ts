import { describe, expect, it } from 'vitest'
import { createIntentRouter } from '../../src/agent/intent-router.ts'

describe('an intent router [SBS-16]', () => {
  const router = createIntentRouter<string>([
    { name: 'anything', priority: -1, match: () => true, route: () => 'the model' },
    { name: 'weather', match: /\bweather in (\w+)/gi, route: (match) => `weather ${(match as RegExpExecArray)[1]}` },
    { name: 'help', priority: 10, match: /^help$/i, route: () => 'a list of commands' },
    {
      name: 'also help',
      priority: 10,
      match: /help/i,
      route: (_match, text) => (text.length < 20 ? 'short' : undefined),
    },
  ])

  it('tries higher priorities first, and ties in order', () => {
    expect(router('Help')).toEqual({ intent: 'help', value: 'a list of commands' })
    expect(router('help me')).toEqual({ intent: 'also help', value: 'short' })
  })

  it('tries the next intent when one declines', () => {
    expect(router('please help me, what is the weather in Ulm?')).toEqual({ intent: 'weather', value: 'weather Ulm' })
    expect(router('sing')).toEqual({ intent: 'anything', value: 'the model' })
  })

  it('routes equal texts the same way, also with a stateful expression', () => {
    const twice = [router('weather in Rome'), router('weather in Rome')]
    expect(twice[0]).toEqual({ intent: 'weather', value: 'weather Rome' })
    expect(twice[1]).toEqual(twice[0])
  })

  it('infers the types of what intents return and match', () => {
    const route = createIntentRouter([
      { name: 'help', match: /^help$/i, route: () => 'Ask me anything.' },
      { name: 'greet', match: /^greet (\w+)/i, route: ([, name]) => ({ tool: 'hello__say_hello', args: { name } }) },
    ])
    const found = route('greet Ada')?.value
    const tool: string | undefined = typeof found === 'object' ? found.tool : found
    expect(tool).toBe('hello__say_hello')
  })

  it('returns undefined when nothing matches', () => {
    expect(createIntentRouter([])('hello')).toBeUndefined()
  })
})
