import { mkdir, readFile, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { filesWith } from './files.ts'

const problems = (found: Awaited<ReturnType<typeof filesWith>>['found'], id: string, input: unknown) => {
  const parsed = found.tool(id).parse(input)
  return parsed.ok ? [] : parsed.issues.map(({ message }) => message)
}

describe('read_file', () => {
  it('returns text, cut at 256 KiB between characters and marked [MOR-06]', async () => {
    const { call, found } = await filesWith({
      'a.txt': 'hällo',
      'big.txt': 'x'.repeat(300 * 1024),
      'cut.txt': `x${'€'.repeat(100_000)}`,
    })
    expect(await call('read_file', { path: 'a.txt' })).toEqual({ path: 'a.txt', content: 'hällo', truncated: false })
    expect(await call('read_file', { path: 'big.txt' })).toEqual({
      path: 'big.txt',
      content: `${'x'.repeat(262_144)}\n[truncated: the first 262144 of 307200 bytes]`,
      truncated: true,
    })
    expect(await call('read_file', { path: 'cut.txt' })).toEqual({
      path: 'cut.txt',
      content: `x${'€'.repeat(87_381)}\n[truncated: the first 262144 of 300001 bytes]`,
      truncated: true,
    })
    expect(problems(found, 'filesystem.read_file', {})).toEqual(['missing required param: path'])
    await expect(call('read_file', { path: '/etc/passwd' })).rejects.toMatchObject({ code: 'E_PATH_OUTSIDE_ROOT' })
  })

  it('denies names in any folder, and links to them, naming the rule [MOR-07]', async () => {
    const { call, root } = await filesWith(
      { 'x/config.yaml': 'k: v', 'myconfig.yaml': 'ok', 'secrets/a': 's' },
      { denied_paths: ['secrets'] },
    )
    await symlink(join(root, 'x/config.yaml'), join(root, 'plain.txt'))
    expect(await call('read_file', { path: 'myconfig.yaml' })).toMatchObject({ content: 'ok' })
    const message = async (path: string) => await call('read_file', { path }).catch((error: Error) => error.message)
    expect(await message('./x/config.yaml')).toBe('read_file denied for path "./x/config.yaml" (matched "config.yaml")')
    expect(await message('plain.txt')).toBe('read_file denied for path "plain.txt" (matched "config.yaml")')
    expect(await message('.env')).toBe('read_file denied for path ".env" (matched ".env")')
    expect(await message('secrets/a')).toBe('read_file denied for path "secrets/a" (matched "denied_paths")')
  })
})

describe('write_file', () => {
  it('writes into its two folders only, with fixed wording [MOR-08]', async () => {
    const { call, root, found } = await filesWith({ 'a.txt': '' })
    expect(await call('write_file', { path: 'notes/n.md', content: 'é' })).toEqual({
      path: 'file_cache_dir/notes/n.md',
      abs_path: join(root, 'cache/files/notes/n.md'),
      base_dir: 'file_cache_dir',
      bytes: 2,
      mode: 'overwrite',
      max_bytes: 524_288,
    })
    expect((await stat(join(root, 'cache/files'))).mode & 0o777).toBe(0o700)
    for (const content of ['one ', 'two'])
      await call('write_file', { path: 'file_state_dir/log', content, mode: 'append' })
    expect(await readFile(join(root, 'state/files/log'), 'utf8')).toBe('one two')
    expect(await call('write_file', { path: 'empty', content: '' })).toMatchObject({ bytes: 0 })
    for (const path of [join(root, 'a.txt'), '../x', 'file_state_dir/../token', '/etc/passwd'])
      await expect(call('write_file', { path, content: 'x' }), path).rejects.toMatchObject({
        code: 'E_PATH_OUTSIDE_ROOT',
        message: 'refusing to write outside allowed base dirs (file_cache_dir, file_state_dir)',
      })
    await expect(call('write_file', { path: 'x', content: 'é'.repeat(262_145) })).rejects.toMatchObject({
      message: 'content too large (524290 bytes > 524288 max)',
    })
    const of = (input: unknown) => problems(found, 'filesystem.write_file', input)
    expect(of({ path: 'x' })).toEqual(['missing required param: content'])
    expect(of({ content: 'x' })).toEqual(['missing required param: path'])
    expect(of({ path: 'x', content: '', mode: 'prepend' })).toEqual([
      'invalid mode: prepend (expected overwrite|append)',
    ])
  })

  it('rejects a folder that is a link', async () => {
    const { call, root } = await filesWith()
    await mkdir(join(root, 'cache'))
    await mkdir(join(root, 'elsewhere'))
    await symlink(join(root, 'elsewhere'), join(root, 'cache/files'))
    await expect(call('write_file', { path: 'x', content: 'x' })).rejects.toMatchObject({
      message: 'base dir file_cache_dir is a symbolic link',
    })
  })
})
