import { describe, expect, it } from 'vitest'
import { stripToolNames } from '../../src/agent/strip-tool-names.ts'

describe('tool names in an answer [SBS-16]', () => {
  const names = ['weather__forecast', 'weather.forecast', 'search', 'get_tool']
  it.each([
    ['I used `weather__forecast` to look.', 'I used a tool to look.'],
    ['I used weather.forecast.', 'I used a tool.'],
    ['I called weather__forecast(place="Ulm") and get_tool.', 'I called a tool and a tool.'],
    ['The `weather__forecast` tool says rain.', 'The tool says rain.'],
    ['The weather__forecast says rain.', 'The tool says rain.'],
    ['I asked my weather__forecast.', 'I asked my tool.'],
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
