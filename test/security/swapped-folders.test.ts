import { spawnSync } from 'node:child_process'
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { startAppWithClient } from './app-with-client.ts'

const sandboxed = spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', 'true']).status === 0

/** A folder that commands can write, and in it the folders of modules. */
async function work(settings: Record<string, object> = {}) {
  const [dir, outside] = [temporaryFolder(), temporaryFolder()]
  writeFileSync(join(outside, 'secret.txt'), 'sesame')
  for (const folder of ['data', 'sub/cache', 'real']) mkdirSync(join(dir, 'work', folder), { recursive: true })
  symlinkSync('real', join(dir, 'work/linked'))
  writeFileSync(join(dir, 'work/real/kept.txt'), 'kept')
  const filesystem = {
    config: { roots: ['work/data', 'work/linked', 'work/later'], file_cache_dir: join(dir, 'work/sub/cache') },
  }
  const http = { config: { roots: ['work/data'], access: 'write', allow_private_hosts: true } }
  const shell = { config: { enabled: true, roots: ['work'] } }
  const all = await startAppWithClient({ filesystem, http, shell, ...settings }, { dir })
  return { ...all, outside, at: (path: string) => join(dir, 'work', path) }
}

const CASES = [
  ['the root itself', (outside: string) => `mv data old && ln -s ${outside} data`, 'secret.txt'],
  [
    'a folder above it',
    (outside: string) => `mv sub old && mkdir sub && ln -s ${outside} sub/cache`,
    'file_cache_dir/secret.txt',
  ],
  ['one that was not there', (outside: string) => `ln -s ${outside} later`, '../later/secret.txt'],
] as const

test.runIf(sandboxed).each(CASES)(
  'a command that replaces a module folder by a link gives the module no other folder: %s',
  async (_what, swap, path) => {
    const { call, fails, outside } = await work()
    await call('shell.bash', { cmd: swap(outside) })
    for (const [tool, input] of [
      ['filesystem.read', { path }],
      ['filesystem.write', { path, content: 'x' }],
      ['filesystem.ls', { path: path.replace(/\/?secret\.txt$/, '') || '.' }],
    ] as const) {
      const { code, answerText } = await fails(tool, input)
      expect([tool, code]).toEqual([tool, 'E_PATH_OUTSIDE_ROOT'])
      expect(answerText).not.toContain('sesame')
    }
  },
)

test('a link that existed at the start is followed, and one that later leads elsewhere is not', async () => {
  const { call, fails, outside, at } = await work()
  expect(await call('filesystem.read', { path: '../linked/kept.txt' })).toMatchObject({ content: 'kept' })
  rmSync(at('linked'))
  symlinkSync(outside, at('linked'))
  await expect
    .poll(async () => (await fails('filesystem.read', { path: '../linked/secret.txt' })).code)
    .toBe('E_PATH_OUTSIDE_ROOT')
  // The restored folder works again.
  rmSync(at('linked'))
  symlinkSync('real', at('linked'))
  await expect
    .poll(() => call('filesystem.read', { path: '../linked/kept.txt' }).catch(() => undefined))
    .toMatchObject({ content: 'kept' })
})

test('modules other than filesystem keep their folders, too', async () => {
  const { fails, outside, at } = await work()
  renameSync(at('data'), at('old'))
  symlinkSync(outside, at('data'))
  const upload = { url: 'http://127.0.0.1:9/', path: 'secret.txt' }
  expect((await fails('http.upload_file', upload)).code).toBe('E_PATH_OUTSIDE_ROOT')
})
