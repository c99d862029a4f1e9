import { mkdir, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import filesystem from '../../modules/filesystem/index.ts'
import { localCaller } from '../../src/core/caller.ts'
import { keepsTheContract } from '../contract/module.ts'
import { type Bench, bench, tempDir } from '../loader/setup.ts'
import { bundledDirs, startModule } from './start-module.ts'

keepsTheContract(filesystem)

let found: Bench
let root: string

/** The module over a folder of files; `config` as in the configuration file. */
async function open(files: Readonly<Record<string, string>> = {}, config: Record<string, unknown> = {}): Promise<void> {
  const started = await startModule('filesystem', { readonly: false, ...config }, files)
  found = started
  root = started.root
}
const call = (action: string, input: unknown = {}): Promise<unknown> => found.run(`filesystem.${action}`, input)

describe('read', () => {
  beforeEach(() =>
    open({
      'a.txt': 'one\ntwo\nthree\n',
      'crlf.txt': 'x\r\ny',
      'empty.txt': '',
      'umlaut.txt': 'ä€😀\n'.repeat(40_000),
    }),
  )

  it('returns text unchanged, whole or by lines', async () => {
    expect(await call('read', { path: 'a.txt' })).toEqual({
      path: 'a.txt',
      content: 'one\ntwo\nthree\n',
      lines: 3,
      size: 14,
      mtime: expect.stringMatching(/^20.*Z$/),
      truncated: false,
    })
    expect(await call('read', { path: 'a.txt', offset: 1, limit: 1 })).toMatchObject({
      content: 'two\n',
      lines: 1,
      truncated: true,
      next_offset: 2,
    })
    expect(await call('read', { path: 'a.txt', offset: 2, numbered: true })).toMatchObject({
      content: '3\tthree\n',
      truncated: false,
    })
    expect(await call('read', { path: 'crlf.txt' })).toMatchObject({ content: 'x\r\ny', lines: 2 })
    expect(await call('read', { path: 'empty.txt' })).toMatchObject({ content: '', lines: 0, truncated: false })
    expect(await call('read', { path: 'a.txt', offset: 99 })).toMatchObject({ content: '', lines: 0, truncated: false })
  })

  it('keeps characters whole across chunks', async () => {
    const got = (await call('read', { path: 'umlaut.txt', offset: 20_000 })) as { content: string }
    expect(got.content).toBe('ä€😀\n'.repeat(2_000))
  })

  it('returns the beginning of a huge file, and marks a binary one', async () => {
    await truncate(join(root, 'huge.txt'), 0).catch(() =>
      writeFile(join(root, 'huge.txt'), `${'line\n'.repeat(20_000)}`),
    )
    await truncate(join(root, 'huge.txt'), 5_000_000_000)
    expect(await call('read', { path: 'huge.txt' })).toMatchObject({
      lines: 2000,
      size: 5_000_000_000,
      truncated: true,
      next_offset: 2000,
    })
    await writeFile(join(root, 'long.txt'), 'x'.repeat(3_000_000))
    const long = (await call('read', { path: 'long.txt' })) as { content: string; truncated: boolean }
    expect([long.content.length, long.truncated]).toEqual([1024 * 1024, true])
    await writeFile(join(root, 'picture.bin'), Buffer.from([1, 0, 2]))
    expect(await call('read', { path: 'picture.bin' })).toMatchObject({ binary: true, content: '', size: 3 })
    expect(await call('read', { path: 'picture.bin', encoding: 'base64' })).toMatchObject({
      content: 'AQAC',
      encoding: 'base64',
      truncated: false,
    })
  })

  it('hides the encoding parameter, which still works [DIG-28]', async () => {
    expect(await call('read', { path: 'crlf.txt', encoding: 'base64' })).toMatchObject({ content: 'eA0KeQ==' })
    const { json } = found.tool('filesystem.read').input
    expect(Object.keys(json['properties'] as object)).toEqual(['path', 'offset', 'limit', 'tail', 'numbered'])
  })
})

describe('ls and find', () => {
  beforeEach(() =>
    open({
      'a.md': '',
      '.hidden': '',
      'src/b.ts': '',
      'src/deep/c.test.ts': '',
      'node_modules/x/y.ts': '',
      'src/.cache/z.ts': '',
      '.env': 'K=1',
    }),
  )

  it('list a folder, and everything below it', async () => {
    expect(await call('ls')).toEqual({
      path: '.',
      entries: [
        { path: 'a.md', kind: 'file' },
        { path: 'node_modules', kind: 'dir' },
        { path: 'src', kind: 'dir' },
      ],
      count: 3,
      truncated: false,
    })
    const all = (await call('ls', { path: 'src', recursive: true, show_hidden: true })) as {
      entries: { path: string }[]
    }
    expect(all.entries.map((entry) => entry.path)).toEqual([
      'src/.cache',
      'src/.cache/z.ts',
      'src/b.ts',
      'src/deep',
      'src/deep/c.test.ts',
    ])
    expect(await call('ls', { limit: 1 })).toMatchObject({ count: 1, truncated: true })
    await expect(call('ls', { path: 'a.md' })).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
  })

  it('find names anywhere, paths below the folder, and nothing denied', async () => {
    const paths = async (input: object) => ((await call('find', input)) as { paths: string[] }).paths
    expect(await paths({ pattern: '*.ts' })).toEqual(['src/.cache/z.ts', 'src/b.ts', 'src/deep/c.test.ts'])
    expect(await paths({ pattern: 'deep/*.ts', path: 'src' })).toEqual(['src/deep/c.test.ts'])
    expect(await paths({ pattern: '**/*.{md,test.ts}' })).toEqual(['a.md', 'src/deep/c.test.ts'])
    expect(await paths({ pattern: 'd*', type: 'dir' })).toEqual(['src/deep'])
    expect(await paths({ pattern: '.env' })).toEqual([])
    expect(await call('find', { pattern: '*', max_results: 2 })).toMatchObject({ count: 2, truncated: true })
    await expect(call('find', { pattern: '{a,b}'.repeat(9) })).rejects.toMatchObject({ code: 'E_VALIDATION' })
  })

  it('find suggests a glob if a plain word matches no whole name', async () => {
    const warningsFor = async (pattern: string): Promise<readonly string[]> => {
      const warnings: string[] = []
      await found.run('filesystem.find', { pattern }, { warn: (text) => void warnings.push(text) })
      return warnings
    }
    expect(await warningsFor('test')).toEqual([
      '"test" matches only this exact name. For names that contain it, use "*test*".',
    ])
    expect(await warningsFor('deep')).toEqual([])
    expect(await warningsFor('*.nothing')).toEqual([])
  })
})

describe('grep', () => {
  beforeEach(() =>
    open({
      'a.ts': 'const a = 1\n// ünïcode 😀\nconst b = a\r\nlast',
      'b.md': 'Const\nstart\nend\n',
      'sub/c.ts': 'export const c = 3\n',
    }),
  )
  const lines = async (input: object) =>
    ((await call('grep', input)) as { matches: { path: string; line: number }[] }).matches.map(
      ({ path, line }) => `${path}:${line}`,
    )

  it('returns lines with their numbers, also after multi-byte characters', async () => {
    expect(await call('grep', { pattern: 'const b' })).toEqual({
      matches: [{ path: 'a.ts', line: 3, text: 'const b = a' }],
      count: 1,
      truncated: false,
    })
    expect(await lines({ pattern: 'const' })).toEqual(['a.ts:1', 'a.ts:3', 'sub/c.ts:1'])
    expect(await lines({ pattern: '^const \\w =' })).toEqual(['a.ts:1', 'a.ts:3'])
    expect(await lines({ pattern: 'CONST', ignore_case: true })).toEqual(['a.ts:1', 'a.ts:3', 'b.md:1', 'sub/c.ts:1'])
    expect(await lines({ pattern: 'a = 1', literal: true, path: 'a.ts' })).toEqual(['a.ts:1'])
    expect(await lines({ pattern: 'start$.end', multiline: true })).toEqual(['b.md:2'])
    expect(await lines({ pattern: 'const', include: '*.md', ignore_case: true })).toEqual(['b.md:1'])
  })

  it('shows context, files or counts', async () => {
    expect(await call('grep', { pattern: 'start', context: 1 })).toMatchObject({
      matches: [{ line: 2, text: 'start', before: ['Const'], after: ['end'] }],
    })
    expect(await call('grep', { pattern: 'const', output_mode: 'files_with_matches' })).toMatchObject({
      files: ['a.ts', 'sub/c.ts'],
    })
    expect(await call('grep', { pattern: 'const', output_mode: 'count' })).toMatchObject({
      counts: [
        { path: 'a.ts', count: 2 },
        { path: 'sub/c.ts', count: 1 },
      ],
      count: 3,
    })
    expect(await call('grep', { pattern: 'const', max_results: 1 })).toMatchObject({ count: 1, truncated: true })
  })

  it('skips binary and too large files, and says how many', async () => {
    await writeFile(join(root, 'x.bin'), Buffer.from('const\0'))
    expect(await call('grep', { pattern: 'export' })).toMatchObject({ count: 1, skipped_files: 1 })
  })

  it('returns the number of matches before them, because a long result is cut', async () => {
    const found = (await call('grep', { pattern: 'const' })) as object
    expect(Object.keys(found)).toEqual(['count', 'truncated', 'matches'])
  })
})

describe('without configured roots', () => {
  const offered = (settings: Record<string, unknown>) =>
    filesystem.tools['write']?.available?.({
      config: { workspace: '/w', ...settings },
      caller: localCaller,
      nameOf: () => undefined,
    } as never)

  it('nothing can be written, and writing tools do not exist', () => {
    expect(offered({})).toBe('set modules.filesystem.config.roots to allow writing')
    expect(offered({ roots: ['/w'], readonly: true })).toBe('modules.filesystem.config.readonly is true')
    expect(offered({ roots: ['/w'] })).toBe(true)
    expect(offered({ readonly: false })).toBe(true)
  })

  it('a misspelled setting is an error', async () => {
    root = await tempDir({})
    const vars = { workspace: root, state_dir: join(root, 'state'), cache_dir: join(root, 'cache'), env: {} }
    found = await bench(
      {},
      { bundledDirs, autoload: false, settings: { filesystem: { config: { readOnly: true } } }, vars },
    )
    const { failed } = await found.loader.start()
    expect(failed).toMatchObject([{ code: 'E_MODULE_CONFIG', error: expect.stringContaining('readOnly') }])
  })
})

describe('write and mkdir', () => {
  it('create, replace and append, and read back unchanged [DIG-91]', async () => {
    await open({ 'word.txt': 'ä\nfind me\n' })
    expect(await call('write', { path: 'new/dir/a.txt', content: 'één\r\n' })).toEqual({
      path: 'new/dir/a.txt',
      bytes: 7,
      created: true,
      appended: false,
    })
    expect(await call('write', { path: 'new/dir/a.txt', content: 'two', append: true })).toMatchObject({
      created: false,
      appended: true,
    })
    expect(await call('read', { path: 'new/dir/a.txt' })).toMatchObject({ content: 'één\r\ntwo' })
    expect(await call('mkdir', { path: 'p/q' })).toEqual({ path: 'p/q', created: true })
    expect(await call('ls', { path: 'p' })).toMatchObject({ entries: [{ path: 'p/q', kind: 'dir' }] })
    expect(await call('find', { pattern: 'a.txt' })).toMatchObject({ paths: ['new/dir/a.txt'] })
    expect(await call('grep', { pattern: 'find me' })).toMatchObject({ matches: [{ line: 2 }] })
    await symlink('/etc', join(root, 'out'))
    for (const path of ['../x', 'out/passwd', '/etc/passwd']) {
      await expect(call('read', { path }), path).rejects.toMatchObject({ code: 'E_PATH_OUTSIDE_ROOT' })
      await expect(call('write', { path, content: '' }), path).rejects.toMatchObject({ code: 'E_PATH_OUTSIDE_ROOT' })
    }
  })

  it('follow the configuration', async () => {
    await open({}, { readonly: true })
    await expect(call('write', { path: 'a', content: '' })).rejects.toMatchObject({ code: 'E_READ_ONLY' })
    await expect(call('mkdir', { path: 'a' })).rejects.toMatchObject({ code: 'E_READ_ONLY' })
    await open({}, { max_file_size: 4 })
    await expect(call('write', { path: 'a', content: '12345' })).rejects.toMatchObject({ code: 'E_TOO_LARGE' })
    const other = await tempDir({ 'o.txt': 'other' })
    await open({ 'data/a.txt': 'x' }, { roots: ['data'], allowed_paths: [other] })
    expect(await call('read', { path: 'a.txt' })).toMatchObject({ content: 'x' })
    expect(await call('read', { path: join(other, 'o.txt') })).toMatchObject({
      content: 'other',
      path: join(other, 'o.txt'),
    })
    expect(await call('ls')).toMatchObject({ other_roots: [other] })
  })

  it("never touch Pegboard's own files", async () => {
    await open({ 'state/token': 'secret', 'modules/mine.mjs': '// mine', 'mcp.config.json': '{}' }, { deny_names: [] })
    await expect(call('read', { path: 'state/token' })).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
    await expect(call('read', { path: 'mcp.config.json' })).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
    expect(await call('read', { path: 'modules/mine.mjs' })).toMatchObject({ content: '// mine' })
    for (const path of ['state/token', 'modules/mine.mjs', 'modules/new.mjs', 'mcp.config.json'])
      await expect(call('write', { path, content: 'x' }), path).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
    expect(await call('ls')).toMatchObject({ entries: [{ path: 'modules', kind: 'dir' }] })
    await mkdir(join(root, 'ok'))
  })

  it('say what refuses a path: a setting, or a fixed rule', async () => {
    await open(
      { '.env': 'K=1', 'a/private': 'x', 'b/x': 'x', 'mcp.config.json': '{}', '.git/config': '' },
      { deny_names: ['private'], denied_paths: ['b'] },
    )
    const said = (verb: string, path: string) =>
      call(verb, { path, ...(verb === 'write' && { content: 'x' }) }).catch(({ message }) => message)
    expect(await call('read', { path: '.git/config' })).toMatchObject({ content: '' })
    expect([
      await said('rm', '.env'),
      await said('rm', 'mcp.config.json'),
      await said('rm', 'a/private'),
      await said('rm', 'b/x'),
      await said('write', '.git/x'),
    ]).toEqual([
      "'.env' is protected: it is always refused.",
      "'mcp.config.json' is protected: it is always refused.",
      "'a/private' is protected (modules.filesystem.config.deny_names).",
      "'b/x' is protected (modules.filesystem.config.denied_paths).",
      "'.git/x' is protected: it may be read, never written.",
    ])
  })

  it('are listed only for folders', async () => {
    await open({ 'a.txt': 'x' })
    for (const more of [{}, { recursive: true }])
      await expect(call('ls', { path: 'a.txt', ...more })).rejects.toMatchObject({
        code: 'E_NOT_FOUND',
        message: "'a.txt' is a file, not a folder.",
        hint: 'Name a folder; for a file there are read and stat.',
      })
    await expect(call('ls', { path: 'a.txt/b' })).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
  })

  it('never touch them through the real path of a linked folder either', async () => {
    const top = await tempDir({
      'real/state/token': 'secret',
      'real/pegboard.json': '{}',
      'real/modules/mine.mjs': '//',
    })
    const home = join(top, 'home')
    await symlink(join(top, 'real'), home)
    found = await bench(
      {},
      {
        bundledDirs,
        modulesDir: join(home, 'modules'),
        autoload: false,
        settings: { filesystem: { config: { roots: ['{{workspace}}'] } } },
        vars: {
          workspace: home,
          state_dir: join(home, 'state'),
          cache_dir: join(home, 'cache'),
          config_file: join(home, 'pegboard.json'),
          env: {},
        },
      },
    )
    expect((await found.loader.start()).failed).toEqual([])
    for (const dir of ['', home, join(top, 'real')]) {
      for (const name of ['state/token', 'pegboard.json'])
        await expect(call('read', { path: join(dir, name) })).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
      for (const name of ['state/token', 'pegboard.json', 'modules/new.mjs'])
        await expect(call('write', { path: join(dir, name), content: '' })).rejects.toMatchObject({
          code: 'E_PATH_DENIED',
        })
    }
  })
})
