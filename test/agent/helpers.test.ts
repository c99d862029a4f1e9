import { describe, expect, it } from 'vitest'
import { createCitations, urlsIn } from '../../src/agent/citations.ts'
import { createIntentRouter } from '../../src/agent/intents.ts'
import { stripToolNames } from '../../src/agent/strip.ts'

describe('a router before the model [SBS-16]', () => {
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

  it('asks the highest priority first, and the first of equals', () => {
    expect(router('Help')).toEqual({ intent: 'help', value: 'a list of commands' })
    expect(router('help me')).toEqual({ intent: 'also help', value: 'short' })
  })

  it('goes on where an intent does not want the text after all', () => {
    expect(router('please help me, what is the weather in Ulm?')).toEqual({ intent: 'weather', value: 'weather Ulm' })
    expect(router('sing')).toEqual({ intent: 'anything', value: 'the model' })
  })

  it('sends equal texts the same way, also with an expression that remembers', () => {
    const twice = [router('weather in Rome'), router('weather in Rome')]
    expect(twice[0]).toEqual({ intent: 'weather', value: 'weather Rome' })
    expect(twice[1]).toEqual(twice[0])
  })

  it('is typed by what its intents answer, and each by what it found', () => {
    const route = createIntentRouter([
      { name: 'help', match: /^help$/i, route: () => 'Ask me anything.' },
      { name: 'greet', match: /^greet (\w+)/i, route: ([, name]) => ({ tool: 'hello__say_hello', args: { name } }) },
    ])
    const found = route('greet Ada')?.value
    const tool: string | undefined = typeof found === 'object' ? found.tool : found
    expect(tool).toBe('hello__say_hello')
  })

  it('knows nothing where nothing fits', () => {
    expect(createIntentRouter([])('hello')).toBeUndefined()
  })
})

describe('addresses that tools name [SBS-16]', () => {
  it('are found once each, without what prose puts around them', () => {
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

  it('are found in JSON as well', () => {
    expect(urlsIn(JSON.stringify({ url: 'https://a.test/b', also: ['https://c.test'] }))).toEqual([
      'https://a.test/b',
      'https://c.test',
    ])
  })

  it('are kept with the tools that had them, and those an answer uses are told', () => {
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

  it('are looked for in time that grows with the text', () => {
    for (const piece of [')', 'http://a', `https://a.test/${')'.repeat(1_900)} `, 'https://', 'h'])
      expect(urlsIn(piece.repeat(Math.ceil(1_000_000 / piece.length))).length).toBeLessThanOrEqual(1_000)
  })
})

describe('names of tools in an answer [SBS-16]', () => {
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

  it('are looked for in time that grows with the text', () => {
    for (const piece of ['`', 'a(', 'a.', '```', 'weather__forecast(', ' '])
      expect(typeof stripToolNames(piece.repeat(Math.ceil(1_000_000 / piece.length)), names)).toBe('string')
  })
})
