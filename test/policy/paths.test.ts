import { execFileSync } from 'node:child_process'
import { link, lstat, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createPaths, type HeldFolder, type Paths, type PathsOptions } from '../../src/policy/paths.ts'
import { clients, settingsFolders } from '../../src/setup/clients.ts'

let top: string
let root: string
beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), 'pegboard-paths-'))
  onTestFinished(() => rm(top, { recursive: true, force: true }))
  root = join(top, 'app')
  await mkdir(join(root, 'src'), { recursive: true })
  await mkdir(join(top, 'app-secret'))
  await writeFile(join(root, 'src', 'a.txt'), 'alpha')
  await writeFile(join(top, 'app-secret', 'x'), 'secret')
  await writeFile(join(top, 'outside.txt'), 'outside')
})

const over = (options: Partial<PathsOptions> = {}): Paths => createPaths({ roots: [root], ...options })
const text = (paths: Paths, path: string): Promise<string> =>
  paths.readFile(path, async ({ handle }) => await handle.readFile('utf8'))
const refusal = (code: string) => expect.objectContaining({ code })
const names = async (paths: Paths, path = '.'): Promise<string[]> =>
  (await paths.listFolder(path)).entries.map(({ name }) => name)

describe('reading', () => {
  it('works inside the roots, by relative and absolute path', async () => {
    expect(await text(over(), 'src/a.txt')).toBe('alpha')
    expect(await text(over(), join(root, 'src/a.txt'))).toBe('alpha')
    expect(await over().readFile('src/../src/a.txt', async ({ path, size }) => [path, size])).toEqual(['src/a.txt', 5])
  })

  it('rejects paths outside, naming the requested path and the setting', async () => {
    for (const path of [
      '../outside.txt',
      '../../../../etc/passwd',
      '/etc/passwd',
      '../app-secret/x',
      join(top, 'app-secret', 'x'),
      '..',
    ]) {
      const error = await text(over(), path).catch((reason: unknown) => reason)
      expect(error, path).toMatchObject({
        code: 'E_PATH_OUTSIDE_ROOT',
        message: `'${path}' is outside the allowed folders (modules.filesystem.config.roots).`,
      })
    }
  })

  it('says that there are more allowed folders', async () => {
    const hintOf = (roots: readonly string[]) =>
      over({ roots })
        .stat('/etc')
        .catch(({ hint }) => hint)
    expect(await hintOf([root])).toBe('Use a path inside them; "." is the first.')
    expect(await hintOf([root, top])).toBe('Use a path inside them; "." is the first. List it to see the others.')
  })

  it('suggests a similar name in the folder, if that is not denied', async () => {
    await writeFile(join(root, 'src', 'settings.json'), '')
    const missing = (paths: Paths, path: string) => paths.stat(path).catch(({ message, hint }) => [message, hint])
    expect(await missing(over(), 'src/seting.json')).toEqual([
      "'src/seting.json' does not exist.",
      "Did you mean 'src/settings.json'?",
    ])
    const hint = 'List its folder to see what is there.'
    expect(await missing(over(), 'src/other.json')).toEqual(["'src/other.json' does not exist.", hint])
    expect(await missing(over({ denyNames: ['settings.json'] }), 'src/seting.json')).toContain(hint)
  })

  it('expands ~ to the home folder', async () => {
    vi.stubEnv('HOME', root)
    onTestFinished(() => void vi.unstubAllEnvs())
    expect(await text(over(), '~/src/a.txt')).toBe('alpha')
    vi.stubEnv('HOME', top)
    await expect(text(over(), '~/outside.txt')).rejects.toMatchObject({
      code: 'E_PATH_OUTSIDE_ROOT',
      message: "'~/outside.txt' is outside the allowed folders (modules.filesystem.config.roots).",
    })
  })

  it('follows links that stay inside and no others, existing or not', async () => {
    await symlink(join(root, 'src'), join(root, 'inside'))
    await symlink('/etc', join(root, 'out'))
    await symlink(join(top, 'outside.txt'), join(root, 'file'))
    await symlink(join(top, 'nothing'), join(root, 'dangling'))
    expect(await text(over(), 'inside/a.txt')).toBe('alpha')
    for (const path of ['out/passwd', 'out/no-such-file', 'file'])
      await expect(text(over(), path), path).rejects.toEqual(refusal('E_PATH_OUTSIDE_ROOT'))
    await expect(text(over(), 'dangling')).rejects.toEqual(refusal('E_PATH_OUTSIDE_ROOT'))
    await expect(over().listFolder('out')).rejects.toEqual(refusal('E_PATH_OUTSIDE_ROOT'))
  })

  it('treats percent signs literally, and rejects NUL and invalid text', async () => {
    await expect(text(over(), '%2e%2e%2foutside.txt')).rejects.toEqual(refusal('E_NOT_FOUND'))
    await expect(text(over(), 'src/a.txt\0.png')).rejects.toEqual(refusal('E_VALIDATION'))
    for (const name of ['a\uFFFD', 'a\uD800', '\uDC00a'])
      await expect(text(over(), name)).rejects.toEqual(refusal('E_VALIDATION'))
    await writeFile(join(root, '100% été.txt'), 'ok')
    expect(await text(over(), '100% été.txt')).toBe('ok')
  })

  it.skipIf(process.platform === 'win32')('never blocks on a file that is not regular', async () => {
    execFileSync('mkfifo', [join(root, 'pipe')])
    await expect(text(over(), 'pipe')).rejects.toEqual(refusal('E_NOT_REGULAR_FILE'))
    await expect(text(over(), 'src')).rejects.toMatchObject({ message: "'src' is a folder." })
    for (const path of ['/dev/zero', '/proc/self/environ'])
      await expect(text(over({ roots: ['/'] }), path), path).rejects.toEqual(refusal('E_NOT_REGULAR_FILE'))
  })

  it('supports several roots, and a root that is a link', async () => {
    await symlink(root, join(top, 'link'))
    const paths = over({ roots: [join(top, 'link'), join(top, 'app-secret')] })
    expect(await text(paths, 'src/a.txt')).toBe('alpha')
    expect(await paths.readFile(join(root, 'src/a.txt'), async ({ path }) => path)).toBe('src/a.txt')
    expect(await paths.readFile(join(top, 'app-secret/x'), async ({ path }) => path)).toBe(`${top}/app-secret/x`)
  })

  it('says if the root does not exist', async () => {
    await expect(text(over({ roots: [join(top, 'none')] }), 'a')).rejects.toMatchObject({
      code: 'E_NOT_FOUND',
      message: expect.stringContaining('config.roots'),
    })
  })
})

describe('denied paths', () => {
  beforeEach(async () => {
    await mkdir(join(root, '.ssh'))
    await mkdir(join(root, '.git', 'hooks'), { recursive: true })
    for (const name of [
      '.env',
      '.env.local',
      '.env.example',
      '.ssh/id',
      '.git/hooks/pre-commit',
      '.git/HEAD',
      'private.key',
      '.bashrc',
    ])
      await writeFile(join(root, name), 'x')
  })

  it('are not read, written, listed or walked', async () => {
    const paths = over({ denied: ['**/*.key', 'src'] })
    for (const path of [
      '.env',
      '.env.local',
      '.ENV',
      '.ssh',
      '.ssh/id',
      '.git/hooks/pre-commit',
      'private.key',
      'src/a.txt',
      '.\u200benv',
      '.ｅnv',
    ]) {
      await expect(text(paths, path), path).rejects.toEqual(refusal('E_PATH_DENIED'))
      await expect(paths.writeFile(path, 'y'), path).rejects.toEqual(refusal('E_PATH_DENIED'))
    }
    expect(await names(paths)).toEqual(['.bashrc', '.env.example', '.git'])
    const walked: string[] = []
    for await (const { path } of paths.walk('.')) walked.push(path)
    expect(walked).toEqual(['.bashrc', '.env.example', '.git', '.git/HEAD'])
  })

  it.each(['linux', 'darwin', 'win32'] as const)(
    'include the MCP configurations of all clients on %s',
    async (platform) => {
      // Not the test machine's separator: the files are made on this machine.
      const places = settingsFolders({ platform, home: root, env: {}, cwd: root })
      const files = [
        ...clients.flatMap((client) => client.files({ ...places, join })),
        join(root, '.config/pegboard/mcp.config.json'),
      ]
      for (const file of files) {
        const path = file.replaceAll('\\', '/')
        await mkdir(dirname(path), { recursive: true })
        await writeFile(path, 'x')
        await expect(text(over(), path), path).rejects.toEqual(refusal('E_PATH_DENIED'))
        await expect(over().writeFile(path, 'y'), path).rejects.toEqual(refusal('E_PATH_DENIED'))
      }
      expect(files).toHaveLength(12)
    },
  )

  it('cannot be reached through links', async () => {
    await symlink(join(root, '.env'), join(root, 'harmless'))
    await expect(text(over(), 'harmless')).rejects.toEqual(refusal('E_PATH_DENIED'))
  })

  it('can be allowed by their exact path', async () => {
    const paths = over({ allowed: [join(root, '.env')] })
    expect(await text(paths, '.env')).toBe('x')
    await expect(text(paths, '.env.local')).rejects.toEqual(refusal('E_PATH_DENIED'))
  })

  it('may be a name, or an absolute path with everything below', async () => {
    await expect(text(over({ denyNames: ['A.TXT'] }), 'src/a.txt')).rejects.toEqual(refusal('E_PATH_DENIED'))
    await expect(text(over({ denied: [join(root, 'src')] }), 'src/a.txt')).rejects.toEqual(refusal('E_PATH_DENIED'))
  })

  it('include, for writing, files that make shells and editors run things', async () => {
    expect(await text(over(), '.bashrc')).toBe('x')
    for (const path of [
      '.bashrc',
      '.mcp.json',
      '.vscode/tasks.json',
      '.git/config',
      '.zed/tasks.json',
      '.windsurf/hooks.json',
      'opencode.json',
      'shop/mcp.config.json',
      'shop/pegboard.lock.json',
      'shop/mcp.pegboard.lock.json',
    ])
      await expect(over().writeFile(path, 'y'), path).rejects.toEqual(refusal('E_PATH_DENIED'))
    await expect(over({ protected: [join(root, 'src')] }).writeFile('src/b.txt', 'y')).rejects.toEqual(
      refusal('E_PATH_DENIED'),
    )
  })
})

describe('writing', () => {
  it('replaces files atomically, keeps their mode, creates folders and leaves nothing behind', async () => {
    const paths = over()
    expect(await paths.writeFile('new/deep/b.txt', 'one')).toEqual({ path: 'new/deep/b.txt', created: true })
    await writeFile(join(root, 'run.sh'), 'old', { mode: 0o755 })
    expect(await paths.writeFile('run.sh', 'new')).toEqual({ path: 'run.sh', created: false })
    expect((await stat(join(root, 'run.sh'))).mode & 0o777).toBe(0o755)
    expect(await paths.writeFile('run.sh', '!', { append: true })).toEqual({ path: 'run.sh', created: false })
    expect(await readFile(join(root, 'run.sh'), 'utf8')).toBe('new!')
    expect(await readdir(root)).toEqual(['new', 'run.sh', 'src'])
    await expect(paths.writeFile('no/such/b.txt', 'x', { createFolders: false })).rejects.toEqual(
      refusal('E_NOT_FOUND'),
    )
  })

  it('never follows links, writes hard links, or leaves the roots', async () => {
    await symlink(join(top, 'outside.txt'), join(root, 'out.txt'))
    await symlink(join(root, 'src', 'a.txt'), join(root, 'in.txt'))
    await symlink(join(top, 'app-secret'), join(root, 'dir'))
    await symlink(join(top, 'fresh.txt'), join(root, 'dangling'))
    await link(join(top, 'outside.txt'), join(root, 'hard.txt'))
    for (const [path, code] of [
      ['out.txt', 'E_PATH_OUTSIDE_ROOT'],
      ['dir/y', 'E_PATH_OUTSIDE_ROOT'],
      ['../y', 'E_PATH_OUTSIDE_ROOT'],
      ['in.txt', 'E_NOT_REGULAR_FILE'],
      ['dangling', 'E_PATH_OUTSIDE_ROOT'],
      ['src', 'E_NOT_REGULAR_FILE'],
      ['.', 'E_NOT_REGULAR_FILE'],
      ['hard.txt', 'E_PATH_DENIED'],
    ] as const)
      for (const append of [false, true])
        await expect(over().writeFile(path, 'z', { append }), path).rejects.toEqual(refusal(code))
    expect(await readFile(join(top, 'outside.txt'), 'utf8')).toBe('outside')
    expect(await readdir(join(top, 'app-secret'))).toEqual(['x'])
    await expect(lstat(join(top, 'fresh.txt'))).rejects.toMatchObject({ code: 'ENOENT' })
  })

  it('is rejected where it is disabled, naming the setting', async () => {
    await expect(over({ readonly: true }).writeFile('b', 'x')).rejects.toMatchObject({
      code: 'E_READ_ONLY',
      hint: 'Set modules.filesystem.config.readonly to false.',
    })
    const paths = over({ writeRoots: [join(root, 'src')] })
    await expect(paths.writeFile('b', 'x')).rejects.toMatchObject({
      code: 'E_READ_ONLY',
      hint: expect.stringContaining('write_roots'),
    })
    expect(await paths.writeFile('src/b', 'x')).toMatchObject({ created: true })
  })

  it('creates one folder or all missing ones', async () => {
    const paths = over()
    expect(await paths.makeFolder('x/y')).toEqual({ path: 'x/y', created: true })
    expect(await paths.makeFolder('x/y')).toEqual({ path: 'x/y', created: false })
    await expect(paths.makeFolder('p/q', { parents: false })).rejects.toEqual(refusal('E_NOT_FOUND'))
    await expect(paths.makeFolder('src/a.txt')).rejects.toEqual(refusal('E_NOT_REGULAR_FILE'))
    await expect(paths.makeFolder('../z')).rejects.toEqual(refusal('E_PATH_OUTSIDE_ROOT'))
  })

  it('stays in the checked folder while someone swaps it for a link', async () => {
    const paths = over()
    await mkdir(join(root, 'box'))
    let [stop, written] = [false, 0]
    const swapping = (async () => {
      while (!stop) {
        await rename(join(root, 'box'), join(root, 'aside'))
        await symlink(join(top, 'app-secret'), join(root, 'box'))
        await rm(join(root, 'box'))
        await rename(join(root, 'aside'), join(root, 'box'))
        // Long enough for some writes to succeed; rejecting everything would prove nothing.
        await new Promise((resolve) => setTimeout(resolve, written % 3))
      }
    })()
    const count = (): void => {
      written++
    }
    for (let i = 0; i < 100; i++)
      await paths.writeFile('box/loot.txt', 'x', { createFolders: false }).then(count, () => undefined)
    stop = true
    await swapping
    expect(await readdir(join(top, 'app-secret'))).toEqual(['x'])
    expect(written).toBeGreaterThan(0)
  })
})

describe('a walk with callbacks', () => {
  it('holds each folder open until its callback ends, so that it cannot be swapped', async () => {
    await mkdir(join(root, 'src', 'deep'))
    await writeFile(join(root, 'src', 'deep', 'b.txt'), 'beta')
    await writeFile(join(root, 'src', '.env'), 'K=1')
    const read: string[] = []
    const inside = async ({ path, anchor, entries }: HeldFolder): Promise<void> => {
      if (path === 'src/deep') {
        await rename(join(root, 'src', 'deep'), join(root, 'moved'))
        await symlink(join(top, 'app-secret'), join(root, 'src', 'deep'))
      }
      for (const { name, kind } of entries)
        if (kind === 'file') read.push(`${path}/${name} ${await readFile(join(anchor, name), 'utf8')}`)
    }
    const walked: string[] = []
    for await (const { path } of over().walk('.', { inside })) walked.push(path)
    expect(walked).toEqual(['src', 'src/a.txt', 'src/deep', 'src/deep/b.txt'])
    // On other systems than Linux only the path can be held.
    if (process.platform === 'linux') expect(read.sort()).toEqual(['src/a.txt alpha', 'src/deep/b.txt beta'])
  })

  it('has a few folders open at a time, and ends when a callback fails or the walk is abandoned', async () => {
    for (let index = 0; index < 40; index++) await mkdir(join(root, `d${index}`))
    let [open, most, begun] = [0, 0, 0]
    const inside = async ({ path }: HeldFolder): Promise<void> => {
      begun++
      most = Math.max(most, ++open)
      await new Promise((resolve) => setTimeout(resolve, 1))
      open--
      if (path === 'd10') throw new Error('enough')
    }
    const walk = async (until = '') => {
      for await (const { path } of over().walk('.', { inside })) if (path === until) return
    }
    await expect(walk()).rejects.toThrow('enough')
    expect([open, most <= 8, begun < 42], `${begun} begun`).toEqual([0, true, true])
    begun = 0
    await walk('d1')
    expect([open, begun <= 3]).toEqual([0, true])
  })
})
