import { describe, expect, it } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import { mirroredArguments, mirrorHeaders } from '../../src/upstream/mirrored-headers.ts'
import { readDefinition } from '../../src/upstream/tool-definition.ts'
import { effectByName, exampleOf, guessEffect, phrasesWithOtherVerbs } from '../../src/upstream/tool-hints.ts'
import { moduleIds } from '../../src/upstream/upstreams.ts'
import { scripted, withServers } from './host.ts'

describe('names of server tools', () => {
  it('become valid, short and distinct, and still call the right tool [DIG-31]', () =>
    withServers({ s: scripted('--odd-names') }, async ({ catalog, text }) => {
      const { tools } = catalog.snapshot()
      expect(tools).toHaveLength(7)
      for (const tool of tools) expect(tool.name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
      expect(new Set(tools.map((tool) => tool.name)).size).toBe(7)
      const answers = await Promise.all(tools.map((tool) => text(tool.id)))
      expect(answers).toEqual(['with space', 'with/slash', 'with.dot', '天気予報', 'x'.repeat(100), 'a b', 'a/b'])
      expect(tools.map((tool) => tool.id)).toEqual(
        expect.arrayContaining(['mcp_s.with.dot', 'mcp_s.a_b_c8687a08', 'mcp_s.a_b_c14cddc0']),
      )
    }))

  it('are unchanged with an empty prefix, except reserved ones', () =>
    withServers(
      { s: { ...scripted(), prefix: '' } },
      async ({ catalog }) => {
        const names = catalog.snapshot().tools.map((tool) => tool.name)
        expect(names).toContain('burst')
        expect(names).toContain('echo_c7232116')
        expect(names).not.toContain('echo')
      },
      { catalog: createCatalog(new Set(['echo'])) },
    ))

  it('become categories from server names', () => {
    expect([...moduleIds({ github: 0, 'My Server!': 0, my_server: 0, 天気: 0, GitHub: 0 })]).toEqual([
      ['github', 'mcp_github'],
      ['My Server!', 'mcp_my_server'],
      ['my_server', 'mcp_my_server_2'],
      ['天気', 'mcp_server'],
      ['GitHub', 'mcp_github_2'],
    ])
  })

  it('become categories once for each configuration', () => {
    const servers = { github: 0 }
    expect(moduleIds(servers)).toBe(moduleIds(servers))
  })
})

describe('hostile definitions', () => {
  it('are skipped one by one, with a warning each', () =>
    withServers({ s: scripted('--hostile') }, async ({ catalog, logged, tool }) => {
      expect(catalog.snapshot().tools.map((one) => one.id)).toEqual(['mcp_s.twice', 'mcp_s.talkative', 'mcp_s.proto'])
      const warnings = logged.filter((entry) => entry['level'] === 'warn').map((entry) => entry['message'])
      expect(warnings).toEqual([
        'skipped a tool whose name is not a string',
        'skipped a tool whose name is not a string',
        'skipped a tool that is not an object',
        'skipped "deep": its schema is more than 32 deep',
        'skipped "wide": its schema has more than 1000 parts',
        expect.stringMatching(/^skipped "big": its schema has 200\d+ bytes$/),
        'skipped "network": its schema refers to "https://example.com/s.json"',
        'skipped a second tool named "twice"',
      ])
      expect(tool('mcp_s.talkative').description).toHaveLength(4_096)
      expect(Object.keys(tool('mcp_s.proto').examples[0]?.input ?? {})).toEqual([])
      expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
    }))

  it('on a page that names itself as the next are read once', () =>
    withServers({ s: scripted('--same-page') }, async ({ catalog, logged }) => {
      expect(catalog.snapshot().tools.map(({ id }) => id)).toEqual(['mcp_s.tool_1', 'mcp_s.tool_2'])
      expect(logged).toContainEqual(
        expect.objectContaining({ level: 'warn', message: 'tools/list was cut at a page it repeats' }),
      )
    }))

  it('on endless pages are read up to a limit [UPS-12]', () =>
    withServers({ s: scripted('--endless-pages') }, async ({ catalog, logged }) => {
      expect(catalog.snapshot().tools).toHaveLength(50)
      expect(logged).toContainEqual(
        expect.objectContaining({ level: 'warn', message: 'tools/list was cut at 50 pages' }),
      )
    }))

  it('of 20,000 tools on one page are read up to a limit', () =>
    withServers({ s: scripted('--one-page') }, async ({ catalog, logged }) => {
      expect(catalog.snapshot().tools).toHaveLength(500)
      expect(logged).toContainEqual(
        expect.objectContaining({ level: 'warn', message: 'tools/list was cut at 500 entries' }),
      )
    }))

  it('lose escapes, control characters and hidden text', () =>
    withServers({ s: { ...scripted('--painted'), summary: '\u001b[31mAbout\u202e it' } }, async ({ tool, catalog }) => {
      expect(tool('mcp_s.one')).toMatchObject({
        title: 'Red',
        description: 'Does one.',
        extra: { annotations: { title: 'Bold' } },
      })
      expect(catalog.snapshot().owners.get('mcp_s')?.summary).toBe('About it')
    }))

  it('may contain references to their own parts', () => {
    const inputSchema = { type: 'object', properties: { a: { $ref: '#/$defs/a' } }, $defs: { a: { type: 'string' } } }
    expect(readDefinition({ name: 'fine', inputSchema })).toMatchObject({ name: 'fine', listed: undefined })
  })
})

describe("a server's tool", () => {
  it("carries its server's metadata and links", () =>
    withServers({ s: scripted() }, async ({ tool }) => {
      const one = tool('mcp_s.get_content')
      expect(one).toMatchObject({
        id: 'mcp_s.get_content',
        name: 's__get_content',
        module: 'mcp_s',
        origin: 'upstream',
        title: 'Every kind of content',
        description: 'Does get_content.',
        effect: 'read',
        openWorld: true,
        tags: ['mcp', 's'],
        sideEffects: ['calls the MCP server s'],
      })
      expect(one.aliases).toEqual([])
      expect(one.searchPhrases).toEqual(['fetch content', 'show content', 'obtenir content', 'afficher content'])
      expect(one.extra).toEqual({
        annotations: { readOnlyHint: true, title: 'Every kind of content' },
        _meta: { 'example.com/kept': true },
      })
      expect(one.output).toEqual({
        $schema: 'http://json-schema.org/draft-07/schema#',
        type: 'object',
        properties: { n: { type: 'number' } },
        required: ['n'],
      })
      expect(tool('mcp_s.echo').examples).toEqual([{ input: { text: '<text>' } }])
      expect(tool('mcp_s.echo').output).toBeUndefined()
    }))

  it('is excluded by the globs of its entry', () =>
    withServers(
      { s: { ...scripted(), allow: ['ask_*', 'echo', 'get_?eta'], blocked_actions: ['*_model'] } },
      async ({ catalog }) => {
        expect(catalog.snapshot().tools.map((tool) => tool.id)).toEqual([
          'mcp_s.echo',
          'mcp_s.get_meta',
          'mcp_s.ask_person',
          'mcp_s.ask_roots',
        ])
      },
    ))
})

/** The defaults of the protocol. */
const DEFAULTS = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true }

describe("the effect of a server's tool", () => {
  it.each([
    ['delete_issue', {}, 'destructive'],
    ['removeUser', { readOnlyHint: true }, 'destructive'],
    ['get_issue', { readOnlyHint: true }, 'read'],
    ['API-get-user', { readOnlyHint: true }, 'read'],
    ['get_issue', undefined, 'write'],
    ['get_issue', { readOnlyHint: false }, 'write'],
    ['get_issue', { destructiveHint: true }, 'destructive'],
    ['mark_as_read', { readOnlyHint: true }, 'write'],
    ['create_issue', undefined, 'write'],
    ['summarise', { readOnlyHint: true }, 'write'],
    ['get_and_wipe', { readOnlyHint: true }, 'destructive'],
    ['list_purge', { readOnlyHint: true }, 'destructive'],
    ['search_then_erase', { readOnlyHint: true }, 'destructive'],
    ['getDELETEUser', { readOnlyHint: true }, 'destructive'],
    ['list_overwrite2', { readOnlyHint: true }, 'destructive'],
    ['read_write_all', { readOnlyHint: true }, 'write'],
    ['search_and_replace', { readOnlyHint: true }, 'write'],
    ['list_deleted_files', { readOnlyHint: true }, 'read'],
    ['directory_tree', { readOnlyHint: true }, 'read'],
    ['find-user', { readOnlyHint: true }, 'read'],
    ['describe_table', { readOnlyHint: true }, 'read'],
    ['fetch_and_delete', { readOnlyHint: true }, 'destructive'],
    ['check_out', { readOnlyHint: false }, 'write'],
    ['get_merge_request_diffs', { readOnlyHint: true }, 'read'],
    ['list_simulation_run_events', { readOnlyHint: true }, 'read'],
    ['get_merge_request_diffs', undefined, 'write'],
    ['get_or_run', { readOnlyHint: true }, 'write'],
    ['compare_commit_merge', { readOnlyHint: true }, 'write'],
    ['restart_ha', undefined, 'destructive'],
    ['RebootInstances', { readOnlyHint: true }, 'destructive'],
    // The defaults that one library writes for every tool count as absent, and nothing else does.
    ['excel_read_sheet', DEFAULTS, 'write'],
    ['excel_write_sheet', DEFAULTS, 'destructive'],
    ['excel_read_sheet', { ...DEFAULTS, openWorldHint: false }, 'destructive'],
  ] as const)('%s %j is %s', (name, annotations, effect) => {
    expect(guessEffect(effectByName(name), annotations, false)).toBe(effect)
  })

  it('follows the annotations if the operator trusts them', () => {
    expect(guessEffect(effectByName('delete_draft'), { readOnlyHint: true }, true)).toBe('read')
    expect(guessEffect(effectByName('delete_draft'), { destructiveHint: false }, true)).toBe('write')
    expect(guessEffect(effectByName('delete_draft'), {}, true)).toBe('destructive')
  })
})

describe('generated phrases and examples', () => {
  it('use another verb, in two languages', () => {
    expect(phrasesWithOtherVerbs('createIssue')).toEqual([
      'add issue',
      'new issue',
      'make issue',
      'créer issue',
      'ajouter issue',
    ])
    expect(phrasesWithOtherVerbs('echo')).toEqual([])
  })

  it('fill in every required parameter', () => {
    expect(
      exampleOf({
        required: ['s', 'n', 'b', 'e', 'd', 'l', 'o', 'u', 'missing'],
        properties: {
          s: { type: 'string' },
          n: { type: 'integer', minimum: 5 },
          b: { type: 'boolean' },
          e: { enum: ['x', 'y'] },
          d: { default: 3 },
          l: { type: 'array', items: { type: 'string' } },
          o: { type: 'object', required: ['in'], properties: { in: { type: 'number' } } },
          u: { anyOf: [{ type: 'null' }, { type: 'string' }] },
          optional: { type: 'string' },
        },
      }),
    ).toEqual({
      input: { s: '<s>', n: 5, b: true, e: 'x', d: 3, l: ['<l>'], o: { in: 1 }, u: '<u>', missing: '<missing>' },
    })
  })
})

describe('arguments mirrored to headers', () => {
  const schema = (mark: object) => ({
    type: 'object',
    properties: { a: { type: 'object', properties: { b: { type: 'string', ...mark } } } },
  })

  it('are found at any depth and encoded if necessary', () => {
    const mirrored = mirroredArguments(schema({ 'x-mcp-header': 'Region' }))
    expect(mirrored).toEqual([{ path: ['a', 'b'], header: 'Region' }])
    const headers = (b: unknown) => mirrorHeaders(mirrored as never, { a: { b } })
    expect(headers('eu west')).toEqual({ 'Mcp-Param-Region': 'eu west' })
    expect(headers('Zürich')).toEqual({ 'Mcp-Param-Region': '=?base64?WsO8cmljaA==?=' })
    expect(headers(' pad')).toEqual({ 'Mcp-Param-Region': '=?base64?IHBhZA==?=' })
    expect(headers('')).toEqual({ 'Mcp-Param-Region': '=?base64??=' })
    expect(headers(true)).toEqual({ 'Mcp-Param-Region': 'true' })
    expect(headers(null)).toEqual({})
  })

  it.each([
    [schema({ 'x-mcp-header': 'has space' })],
    [schema({ 'x-mcp-header': '' })],
    [schema({ 'x-mcp-header': 'A', type: 'number' })],
    [{ type: 'object', 'x-mcp-header': 'A' }],
    [{ type: 'object', properties: { a: { type: 'array', items: { type: 'string', 'x-mcp-header': 'A' } } } }],
    [{ type: 'object', $defs: { a: { type: 'string', 'x-mcp-header': 'A' } } }],
    [
      {
        type: 'object',
        properties: { a: { type: 'string', 'x-mcp-header': 'A' }, b: { type: 'string', 'x-mcp-header': 'a' } },
      },
    ],
  ])('in the wrong place or way make the tool unusable: %j', (bad) => {
    expect(mirroredArguments(bad)).toEqual(expect.stringContaining('x-mcp-header'))
  })

  it('are not confused with arguments and values of that name', () => {
    expect(
      mirroredArguments({
        type: 'object',
        properties: { 'x-mcp-header': { type: 'string' } },
        default: { 'x-mcp-header': 1 },
      }),
    ).toEqual([])
  })
})
