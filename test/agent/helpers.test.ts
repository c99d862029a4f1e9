import { describe, expect, it } from 'vitest'
import { createCitations, urlsIn } from '../../src/agent/citations.ts'
import { createIntentRouter } from '../../src/agent/intent-router.ts'
import { stripToolNames } from '../../src/agent/strip-tool-names.ts'

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

describe('URLs in tool results [SBS-16]', () => {
  it('are found once each, without surrounding punctuation', () => {
    const text =
      'See https://example.com/a?b=1#c, (http://example.org/x_(y)) and <https://example.com/a?b=1#c>. Also **https://a.test/**, "https://b.test/q;" https://c.test/[1]].'
    expect(urlsIn(text)).toEqual([
      'https://example.com/a?b=1#c',
      'http://example.org/x_(y)',
      'https://a.test/',
      'https://b.test/q',
      'https://c.test/[1]',
    ])
    expect(urlsIn('https:// http://. ftp://x.test plain')).toEqual([])
  })

  it('are found in JSON', () => {
    expect(urlsIn(JSON.stringify({ url: 'https://a.test/b', also: ['https://c.test'] }))).toEqual([
      'https://a.test/b',
      'https://c.test',
    ])
  })

  it('are stored with their tools, and those used in an answer are returned', () => {
    const citations = createCitations()
    citations.add('web__search', 'https://a.test and https://b.test')
    citations.add('web__read', 'https://a.test')
    expect(citations.all).toEqual([
      { url: 'https://a.test', tools: ['web__search', 'web__read'] },
      { url: 'https://b.test', tools: ['web__search'] },
    ])
    expect(citations.usedIn('It is at https://b.test, as I said.')).toEqual([
      { url: 'https://b.test', tools: ['web__search'] },
    ])
  })

  it('are found in linear time', () => {
    for (const piece of [')', 'http://a', `https://a.test/${')'.repeat(1_900)} `, 'https://', 'h'])
      expect(urlsIn(piece.repeat(Math.ceil(1_000_000 / piece.length))).length).toBeLessThanOrEqual(1_000)
  })
})

describe('tool names in an answer [SBS-16]', () => {
  const names = ['weather__forecast', 'weather.forecast', 'search', 'get_tool']
  it.each([
    ['I used `weather__forecast` to look.', 'I used a tool to look.'],
    ['I used weather.forecast.', 'I used a tool.'],
    ['I called weather__forecast(place="Ulm") and get_tool.', 'I called a tool and a tool.'],
    ['The `weather__forecast` tool says rain.', 'The tool says rain.'],
    ['The weather__forecast says rain.', 'The tool says rain.'],
    ['My search was good, `search` too.', 'My search was good, a tool too.'],
    ['See weather.forecasting and my_weather__forecast.', 'See weather.forecasting and my_weather__forecast.'],
    ['```\nweather__forecast()\n```', '```\nweather__forecast()\n```'],
    ['Nothing (here).', 'Nothing (here).'],
  ])('%j becomes %j', (text, stripped) => {
    expect(stripToolNames(text, names)).toBe(stripped)
  })

  it('are found in linear time', () => {
    for (const piece of ['`', 'a(', 'a.', '```', 'weather__forecast(', ' '])
      expect(typeof stripToolNames(piece.repeat(Math.ceil(1_000_000 / piece.length)), names)).toBe('string')
  })
})
