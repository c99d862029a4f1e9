import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { servers, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { put } from '../loader/setup.ts'

interface Result {
  readonly isError?: boolean
  readonly content: {
    readonly type: string
    readonly text?: string
    readonly data?: string
    readonly mimeType?: string
  }[]
  readonly structuredContent?: Record<string, unknown>
}

const TREE = {
  'a.txt': 'one\ntwo\nthree\n',
  'b.md': 'ünïcode\n',
  'src/main.ts': 'const a = 1\nconst b = 2\n',
  'src/deep/x.test.ts': 'test\n',
}
const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')

/** Each tool of the reference server, and our equivalent. */
const TOOLS = {
  read_file: 'read',
  read_text_file: 'read',
  read_media_file: 'read',
  read_multiple_files: 'read_many',
  write_file: 'write',
  edit_file: 'edit',
  create_directory: 'mkdir',
  list_directory: 'ls',
  list_directory_with_sizes: 'ls',
  directory_tree: 'tree',
  move_file: 'mv',
  search_files: 'find',
  get_file_info: 'stat',
  list_allowed_directories: 'ls',
} as const

let ours: string
let theirs: string
let tools: readonly string[]
const used = new Set<string>()
/** Our tool on one tree, and the reference tool on an equal one. */
let both: (own: readonly [string, object], other: readonly [string, object]) => Promise<readonly [Result, Result]>

beforeEach(async () => {
  const top = await realpath(temporaryFolder())
  for (const side of ['ours', 'theirs']) {
    await mkdir(join(top, side))
    await put(join(top, side), TREE)
    writeFileSync(join(top, side, 'p.png'), PNG)
    symlinkSync('/etc', join(top, side, 'out'))
  }
  ours = join(top, 'ours')
  theirs = join(top, 'theirs')
  const { app } = await startApp({
    exposure: { mode: 'direct' },
    modules: { filesystem: { config: { roots: [ours] } } },
    mcpServers: { reference: servers.filesystem(theirs) },
  })
  const client = await connectTo(app)
  const call = async (name: string, input: object) =>
    (await client.callTool({ name, arguments: input as Record<string, unknown> })) as unknown as Result
  // The tool list waits for the reference server to start.
  await expect
    .poll(async () => (await client.listTools()).tools.map(({ name }) => name), { timeout: 20_000 })
    .toContain('reference__edit_file')
  tools = (await client.listTools()).tools.flatMap(({ name }) =>
    name.startsWith('reference__') ? [name.slice('reference__'.length)] : [],
  )
  both = async ([own, input], [other, args]) => {
    used.add(`${other} ${own}`)
    return [await call(`filesystem__${own}`, input), await call(`reference__${other}`, args)] as const
  }
})

const onDisk = (dir: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(dir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .sort()
      .map((file) => [file.slice(dir.length + 1), readFileSync(file, 'latin1')]),
  )
const field = (result: Result, name: string): unknown =>
  (result.structuredContent ?? JSON.parse(result.content[0]?.text ?? '{}'))[name]
const text = (result: Result): string => result.content.map((block) => block.text ?? '').join('')
const at = (path: string): string => join(theirs, path)

describe('beside the reference server, with the same files', () => {
  it('reads the same text: whole, head, tail, several files, an image', async () => {
    for (const [own, other] of [
      [{}, {}],
      [{ limit: 2 }, { head: 2 }],
      // The reference counts the text after the last line break as a line.
      [{ tail: 2 }, { tail: 3 }],
    ]) {
      const [mine, yours] = await both(
        ['read', { path: 'a.txt', ...own }],
        ['read_text_file', { path: at('a.txt'), ...other }],
      )
      // The reference drops the last line break of a part.
      expect((field(mine, 'content') as string).trimEnd()).toBe(text(yours).trimEnd())
    }
    const [whole, old] = await both(['read', { path: 'b.md' }], ['read_file', { path: at('b.md') }])
    expect([field(whole, 'content'), text(old)]).toEqual(['ünïcode\n', 'ünïcode\n'])
    const [many, several] = await both(
      ['read_many', { paths: ['a.txt', 'none', 'b.md'] }],
      ['read_multiple_files', { paths: [at('a.txt'), at('none'), at('b.md')] }],
    )
    const files = field(many, 'files') as { content?: string; error?: string }[]
    expect(files.map((file) => file.content ?? 'failed')).toEqual(['one\ntwo\nthree\n', 'failed', 'ünïcode\n'])
    expect(text(several)).toContain('ünïcode\n')
    const [shown, image] = await both(['read', { path: 'p.png' }], ['read_media_file', { path: at('p.png') }])
    const picture = { type: 'image', data: PNG.toString('base64'), mimeType: 'image/png' }
    expect(shown.content).toContainEqual(picture)
    expect(image.content).toContainEqual(picture)
  })

  it('lists and finds the same names, except links that lead out', async () => {
    const [listed, directory] = await both(['ls', {}], ['list_directory', { path: theirs }])
    const names = (field(listed, 'entries') as { path: string }[]).map((entry) => entry.path)
    expect(names).toEqual(['a.txt', 'b.md', 'out', 'p.png', 'src'])
    expect(
      text(directory)
        .split('\n')
        .map((line) => line.replace(/^\[\w+\] /, ''))
        .sort(),
    ).toEqual(names)
    const [found, searched] = await both(
      ['find', { pattern: '**/*.ts' }],
      ['search_files', { path: theirs, pattern: '**/*.ts' }],
    )
    expect((field(found, 'paths') as string[]).map((path) => join(theirs, path)).sort()).toEqual(
      text(searched).split('\n').sort(),
    )
    const [facts, info] = await both(['stat', { path: 'a.txt' }], ['get_file_info', { path: at('a.txt') }])
    expect(text(info)).toContain(`size: ${field(facts, 'size')}`)
    expect(text(info)).toContain(`permissions: ${field(facts, 'mode')}`)
  })

  it('makes the same changes', async () => {
    for (const [own, other] of [
      [
        ['write', { path: 'n.txt', content: 'new' }],
        ['write_file', { path: at('n.txt'), content: 'new' }],
      ],
      [
        ['mkdir', { path: 'made/of/three' }],
        ['create_directory', { path: at('made/of/three') }],
      ],
      [
        ['edit', { path: 'src/main.ts', old: 'const b = 2', new: 'const b = 3' }],
        ['edit_file', { path: at('src/main.ts'), edits: [{ oldText: 'const b = 2', newText: 'const b = 3' }] }],
      ],
      [
        ['mv', { from: 'b.md', to: 'made/b.md' }],
        ['move_file', { source: at('b.md'), destination: at('made/b.md') }],
      ],
    ] as const)
      for (const result of await both(own, other)) expect(result.isError ?? false, text(result)).toBe(false)
    expect(onDisk(ours)).toEqual(onDisk(theirs))
    expect(Object.keys(onDisk(ours))).toContain('made/b.md')
  })

  it('refuses the same: paths outside, missing and existing files', async () => {
    for (const path of ['../x', 'out/passwd', 'none'])
      for (const result of await both(['read', { path }], ['read_text_file', { path: at(path) }]))
        expect(result.isError, path).toBe(true)
    for (const result of await both(
      ['mv', { from: 'a.txt', to: 'b.md' }],
      ['move_file', { source: at('a.txt'), destination: at('b.md') }],
    ))
      expect(result.isError).toBe(true)
  })

  it('asks where the reference guesses: an ambiguous edit; and refuses to write files that start programs', async () => {
    const [mine, yours] = await both(
      ['edit', { path: 'src/main.ts', old: 'const', new: 'let' }],
      ['edit_file', { path: at('src/main.ts'), edits: [{ oldText: 'const', newText: 'let' }] }],
    )
    expect([mine.isError, yours.isError ?? false]).toEqual([true, false])
    const [hook, theirHook] = await both(
      ['write', { path: '.bashrc', content: 'x' }],
      ['write_file', { path: at('.bashrc'), content: 'x' }],
    )
    expect([hook.isError, theirHook.isError ?? false]).toEqual([true, false])
  })

  it('reports the same sizes, trees, exclusions and allowed folders', async () => {
    const [sized, theirSizes] = await both(
      ['ls', { details: true, sort: 'size' }],
      ['list_directory_with_sizes', { path: theirs, sortBy: 'size' }],
    )
    const files = (field(sized, 'entries') as { path: string; kind: string; size: number }[]).filter(
      ({ kind }) => kind === 'file',
    )
    expect(files.map(({ path, size }) => [path, size])).toEqual([
      ['p.png', 16],
      ['a.txt', 14],
      ['b.md', 10],
    ])
    for (const { path, size } of files) expect(text(theirSizes)).toMatch(new RegExp(`${path}\\s+${size} B`))
    const [tree, theirTree] = await both(
      ['tree', { depth: 9, exclude: ['*.png', 'out'] }],
      ['directory_tree', { path: theirs, excludePatterns: ['*.png', 'out'] }],
    )
    const flat = (nodes: { name: string; children?: [] }[], depth = 0): string[] =>
      nodes.flatMap(({ name, children }) => [
        `${'  '.repeat(depth)}${name}${children ? '/' : ''}`,
        ...flat(children ?? [], depth + 1),
      ])
    expect((field(tree, 'tree') as string).split('\n')).toEqual(flat(JSON.parse(text(theirTree))))
    const [found, searched] = await both(
      ['find', { pattern: '**/*.ts', exclude: ['**/deep/**'] }],
      ['search_files', { path: theirs, pattern: '**/*.ts', excludePatterns: ['**/deep/**'] }],
    )
    expect((field(found, 'paths') as string[]).map((path) => join(theirs, path))).toEqual(text(searched).split('\n'))
    const [here, allowed] = await both(['ls', {}], ['list_allowed_directories', {}])
    // Our root is ".", because its real path must not be revealed.
    expect([field(here, 'path'), text(allowed)]).toEqual(['.', expect.stringContaining(theirs)])
    expect(JSON.stringify(here)).not.toContain(ours)
  })

  it('makes several edits atomically, and can preview them', async () => {
    const edits = [
      { oldText: 'const a = 1', newText: 'let a = 1' },
      { oldText: 'const b = 2', newText: 'let b = 2' },
    ]
    const mine = {
      path: 'src/main.ts',
      old: 'const a = 1',
      new: 'let a = 1',
      more: [{ old: 'const b = 2', new: 'let b = 2' }],
    }
    const before = onDisk(ours)
    const [dry, theirDry] = await both(
      ['edit', { ...mine, dry_run: true }],
      ['edit_file', { path: at('src/main.ts'), edits, dryRun: true }],
    )
    const changed = (diff: string): string[] => diff.split('\n').filter((line) => /^[-+] ?[^-+]/.test(line))
    const expected = ['-const a = 1', '-const b = 2', '+let a = 1', '+let b = 2']
    expect([changed(field(dry, 'diff') as string), changed(text(theirDry))]).toEqual([expected, expected])
    expect([onDisk(ours), onDisk(theirs)]).toEqual([before, before])
    const [wrong, theirWrong] = await both(
      ['edit', { ...mine, more: [{ old: 'nowhere', new: '' }] }],
      ['edit_file', { path: at('src/main.ts'), edits: [edits[0], { oldText: 'nowhere', newText: '' }] }],
    )
    expect([wrong.isError, theirWrong.isError, onDisk(ours), onDisk(theirs)]).toEqual([true, true, before, before])
    await both(['edit', mine], ['edit_file', { path: at('src/main.ts'), edits }])
    expect(onDisk(ours)['src/main.ts']).toBe('let a = 1\nlet b = 2\n')
    expect(onDisk(ours)).toEqual(onDisk(theirs))
  })

  it('replaces all of its tools', () => {
    expect([...tools].sort()).toEqual(Object.keys(TOOLS).sort())
    expect(Object.entries(TOOLS).filter((pair) => !used.has(pair.join(' ')))).toEqual([])
  })
})
