import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseIgnoreRules } from '../../modules/filesystem/ignored.ts'
import { localCaller } from '../../src/core/caller.ts'
import { postModern } from '../client.ts'
import { put } from '../loader/setup.ts'
import { place, serveHttp } from '../process.ts'
import { filesWith } from './files.ts'

describe('the end of a file', () => {
  it('is read backwards, however long the file is', async () => {
    const { call, root } = await filesWith({
      'a.txt': 'one\ntwo\nthree',
      'long.log': `${'x'.repeat(300_000)}\n`.repeat(3),
      'wide.log': 'ä'.repeat(1_000_000),
    })
    expect(await call('read', { path: 'a.txt', tail: 2 })).toMatchObject({
      content: 'two\nthree',
      lines: 2,
      truncated: true,
    })
    expect(await call('read', { path: 'a.txt', tail: 3 })).toMatchObject({
      content: 'one\ntwo\nthree',
      lines: 3,
      truncated: false,
    })
    expect(await call('read', { path: 'a.txt', tail: 9 })).toMatchObject({ lines: 3, truncated: false })
    const long = (await call('read', { path: 'long.log', tail: 1 })) as { content: string }
    expect(long.content).toBe(`${'x'.repeat(300_000)}\n`)
    const wide = (await call('read', { path: 'wide.log', tail: 1 })) as { content: string; truncated: boolean }
    expect([/^ä+$/.test(wide.content), wide.truncated]).toEqual([true, true])
    await writeFile(join(root, 'led.txt'), '\nabc\n')
    expect(await call('read', { path: 'led.txt', tail: 1 })).toMatchObject({
      content: 'abc\n',
      lines: 1,
      truncated: true,
    })
    expect(await call('read', { path: 'led.txt', tail: 2 })).toMatchObject({ content: '\nabc\n', lines: 2 })
    await writeFile(join(root, 'empty'), '')
    expect(await call('read', { path: 'empty', tail: 1 })).toMatchObject({ content: '', lines: 0, truncated: false })
    await expect(call('read', { path: 'a.txt', tail: 1, offset: 1 })).rejects.toMatchObject({ code: 'E_VALIDATION' })
  })
})

describe('lines far inside a file', () => {
  it('are found without decoding what precedes them', async () => {
    const { call } = await filesWith({ 'n.txt': Array.from({ length: 200_000 }, (_, line) => `é ${line}\n`).join('') })
    expect(await call('read', { path: 'n.txt', offset: 150_000, limit: 2 })).toMatchObject({
      content: 'é 150000\né 150001\n',
      next_offset: 150_002,
    })
  })
})

describe('images and audio', () => {
  it('are recognized whatever their names, and not treated as text', async () => {
    const { call, root, sent } = await filesWith()
    const png = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')
    await writeFile(join(root, 'p.txt'), png)
    expect(await call('read', { path: 'p.txt' })).toMatchObject({ media: 'image/png', content: '', size: 16 })
    expect(sent).toEqual([{ data: png, filename: 'p.txt', mimetype: 'image/png' }])
    await writeFile(join(root, 'fake.png'), Buffer.from([0, 1]))
    expect(await call('read', { path: 'fake.png' })).toMatchObject({ binary: true })
    expect(sent).toHaveLength(1)
  })
})

describe('several files', () => {
  it('are read together, each with its own error', async () => {
    const { call } = await filesWith({ 'a.txt': 'A', 'b.txt': 'B\n', '.env': 'K=1' })
    expect(await call('read_many', { paths: ['a.txt', 'no', 'b.txt', '.env', '../x'] })).toEqual({
      files: [
        { path: 'a.txt', content: 'A', size: 1, truncated: false },
        { path: 'no', error: "'no' does not exist." },
        { path: 'b.txt', content: 'B\n', size: 2, truncated: false },
        { path: '.env', error: "'.env' is protected: it is always refused." },
        { path: '../x', error: "'../x' is outside the allowed folders (modules.filesystem.config.roots)." },
      ],
      count: 5,
    })
  })
})

describe('edit', () => {
  it('replaces one occurrence, or all, and says if there is none or more than one', async () => {
    const { call, root } = await filesWith({ 'a.ts': 'let a = 1\nlet b = 1\n', 'crlf.txt': 'x\r\ny\r\n' })
    await expect(call('edit', { path: 'a.ts', old: '= 1', new: '= 2' })).rejects.toMatchObject({
      code: 'E_VALIDATION',
      message: "The old text occurs 2 times in 'a.ts'.",
    })
    await expect(call('edit', { path: 'a.ts', old: 'nope', new: '' })).rejects.toMatchObject({ code: 'E_VALIDATION' })
    expect(await call('edit', { path: 'a.ts', old: 'b = 1', new: 'b = $& 3' })).toEqual({
      path: 'a.ts',
      bytes: 23,
      replaced: 1,
      line: 2,
    })
    expect(await call('edit', { path: 'a.ts', old: 'let', new: 'const', replace_all: true })).toMatchObject({
      replaced: 2,
    })
    expect(await readFile(join(root, 'a.ts'), 'utf8')).toBe('const a = 1\nconst b = $& 3\n')
    await call('edit', { path: 'crlf.txt', old: 'x\ny', new: 'x\nz' })
    expect(await readFile(join(root, 'crlf.txt'), 'utf8')).toBe('x\r\nz\r\n')
  })

  it('loses none of many concurrent edits', async () => {
    const { call, root } = await filesWith({ 'n.txt': Array.from({ length: 20 }, (_, n) => `<${n}>`).join('\n') })
    await Promise.all(
      Array.from({ length: 20 }, (_, n) => call('edit', { path: 'n.txt', old: `<${n}>`, new: `${n}!` })),
    )
    expect(await readFile(join(root, 'n.txt'), 'utf8')).toBe(Array.from({ length: 20 }, (_, n) => `${n}!`).join('\n'))
  })

  it('works on text only', async () => {
    const { call, root } = await filesWith()
    await writeFile(join(root, 'b'), Buffer.from([0x61, 0xff]))
    await expect(call('edit', { path: 'b', old: 'a', new: 'b' })).rejects.toMatchObject({
      message: "'b' is not UTF-8 text.",
    })
  })
})

describe('insert and undo', () => {
  it('insert lines, and undo changes one by one', async () => {
    const { call, root } = await filesWith({ 'a.md': 'one\ntwo' })
    const text = () => readFile(join(root, 'a.md'), 'utf8')
    expect(await call('insert', { path: 'a.md', line: 0, content: '# Top' })).toMatchObject({ line: 1, lines: 1 })
    await call('insert', { path: 'a.md', line: 3, content: 'three\n' })
    expect(await text()).toBe('# Top\none\ntwo\nthree\n')
    await expect(call('insert', { path: 'a.md', line: 9, content: 'x' })).rejects.toMatchObject({
      message: "'a.md' has no line 9.",
    })
    expect(await call('undo')).toEqual({ path: 'a.md', removed: false })
    expect(await text()).toBe('# Top\none\ntwo')
    expect(await call('undo', { path: 'a.md' })).toEqual({ path: 'a.md', removed: false })
    expect(await text()).toBe('one\ntwo')
    await expect(call('undo')).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
    await call('write', { path: 'new.md', content: 'x' })
    expect(await call('undo')).toEqual({ path: 'new.md', removed: true })
    await call('write', { path: 'a.md', content: 'mine' })
    await writeFile(join(root, 'a.md'), 'somebody else')
    await expect(call('undo')).rejects.toMatchObject({ message: "'a.md' was changed by another program since." })
  })
})

describe('undo for several principals', () => {
  const as = (principal: string) => ({ caller: { ...localCaller, principal } })

  it('undoes only own changes, and no other principal can push them out', async () => {
    const { found, root } = await filesWith({ 'a.md': 'one' })
    const run = (who: string, action: string, input: object) => found.run(`filesystem.${action}`, input, as(who))
    await run('ann', 'write', { path: 'a.md', content: 'two' })
    await expect(run('eve', 'undo', {})).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
    for (let n = 0; n < 60; n++) await run('eve', 'write', { path: `eve-${n}`, content: 'x' })
    expect(await run('ann', 'undo', {})).toEqual({ path: 'a.md', removed: false })
    expect(await readFile(join(root, 'a.md'), 'utf8')).toBe('one')
    // She still has her own last fifty.
    for (let n = 59; n >= 10; n--) expect(await run('eve', 'undo', {})).toEqual({ path: `eve-${n}`, removed: true })
    await expect(run('eve', 'undo', {})).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
  })

  it('keeps at most 128 MiB of previous contents, and takes the room from who has most', async () => {
    const { found } = await filesWith({ 'a.md': 'one' })
    const run = (who: string, action: string, input: object) => found.run(`filesystem.${action}`, input, as(who))
    await run('ann', 'write', { path: 'a.md', content: 'two' })
    const large = 'x'.repeat(1024 * 1024)
    const many = Array.from({ length: 4 }, (_, n) => `eve-${n}`)
    for (const who of many) for (let n = 0; n < 40; n++) await run(who, 'write', { path: who, content: large })
    expect(await run('ann', 'undo', {})).toEqual({ path: 'a.md', removed: false })
    let undone = 0
    for (const who of many)
      for (let n = 0; n < 40; n++)
        await run(who, 'undo', {}).then(
          () => undone++,
          () => undefined,
        )
    expect(undone).toBeGreaterThan(100)
    expect(undone).toBeLessThan(132)
  }, 60_000)

  it('is separate for two tokens over HTTP', async () => {
    const tokens = ['ann', 'eve'].map((principal) => ({ token: `a-token-that-${principal}-has`, principal }))
    const where = place({
      exposure: { mode: 'direct' },
      server: { http: { tokens } },
      modules: { filesystem: { config: { readonly: false, roots: ['files'] } } },
    })
    mkdirSync(join(where.dir, 'files'))
    writeFileSync(join(where.dir, 'files', 'a.md'), 'one')
    const { url } = await serveHttp(where)
    const call = async (who: number, name: string, args: object) =>
      (await postModern(url, String(tokens[who]?.token), 'tools/call', { name, arguments: args }, {})).result
    expect((await call(0, 'filesystem__write', { path: 'a.md', content: 'two' })).isError).toBeUndefined()
    for (let n = 0; n < 51; n++) await call(1, 'filesystem__write', { path: `eve-${n}`, content: 'x' })
    expect((await call(0, 'filesystem__undo', {})).structuredContent).toEqual({ path: 'a.md', removed: false })
    expect(readFileSync(join(where.dir, 'files', 'a.md'), 'utf8')).toBe('one')
  }, 60_000)
})

describe('mv, cp and rm', () => {
  it('move, copy and remove, and replace nothing unless asked [DIG-91]', async () => {
    const { call, root } = await filesWith({
      'a.txt': 'A',
      'd/b.txt': 'B',
      'd/e/c.txt': 'C',
      'd/.env': 'K=1',
      'd/.git/config': '',
    })
    expect(await call('cp', { from: 'a.txt', to: 'x/a.txt' })).toEqual({
      from: 'a.txt',
      path: 'x/a.txt',
      replaced: false,
      files: 1,
    })
    await expect(call('cp', { from: 'a.txt', to: 'd/b.txt' })).rejects.toMatchObject({
      message: "'d/b.txt' exists already.",
    })
    await symlink('e', join(root, 'd/link'))
    expect(await call('cp', { from: 'd', to: 'copy' })).toEqual({
      from: 'd',
      path: 'copy',
      files: 2,
      skipped: ['d/.git', 'd/.git/config', 'd/link'],
    })
    expect(await call('find', { pattern: '**', path: 'copy' })).toMatchObject({
      paths: ['copy/b.txt', 'copy/e', 'copy/e/c.txt'],
    })
    for (const to of ['d/inner', './d/inner', 'd'])
      await expect(call('cp', { from: 'd', to }), to).rejects.toMatchObject({ code: 'E_VALIDATION' })
    expect(await call('mv', { from: 'a.txt', to: 'x/b.txt' })).toEqual({
      from: 'a.txt',
      path: 'x/b.txt',
      replaced: false,
    })
    expect(await call('mv', { from: 'x/b.txt', to: 'x/a.txt', overwrite: true })).toMatchObject({ replaced: true })
    expect(await call('rm', { path: 'copy', recursive: true })).toEqual({ path: 'copy', count: 4 })
    await expect(call('rm', { path: '.', recursive: true })).rejects.toMatchObject({ code: 'E_NOT_REGULAR_FILE' })
    expect(await call('exists', { path: 'copy' })).toEqual({ path: 'copy', exists: false })
    expect(await call('exists', { path: 'x/a.txt' })).toEqual({ path: 'x/a.txt', exists: true, kind: 'file' })
    expect(await call('stat', { path: 'x/a.txt' })).toMatchObject({
      path: 'x/a.txt',
      kind: 'file',
      size: 1,
      hard_links: 1,
    })
  })

  it('stat measures everything below a folder', async () => {
    const { call, root } = await filesWith({ 'd/a.txt': 'a', 'd/e/b.txt': 'bb', 'd/e/.env': 'denied', 'c.txt': 'c' })
    await symlink(join(root, 'c.txt'), join(root, 'd/link'))
    expect(await call('stat', { path: 'd' })).toMatchObject({
      kind: 'dir',
      size: 3,
      files: 2,
      folders: 1,
      truncated: false,
    })
  })
})

describe('files excluded by .gitignore', () => {
  it('are skipped by find, grep and tree, unless requested', async () => {
    const { call } = await filesWith({
      '.gitignore': '# made\n*.log\n/dist/\n!keep.log\nsub/only.txt\n',
      'a.log': 'word',
      'keep.log': 'word',
      'dist/x.txt': 'word',
      'sub/dist/x.txt': 'word',
      'sub/only.txt': 'word',
      'sub/.gitignore': 'x.*\n',
      'node_modules/m/i.txt': 'word',
    })
    const grep = async (input: object) =>
      ((await call('grep', { pattern: 'word', output_mode: 'files_with_matches', ...input })) as { files: string[] })
        .files
    expect(await grep({})).toEqual(['keep.log'])
    expect(await grep({ path: 'sub' })).toEqual([])
    expect(await grep({ ignored: true })).toEqual([
      'a.log',
      'dist/x.txt',
      'keep.log',
      'node_modules/m/i.txt',
      'sub/dist/x.txt',
      'sub/only.txt',
    ])
    expect(await call('find', { pattern: '*.{log,txt}' })).toMatchObject({ paths: ['keep.log'] })
    expect(await call('tree', { depth: 2 })).toEqual({
      path: '.',
      tree: 'keep.log\nnode_modules/…\nsub/\n  dist/…',
      folders: 3,
      files: 1,
      truncated: false,
    })
  })

  it.each([
    ['*.log', 'a/b.log', true],
    ['/a', 'b/a', false],
    ['a/*', 'a/b', true],
    ['**/x/y', 'q/x/y', true],
    ['a/**', 'a', false],
    ['a/**', 'a/b/c', true],
    ['\\!x', '!x', true],
    ['x{1,2}', 'x1', false],
    ['# c', '# c', false],
    ['\\#c', '#c', true],
    ['a[0-9]', 'd/a7', true],
  ])('%s and %s: %s', (line, path, fits) => {
    expect(parseIgnoreRules(line, '.').some((rule) => rule.matches(path))).toBe(fits)
  })
})

describe('the two folder aliases', () => {
  it('work in every tool, and their folders are created on first write', async () => {
    const { call, root } = await filesWith({ 'state/token': 'secret', 'a.txt': 'A' })
    expect(await call('exists', { path: 'file_state_dir/n.md' })).toMatchObject({ exists: false })
    expect(await call('write', { path: 'file_state_dir/notes/n.md', content: 'find me' })).toMatchObject({
      path: 'file_state_dir/notes/n.md',
      created: true,
    })
    expect(await readFile(join(root, 'state/files/notes/n.md'), 'utf8')).toBe('find me')
    expect(await call('read', { path: join(root, 'state/files/notes/n.md') })).toMatchObject({
      path: 'file_state_dir/notes/n.md',
    })
    expect(await call('ls', { path: 'file_state_dir', recursive: true })).toMatchObject({
      entries: [{ path: 'file_state_dir/notes' }, { path: 'file_state_dir/notes/n.md' }],
    })
    expect(await call('grep', { pattern: 'find', path: 'file_state_dir' })).toMatchObject({
      matches: [{ path: 'file_state_dir/notes/n.md', line: 1 }],
    })
    expect(await call('mv', { from: 'a.txt', to: 'file_cache_dir/a.txt' })).toMatchObject({
      path: 'file_cache_dir/a.txt',
    })
    expect(await call('cp', { from: 'file_cache_dir/a.txt', to: 'b.txt' })).toMatchObject({ path: 'b.txt' })
    expect(await call('edit', { path: 'file_cache_dir/a.txt', old: 'A', new: 'B' })).toMatchObject({ replaced: 1 })
    await mkdir(join(root, 'x'))
    await put(root, { 'x/y': '' })
    await expect(call('read', { path: 'state/token' })).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
    await symlink(join(root, 'state/token'), join(root, 'state/files/t'))
    await expect(call('read', { path: 'file_state_dir/t' })).rejects.toMatchObject({ code: 'E_PATH_OUTSIDE_ROOT' })
  })

  it('need a path after them, and say so with fixed wording [MOR-04]', async () => {
    const { call } = await filesWith({}, { file_cache_dir: '' })
    for (const path of ['file_state_dir', 'file_state_dir/'])
      await expect(call('read_file', { path }), path).rejects.toMatchObject({
        message: 'invalid path: alias requires a relative file path (for example: file_state_dir/notes/todo.md)',
      })
    await expect(call('read_file', { path: 'file_state_dir/../x' })).rejects.toMatchObject({
      code: 'E_PATH_OUTSIDE_ROOT',
      message: 'refusing to read outside allowed base dir file_state_dir',
    })
    await expect(call('read_file', { path: 'file_cache_dir/x' })).rejects.toMatchObject({
      message: 'base dir file_cache_dir is not configured',
    })
  })

  it('never give access to the state folder itself', async () => {
    const { call } = await filesWith({ 'state/token': 'secret' }, { file_state_dir: '{{state_dir}}' })
    await expect(call('read', { path: 'file_state_dir/token' })).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
    expect(await call('ls', { path: 'file_state_dir' }).catch(({ code }) => code)).toBe('E_PATH_DENIED')
  })
})
