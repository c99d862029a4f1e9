import { link, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { createPaths, type Paths, type PathsOptions } from '../../src/policy/paths.ts'
import { tempDir } from '../loader/setup.ts'

let top: string
let root: string
beforeEach(async () => {
  top = await tempDir({
    'app/a.txt': 'alpha',
    'app/dir/b.txt': 'beta',
    'app/dir/deep/c.txt': 'gamma',
    'app/kept/.env': 'K=1',
    'app/repo/.git/config': 'x',
    'outside/o.txt': 'out',
  })
  root = join(top, 'app')
})
const over = (options: Partial<PathsOptions> = {}): Paths => createPaths({ roots: [root], ...options })
const refusal = (code: string) => expect.objectContaining({ code })

describe('removing', () => {
  it('deletes a file, an empty folder, or recursively a whole one', async () => {
    expect(await over().remove('a.txt')).toEqual({ path: 'a.txt', count: 1 })
    await expect(over().remove('dir')).rejects.toMatchObject({
      code: 'E_TOOL_FAILED',
      message: expect.stringContaining('not empty'),
    })
    expect(await over().remove('dir', { recursive: true })).toEqual({ path: 'dir', count: 4 })
    await expect(over().remove('dir')).rejects.toEqual(refusal('E_NOT_FOUND'))
    expect(await readdir(root)).toEqual(['kept', 'repo'])
  })

  it('deletes a link and not its target, and nothing outside', async () => {
    await symlink(join(root, 'dir'), join(root, 'link'))
    await symlink(join(top, 'outside'), join(root, 'dir', 'out'))
    expect(await over().remove('link', { recursive: true })).toEqual({ path: 'link', count: 1 })
    expect(await over().remove('dir', { recursive: true })).toMatchObject({ count: 5 })
    expect(await readFile(join(top, 'outside/o.txt'), 'utf8')).toBe('out')
    for (const path of ['../outside', '../outside/o.txt', join(top, 'outside')])
      await expect(over().remove(path, { recursive: true }), path).rejects.toEqual(refusal('E_PATH_OUTSIDE_ROOT'))
  })

  it('never deletes a root, nor a folder with a protected entry, of which nothing is touched', async () => {
    await writeFile(join(root, 'kept', 'a'), '')
    for (const path of ['.', root, 'dir/..'])
      await expect(over().remove(path, { recursive: true }), path).rejects.toEqual(refusal('E_NOT_REGULAR_FILE'))
    for (const path of ['kept', 'repo', 'repo/.git', 'kept/.env'])
      await expect(over().remove(path, { recursive: true }), path).rejects.toEqual(refusal('E_PATH_DENIED'))
    expect(await readdir(join(root, 'kept'))).toEqual(['.env', 'a'])
    await expect(over({ readonly: true }).remove('a.txt')).rejects.toEqual(refusal('E_READ_ONLY'))
    await expect(over({ writeRoots: [join(root, 'dir')] }).remove('a.txt')).rejects.toEqual(refusal('E_READ_ONLY'))
  })
})

describe('moving', () => {
  it('renames files and folders, and creates missing folders', async () => {
    expect(await over().move('a.txt', 'new/place/a.txt')).toEqual({ path: 'new/place/a.txt', created: true })
    expect(await over().move('dir', 'new/dir')).toEqual({ path: 'new/dir', created: true })
    expect(await readFile(join(root, 'new/dir/deep/c.txt'), 'utf8')).toBe('gamma')
  })

  it('replaces a file only if told to, and never a folder', async () => {
    await expect(over().move('a.txt', 'dir/b.txt')).rejects.toMatchObject({ message: "'dir/b.txt' exists already." })
    await expect(over().move('a.txt', 'dir', { overwrite: true })).rejects.toEqual(refusal('E_NOT_REGULAR_FILE'))
    await expect(over().move('dir', 'dir/deep/x')).rejects.toEqual(refusal('E_VALIDATION'))
    expect(await over().move('a.txt', 'dir/b.txt', { overwrite: true })).toMatchObject({ created: false })
    expect(await readFile(join(root, 'dir/b.txt'), 'utf8')).toBe('alpha')
  })

  it('moves nothing out or in, nor past a rule under its old or new name', async () => {
    await symlink(join(top, 'outside'), join(root, 'out'))
    for (const [from, to] of [
      ['a.txt', '../x'],
      ['a.txt', 'out/x'],
      ['out/o.txt', 'x'],
      ['../outside/o.txt', 'x'],
    ] as const)
      await expect(over().move(from, to), `${from} ${to}`).rejects.toEqual(refusal('E_PATH_OUTSIDE_ROOT'))
    await mkdir(join(root, 'plain'))
    await writeFile(join(root, 'plain/tasks.json'), '{}')
    for (const [from, to] of [
      ['kept/.env', 'x'],
      ['kept', 'x'],
      ['repo', 'x'],
      ['a.txt', '.env'],
      ['a.txt', '.bashrc'],
      ['plain', '.vscode'],
    ] as const)
      await expect(over().move(from, to), `${from} ${to}`).rejects.toEqual(refusal('E_PATH_DENIED'))
    expect((await stat(join(root, 'plain/tasks.json'))).isFile()).toBe(true)
  })
})

describe('file facts', () => {
  it('describe the real file inside the roots', async () => {
    expect(await over().stat('a.txt')).toMatchObject({
      path: 'a.txt',
      kind: 'file',
      size: 5,
      names: 1,
      mtime: expect.any(Date),
    })
    expect(await over().stat('.')).toMatchObject({ path: '.', kind: 'dir' })
    await symlink(join(root, 'dir'), join(root, 'link'))
    await symlink(join(top, 'outside'), join(root, 'out'))
    expect(await over().stat('link')).toMatchObject({ path: 'dir', kind: 'dir' })
    await link(join(root, 'a.txt'), join(root, 'again'))
    expect(await over().stat('again')).toMatchObject({ names: 2 })
    await expect(over().stat('out/o.txt')).rejects.toEqual(refusal('E_PATH_OUTSIDE_ROOT'))
    await expect(over().stat('kept/.env')).rejects.toEqual(refusal('E_PATH_DENIED'))
    await expect(over().stat('nope')).rejects.toEqual(refusal('E_NOT_FOUND'))
  })
})

describe('writing', () => {
  it('can require that the file is new, or unchanged since it was read', async () => {
    await expect(over().writeFile('a.txt', 'x', { exclusive: true })).rejects.toMatchObject({
      message: "'a.txt' exists already.",
    })
    const { size, mtime } = await over().stat('a.txt')
    await writeFile(join(root, 'a.txt'), 'somebody else')
    await expect(over().writeFile('a.txt', 'x', { expect: { size, mtime } })).rejects.toMatchObject({
      message: "'a.txt' was changed by another program meanwhile.",
    })
    expect(await readFile(join(root, 'a.txt'), 'utf8')).toBe('somebody else')
  })

  it('accepts a stream, and leaves nothing behind after a failure', async () => {
    async function* parts(fail: boolean) {
      yield Buffer.from('one ')
      if (fail) throw new Error('cut off')
      yield Buffer.from('two')
    }
    await over().writeFile('p.txt', parts(false), { mode: 0o700 })
    expect(await readFile(join(root, 'p.txt'), 'utf8')).toBe('one two')
    expect((await stat(join(root, 'p.txt'))).mode & 0o777).toBe(0o700)
    await expect(over().writeFile('p.txt', parts(true))).rejects.toThrow('cut off')
    expect(await readFile(join(root, 'p.txt'), 'utf8')).toBe('one two')
    expect((await readdir(root)).filter((name) => name.includes('.tmp'))).toEqual([])
  })
})
