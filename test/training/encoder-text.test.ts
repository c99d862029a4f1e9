import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { toolTextOf } from '../../src/search/encoder/encoder-text.ts'
import type { SearchSource } from '../../src/search/search-document.ts'

const python = process.env['PYTHON'] ?? 'python3'
const missing = spawnSync(python, ['--version']).status !== 0

const TOOL_TEXTS = `
import json, sys
sys.path.insert(0, 'training/encoder')
from text import tool_text
texts = [tool_text(tool['name'], tool['server'], tool['description'], tool.get('schema')) for tool in json.load(sys.stdin)]
print(json.dumps(texts))
`

interface Tool {
  readonly name: string
  readonly server: string
  readonly description: string
  readonly schema?: Record<string, unknown>
}

const tool = (name: string, description = '', server = 'server', schema?: Record<string, unknown>): Tool => ({
  name,
  server,
  description,
  ...(schema === undefined ? {} : { schema }),
})

const TOOLS: readonly Tool[] = [
  tool('list_open_issues', 'Lists open issues. See https://example.com/docs?q=1 for more.'),
  tool('getHTTPResponseCode', 'Reads the HTTPResponseCode of parseURLPath2Go'),
  tool(
    'notion-API-post-page',
    'Create **a page** with `properties` # heading, snake_case_word',
    'makenotion/notion-mcp',
  ),
  tool('github__create_issue', 'Creates an issue', 'github'),
  tool('slack.send', 'Sends', 'slack'),
  tool('git/', 'Only the prefix', 'git'),
  tool('browse', 'Open <a href="https://example.com">a page</a> and <b>read</b> it; 1 < 2 and 3 > 2'),
  tool('résumé_öffnen', 'Öffnet den Lebenslauf: naïve Café façade'),
  tool('天气查询', '查询天气。Weather lookup for 北京'),
  tool('поиск', 'Поиск файлов по имени. ЁжИк'),
  tool('ara', 'İstanbul için hava durumu; ıSPARTA'),
  tool('spaces', 'tab\there\nnew\r\nline\u00a0no-break\u2003em\u3000wide\ufeffmark\u0085next\u001cfile'),
  tool('emoji😀tool', 'Party 🎉 popper 👩‍👩‍👧 family', '🚀rocket'),
  tool('superscript²_and_½', 'Area in m², ½ cup, Ⅷ, ٣ items'),
  tool('combining_e\u0301', 'e\u0301 as two characters, हिन्दी'),
  tool('long', `${'x'.repeat(1_195)} https://example.com/cut`),
  tool(`${'name'.repeat(30)}`, `${'😀'.repeat(600)}cut`, 'long-server-name/'.repeat(6)),
  tool('empty', '', ''),
  tool('search', 'Search', 'server', {
    type: 'object',
    properties: {
      searchQuery: {
        type: 'string',
        description: `Words to look for, such as \`open_issues\` ${'and more '.repeat(10)}`,
      },
      'x-api-key': true,
      filter: {
        properties: { created_at: { properties: { from: { properties: { tooDeep: {} } } } } },
        items: { properties: { insideItems: { description: 5 } } },
      },
    },
    items: { properties: { ofItems: {} } },
  }),
  tool('many', 'Many parameters', 'server', {
    properties: Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`p${at}`, { properties: { inner: {} } }])),
  }),
  tool('odd', 'Odd schemas', 'server', { properties: ['a', 'b'], items: [{ properties: { c: {} } }] }),
]

it.skipIf(missing)(`normalises tools in Python as the encoder in TypeScript does (needs ${python})`, () => {
  const { stdout, stderr } = spawnSync(python, ['-c', TOOL_TEXTS], { input: JSON.stringify(TOOLS), encoding: 'utf8' })
  expect(stderr).toBe('')
  expect(JSON.parse(stdout)).toEqual(TOOLS.map((one) => toolTextOf(sourceOf(one))))
})

function sourceOf({ name, server, description, schema = {} }: Tool): SearchSource {
  return {
    id: name,
    name,
    description,
    module: server,
    origin: 'upstream',
    title: '',
    aliases: [],
    tags: [],
    sideEffects: [],
    inputJson: schema,
  }
}
