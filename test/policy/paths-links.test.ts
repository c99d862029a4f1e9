import { mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { createPaths, type Paths } from '../../src/policy/paths.ts'

let real: string
let home: string
beforeEach(async () => {
  const top = await realpath(await mkdtemp(join(tmpdir(), 'pegboard-links-')))
  onTestFinished(() => rm(top, { recursive: true, force: true }))
  real = join(top, 'real')
  home = join(top, 'home')
  await mkdir(join(real, 'state'), { recursive: true })
  await symlink(real, home)
  await writeFile(join(real, 'state', 'token'), 'secret')
  await writeFile(join(real, 'pegboard.json'), '{}')
  await writeFile(join(real, 'a.txt'), 'alpha')
})

const text = (paths: Paths, path: string): Promise<string> =>
  paths.readFile(path, async ({ handle }) => await handle.readFile('utf8'))
const denied = expect.objectContaining({ code: 'E_PATH_DENIED' })

describe('absolute rules below a folder that is a link', () => {
  it.each([
    ['both ways in', () => [home, real]],
    ['the link as root', () => [home]],
    ['the real folder as root', () => [real]],
  ])('hold under the path as given and under the real one: %s', async (_name, roots) => {
    const paths = createPaths({
      roots: roots(),
      denied: [join(home, 'state'), join(home, 'pegboard.json'), join(home, '**', '*.key')],
      protected: [join(home, 'modules')],
    })
    await writeFile(join(real, 'my.key'), 'secret')
    for (const top of [home, real]) {
      const code = top === home && !roots().includes(home) ? 'E_PATH_OUTSIDE_ROOT' : 'E_PATH_DENIED'
      for (const path of ['state/token', 'pegboard.json', 'my.key']) {
        await expect(text(paths, join(top, path)), path).rejects.toMatchObject({ code })
        await expect(paths.writeFile(join(top, path), 'x'), path).rejects.toMatchObject({ code })
      }
      // Does not exist yet, but may be created later.
      await expect(paths.writeFile(join(top, 'modules/evil.mjs'), 'x')).rejects.toMatchObject({ code })
    }
    expect((await paths.listFolder('.')).entries.map(({ name }) => name)).toEqual(['a.txt'])
    expect(await readFile(join(real, 'pegboard.json'), 'utf8')).toBe('{}')
  })

  it('apply to the target of a linked rule, also if it does not exist yet', async () => {
    await symlink(join(real, 'a.txt'), join(real, '..', 'config.json'))
    await symlink('real/later/b.txt', join(real, '..', 'state.json'))
    const rules = [join(real, '..', 'config.json'), join(real, '..', 'state.json')]
    const paths = createPaths({ roots: [real], denied: rules })
    await expect(text(paths, 'a.txt')).rejects.toEqual(denied)
    await expect(paths.writeFile('later/b.txt', 'x')).rejects.toEqual(denied)
    const reading = createPaths({ roots: [real], protected: rules })
    expect(await text(reading, 'a.txt')).toBe('alpha')
    await expect(reading.writeFile('a.txt', 'x')).rejects.toEqual(denied)
  })

  it('apply if the link is created afterwards', async () => {
    const paths = createPaths({ roots: [real], denied: [join(real, '..', 'other', 'a.txt')] })
    expect(await text(paths, 'a.txt')).toBe('alpha')
    await symlink(real, join(real, '..', 'other'))
    await expect(text(paths, 'a.txt')).rejects.toEqual(denied)
  })

  it('allow and write through either name of an allowed path and of a write root', async () => {
    await writeFile(join(real, '.env'), 'K=1')
    const paths = createPaths({ roots: [real], allowed: [join(home, '.env')], writeRoots: [join(home, 'state')] })
    expect(await text(paths, '.env')).toBe('K=1')
    expect(await paths.writeFile('state/new', 'x')).toMatchObject({ created: true })
  })

  it('match a folder literally whose name looks like a pattern', async () => {
    await mkdir(join(real, '[x]', '{a,b}'), { recursive: true })
    await writeFile(join(real, '[x]', '{a,b}', 'token'), 'secret')
    const paths = createPaths({ roots: [home], denied: [join(home, '[x]', '{a,b}')] })
    await expect(text(paths, '[x]/{a,b}/token')).rejects.toEqual(denied)
  })
})

describe('default rules', () => {
  it('prevent changing what git, shells and sessions run', async () => {
    const paths = createPaths({ roots: [real] })
    for (const path of [
      '.git/config.worktree',
      '.git/modules/sub/config',
      '.git/modules/sub/hooks/pre-commit',
      'sub/.git',
      '.gitconfig',
      '.bash_aliases',
      '.envrc',
      '.config/autostart/x.desktop',
      '.config/systemd/user/x.service',
    ])
      await expect(paths.writeFile(path, 'x'), path).rejects.toEqual(denied)
    await mkdir(join(real, 'sub'))
    await writeFile(join(real, 'sub', '.git'), 'gitdir: ../.git/modules/sub')
    expect(await text(paths, 'sub/.git')).toBe('gitdir: ../.git/modules/sub')
    expect(await paths.writeFile('.gitignore', 'x')).toMatchObject({ created: true })
  })

  it('deny every .env.* except samples', async () => {
    const paths = createPaths({ roots: [real] })
    for (const name of ['.env.prod', '.env.production.local', '.env.bak', '.Env.Example.Local']) {
      await writeFile(join(real, name), 'K=1')
      await expect(text(paths, name), name).rejects.toEqual(denied)
    }
    for (const name of ['.env.example', '.env.sample', '.env.template']) {
      await writeFile(join(real, name), 'K=')
      expect(await text(paths, name), name).toBe('K=')
    }
  })
})

describe('a large folder', () => {
  it('is listed and walked in parts, so that other work gets a turn', async () => {
    const count = 5_000
    await mkdir(join(real, 'many'))
    for (let from = 0; from < count; from += 500)
      await Promise.all(
        Array.from({ length: 500 }, (_, index) => writeFile(join(real, 'many', `f${from + index}.txt`), '')),
      )
    const paths = createPaths({ roots: [real] })
    let [seen, longest, last, asked] = [0, 0, 0, false]
    const turn = (): void => {
      longest = Math.max(longest, seen - last)
      last = seen
      asked = false
    }
    for await (const { kind } of paths.walk('many')) {
      if (kind === 'file') seen++
      if (!asked) setImmediate(turn)
      asked = true
    }
    turn()
    expect(seen).toBe(count)
    expect(longest).toBeLessThanOrEqual(1_000)
  })
})
