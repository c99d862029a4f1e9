import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { cachePaths, isInside } from '../../modules/_folders.ts'
import { temporaryFolder } from '../app.ts'

function lab() {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'state/files'), { recursive: true })
  mkdirSync(join(dir, 'state-of-affairs'))
  for (const name of ['state/token', 'state/files/a.txt', 'state-of-affairs/b.txt', 'config.yaml'])
    writeFileSync(join(dir, name), name)
  const read = (file_cache_dir: string, path: string): Promise<string> =>
    cachePaths(
      {
        file_cache_dir: join(dir, file_cache_dir),
        denied_paths: [],
        config_file: join(dir, 'state/files/mine.json'),
        state_dir: join(dir, 'state'),
      },
      'modules.test.config',
    ).readFile(path, async ({ handle }) => (await handle.readFile()).toString())
  return { read, dir }
}

test('a part of the state folder may be a root; the whole of it, or a parent, gives no access to it', async () => {
  const { read } = lab()
  expect(await read('state/files', 'a.txt')).toBe('state/files/a.txt')
  expect(await read('state-of-affairs', 'b.txt')).toBe('state-of-affairs/b.txt')
  await expect(read('state', 'token')).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
  await expect(read('.', 'state/token')).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
  await expect(read('.', 'config.yaml')).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
})

test('a folder with a similar name is not inside another', () => {
  expect(isInside('/a/state-of-affairs', '/a/state')).toBe(false)
  expect(isInside('/a/state/..b', '/a/state')).toBe(true)
  expect(isInside('/a/state', '/a/state')).toBe(true)
  expect(isInside('/a', '/a/state')).toBe(false)
})
