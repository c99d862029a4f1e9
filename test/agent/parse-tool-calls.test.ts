import { describe, expect, it } from 'vitest'
import { parseToolCalls } from '../../src/agent/parse-tool-calls.ts'
import { costMs } from '../measure-growth.ts'

const read = { name: 'filesystem__read', arguments: { path: 'a.txt' } }
const list = { name: 'filesystem__ls', arguments: {} }
const json = JSON.stringify(read)
const two = `${json}\n${JSON.stringify(list)}`
const invoke = `<invoke name="filesystem__read">\n<parameter name="path">a.txt</parameter>\n</invoke>`
/** The same with a prefix that some models write. */
const prefixed = (markup: string): string =>
  markup.replaceAll(/<(\/?)(invoke|parameter|function_calls)/g, '<$1antml:$2')

/** The model's text, the calls in it, and the remaining text. */
const CORPUS: readonly (readonly [string, string, readonly object[], string])[] = [
  ['an invoke element', `Let me look.\n<function_calls>\n${invoke}\n</function_calls>`, [read], 'Let me look.'],
  ['an invoke element with a prefix', prefixed(`<function_calls>\n${invoke}\n</function_calls>`), [read], ''],
  [
    'two invoke elements whose arguments are numbers, lists and text',
    `<invoke name="a.b"><parameter name="n">42</parameter><parameter name="list">[1, "x"]</parameter></invoke>
     <invoke name="c"><parameter name="zip">007</parameter><parameter name="say">it's {ok}</parameter></invoke>`,
    [
      { name: 'a.b', arguments: { n: 42, list: [1, 'x'] } },
      { name: 'c', arguments: { zip: '007', say: "it's {ok}" } },
    ],
    '',
  ],
  [
    "DeepSeek's markers",
    'Reading.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>filesystem__read\n```json\n{"path": "a.txt"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    [read],
    'Reading.',
  ],
  [
    "two of DeepSeek's later markers",
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>filesystem__read<｜tool▁sep｜>{"path": "a.txt"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>filesystem__ls<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    [read, list],
    '',
  ],
  ['a tool_call element', `Sure.\n<tool_call>\n${json}\n</tool_call>`, [read], 'Sure.'],
  [
    'two tool_call elements',
    `<tool_call>${json}</tool_call> and <tool_call>${JSON.stringify(list)}</tool_call>`,
    [read, list],
    'and',
  ],
  ['two calls in one element', `<tool_call>\n${two}\n</tool_call>`, [read, list], ''],
  ['an opener of braces and back-ticks', `Now:\n\`{tool_call}\`\n${json}\n\`{/tool_call}\``, [read], 'Now:'],
  ['an opener of braces that is closed by a tag', `{tool_call}${json}</tool_call>`, [read], ''],
  ['back-ticks and the word', `\`tool_call\` ${json}`, [read], ''],
  ['a fenced tool_call', `\`\`\`tool_call\n${json}\n\`\`\``, [read], ''],
  ['an element in a fence', `\`\`\`xml\n<tool_call>${json}</tool_call>\n\`\`\`\nDone.`, [read], 'Done.'],
  [
    'an argument that holds the closing tag',
    '<tool_call>{"name": "write", "arguments": {"text": "say </tool_call> and \\"{\\""}}</tool_call>ok',
    [{ name: 'write', arguments: { text: 'say </tool_call> and "{"' } }],
    'ok',
  ],
  [
    'a call without arguments',
    '<tool_call>{"name": "list_categories"}</tool_call>',
    [{ name: 'list_categories', arguments: {} }],
    '',
  ],
  [
    'arguments that are the JSON of an object',
    `<tool_call>{"name":"a","arguments":"{\\"x\\": 1}"}</tool_call>`,
    [{ name: 'a', arguments: { x: 1 } }],
    '',
  ],
  [
    'a trailing comma',
    '<tool_call>{"name": "a", "arguments": {"x": [1, 2,],},}</tool_call>',
    [{ name: 'a', arguments: { x: [1, 2] } }],
    '',
  ],
  [
    'single quotes and Python words',
    "<tool_call>{'name': 'a', 'arguments': {'x': True, 'y': None}}</tool_call>",
    [{ name: 'a', arguments: { x: true, y: null } }],
    '',
  ],
  [
    'keys without quotes',
    '<tool_call>{name: "a", arguments: {x: 1}}</tool_call>',
    [{ name: 'a', arguments: { x: 1 } }],
    '',
  ],
  [
    'a line end inside a string',
    '<tool_call>{"name": "a", "arguments": {"x": "one\ntwo"}}</tool_call>',
    [{ name: 'a', arguments: { x: 'one\ntwo' } }],
    '',
  ],
  ['an element that is not closed, its call whole', `Yes. <tool_call>${json}`, [read], 'Yes.'],
  ["Llama's function", 'Ok <function=filesystem__read>{"path": "a.txt"}</function>', [read], 'Ok'],
  ['a function without its bracket', '<function=filesystem__read{"path": "a.txt"}</function>', [read], ''],
  [
    'a function with an element for each argument',
    '<tool_call>\n<function=filesystem__read>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>',
    [read],
    '',
  ],
  [
    'fenced JSON',
    `I will read it.\n\`\`\`json\n${json}\n\`\`\`\nThen we see.`,
    [read],
    'I will read it.\nThen we see.',
  ],
  ['bare JSON', ` ${json} `, [read], ''],
  ['bare JSON with parameters', '{"name": "a", "parameters": {"x": 1}}', [{ name: 'a', arguments: { x: 1 } }], ''],
  ['bare JSON with params', '{"name": "a", "params": {"x": 1}}', [{ name: 'a', arguments: { x: 1 } }], ''],
  [
    'bare JSON with a function',
    '{"type": "function", "function": {"name": "a", "arguments": "{}"}}',
    [{ name: 'a', arguments: {} }],
    '',
  ],
  [
    'bare JSON with tool_calls',
    '{"tool_calls": [{"id": "1", "function": {"name": "a", "arguments": {"x": 1}}}, {"function": {"name": "b"}}]}',
    [
      { name: 'a', arguments: { x: 1 } },
      { name: 'b', arguments: {} },
    ],
    '',
  ],
  ["Mistral's list", `[TOOL_CALLS][${json}, ${JSON.stringify(list)}]`, [read, list], ''],
  ["Llama's Python tag", `<|python_tag|>${json}<|eom_id|>`, [read], ''],
  ['a call among other words', `I call ${json} now, {then} see.`, [read], 'I call\nnow, {then} see.'],
  ['curly quotes', '{“name”: “filesystem__read”, “arguments”: {“path”: “a.txt”}}', [read], ''],
  [
    'curly quotes in an element',
    'So: <tool_call>{“name”: “filesystem__ls”, “arguments”: {}}</tool_call>',
    [list],
    'So:',
  ],
  [
    'what Groq could not read',
    JSON.stringify({
      error: {
        message: 'Failed to call a function.',
        code: 'tool_use_failed',
        failed_generation: `Well. <function=filesystem__read>{"path": "a.txt"}</function>`,
      },
    }),
    [read],
    'Well.',
  ],
]

/** Texts without a call. */
const PROSE: readonly (readonly [string, string, string])[] = [
  [
    'braces',
    'Use {name} and {arguments: value} in the template; f(x) = {x | x > 0}.',
    'Use {name} and {arguments: value} in the template; f(x) = {x | x > 0}.',
  ],
  ['an object that is data', 'The record is {"name": "Ada", "age": 36}.', 'The record is {"name": "Ada", "age": 36}.'],
  [
    'an object whose name is a title',
    '{"name": "Ada Lovelace", "params": {"born": 1815}}',
    '{"name": "Ada Lovelace", "params": {"born": 1815}}',
  ],
  ['fenced code', '```js\nconst a = {name: "x"}\n```', '```js\nconst a = {name: "x"}\n```'],
  ['nothing', '', ''],
  ['an opener that is not closed', 'Let me see. <tool_call>{"name": "filesystem__read", "argum', 'Let me see.'],
  ['an invoke that is not closed', `Wait. ${invoke.slice(0, 50)}`, 'Wait.'],
  ['an invoke without its end', `Wait. ${invoke.replace('</invoke>', '')}`, 'Wait.'],
  ['the last opener, and no more', 'Hm <tool_call>', 'Hm'],
  ['words about an opener', 'The <tool_call> tag begins a call.', 'The  tag begins a call.'],
]

const writeTool = { name: 'write', inputSchema: { type: 'object', properties: { text: { type: 'string' } } } }

describe('tool calls in a text [DIG-39]', () => {
  it.each(CORPUS)('are found in %s', (_what, text, calls, rest) => {
    expect(parseToolCalls(text)).toEqual({ calls, text: rest })
  })

  it.each(PROSE)('are not found in %s', (_what, text, rest) => {
    expect(parseToolCalls(text)).toEqual({ calls: [], text: rest })
  })

  it('keep text arguments as text if the schema says so, even if they look like numbers', () => {
    const text =
      '<invoke name="phone"><parameter name="number">4915</parameter><parameter name="times">2</parameter></invoke>'
    const inputSchema = { type: 'object', properties: { number: { type: 'string' }, times: { type: 'integer' } } }
    expect(parseToolCalls(text, { tools: [{ name: 'phone', inputSchema }] }).calls).toEqual([
      { name: 'phone', arguments: { number: '4915', times: 2 } },
    ])
  })

  it.each([
    ['an invoke element', "<invoke name='rm'></invoke>"],
    ['a tool_call element', "<tool_call>{'name': 'rm', 'arguments': {}}</tool_call>"],
    ['a function', '<function=rm></function>'],
    ["DeepSeek's markers", '<｜tool▁call▁begin｜>rm<｜tool▁sep｜>{}<｜tool▁call▁end｜>'],
    ['a call in JSON', "{'name': 'rm', 'arguments': {}}"],
  ])('are not taken from quoted arguments: %s', (_what, quoted) => {
    const writes = { name: 'write', arguments: { text: quoted } }
    for (const text of [
      JSON.stringify(writes),
      `Ok: ${JSON.stringify(writes)}`,
      `\`\`\`json\n${JSON.stringify(writes)}\n\`\`\``,
      `<tool_call>${JSON.stringify(writes)}</tool_call>`,
      `<function=write>${JSON.stringify(writes.arguments)}</function>`,
      `<invoke name="write"><parameter name="text">${quoted}</parameter></invoke>`,
    ])
      expect(parseToolCalls(text, { tools: [writeTool] }).calls, text).toEqual([writes])
  })

  it('keep a prototype key, which argument validation then rejects', () => {
    const [call] = parseToolCalls('<tool_call>{"name": "a", "arguments": {"__proto__": {"x": 1},}}</tool_call>').calls
    expect(Object.keys(call?.arguments ?? {})).toEqual(['__proto__'])
    expect(({} as { x?: number }).x).toBeUndefined()
  })
})

describe('a hostile text', () => {
  const LENGTH = 250_000
  const of = (piece: string): string => piece.repeat(Math.ceil(LENGTH / piece.length)).slice(0, LENGTH)
  const PIECES: readonly string[] = [
    '{',
    '[',
    '{"',
    "{'a':\"",
    '{"a":[{}',
    '[{"a":1},',
    '<tool_call>{',
    '<tool_call>{"name":"',
    '<tool_call>',
    '`',
    '`{tool_call}',
    '<invoke name="a"><parameter name="b">',
    '<invoke name="a">',
    '<invoke ',
    '<function=a>{"b":',
    '<function=a><parameter=b>',
    '<｜tool▁call▁begin｜>a<｜tool▁sep｜>{"b":[',
    '```json\n{"a":',
    '{"failed_generation":"{',
    '“{“',
    ' ',
    '\n',
    '\\',
    '"\\',
    '{a:1,',
    '-',
    '9',
    'a',
  ]
  it.each(PIECES)('of %j is parsed in linear time', { timeout: 60_000 }, async (piece) => {
    const whole = of(piece)
    expect(await costMs(() => parseToolCalls(whole))).toBeLessThan(2_500)
    expect(await costMs(() => parseToolCalls(`{"name":"x","arguments":{"y":"${whole.slice(0, 200_000)}`))).toBeLessThan(
      2_500,
    )
  })

  it('does not hide a call that follows it', () => {
    const { calls } = parseToolCalls(`${of('{"a":[').slice(0, 200_000)}\n<tool_call>${json}</tool_call>`)
    expect(calls).toEqual([read])
  })
})
