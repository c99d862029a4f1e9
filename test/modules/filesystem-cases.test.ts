import { execFileSync } from 'node:child_process'
import { chmod, link, mkdir, readdir, readFile, symlink, truncate, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { put, tempDir } from '../loader/setup.ts'
import { type Files, filesWith } from './files.ts'

const faultScript = fileURLToPath(new URL('../fixtures/write-fault.mjs', import.meta.url))
/** A view of the file systems of its own, in which anything can be mounted. */
const UNSHARE = process.getuid?.() === 0 ? ['-m'] : ['-rm']
function canMount(): boolean {
  if (process.platform !== 'linux') return false
  try {
    execFileSync('unshare', [...UNSHARE, 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Every tool that takes a path, asked for one: what each of them does to it. */
const verbs = (path: string): Readonly<Record<string, object>> => ({
  read: { path },
  read_file: { path },
  stat: { path },
  exists: { path },
  grep: { pattern: 'x', path },
  ls: { path },
  tree: { path },
  find: { pattern: '*', path },
  write: { path, content: 'x' },
  edit: { path, old: 'a', new: 'b' },
  insert: { path, line: 0, content: 'x' },
  undo: { path },
  mkdir: { path },
  rm: { path, recursive: true },
  'mv from': { from: path, to: 'new' },
  'mv to': { from: 'a.txt', to: path },
  'cp from': { from: path, to: 'new' },
  'cp to': { from: 'a.txt', to: path },
})

const codes = async ({ call }: Files, path: string): Promise<Record<string, string>> =>
  Object.fromEntries(
    await Promise.all(
      Object.entries(verbs(path)).map(async ([verb, input]) => [
        verb,
        await call(verb.split(' ')[0] as string, input).then(
          () => 'answered',
          ({ code }) => code,
        ),
      ]),
    ),
  )
const all = (path: string, code: string) => Object.fromEntries(Object.keys(verbs(path)).map((verb) => [verb, code]))

describe('no tool', () => {
  it.each(['../../etc/passwd', '/etc/passwd', '..'])(
    'leads out by %s, and shows only what was asked for [FS-01]',
    async (path) => {
      const files = await filesWith({ 'a.txt': 'a' })
      expect(await codes(files, path)).toEqual(all(path, 'E_PATH_OUTSIDE_ROOT'))
      const message = await files.call('read', { path }).catch((error: Error) => error.message)
      expect(message).toBe(`'${path}' is outside the allowed folders (modules.filesystem.config.roots).`)
    },
  )

  it('takes a folder beside the root for one in it because its name begins alike [FS-02]', async () => {
    const top = await tempDir({ 'app/a.txt': 'a', 'app-secret/x': 'secret' })
    const files = await filesWith({}, { roots: [join(top, 'app')] })
    for (const path of [join(top, 'app-secret/x'), '../app-secret/x'])
      expect(await codes(files, path)).toEqual(all(path, 'E_PATH_OUTSIDE_ROOT'))
  })

  it('follows a link out; one that stays inside is read [FS-03]', async () => {
    const files = await filesWith({ 'a.txt': 'a', 'in/b.txt': 'b' })
    await symlink('/etc/passwd', join(files.root, 'out'))
    await symlink('/etc', join(files.root, 'etc'))
    await symlink('in/b.txt', join(files.root, 'inside'))
    for (const path of ['out', 'etc/passwd', 'etc/none'])
      expect(await codes(files, path), path).toEqual(all(path, 'E_PATH_OUTSIDE_ROOT'))
    expect(await files.call('read', { path: 'inside' })).toMatchObject({ content: 'b', path: 'in/b.txt' })
  })

  it('decodes percent signs, or takes a zero byte [FS-06]', async () => {
    const { call } = await filesWith()
    await expect(call('read', { path: '%2e%2e%2fetc' })).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
    await call('write', { path: '%2e%2e%2fetc', content: 'literal' })
    expect(await call('ls')).toMatchObject({ entries: [{ path: '%2e%2e%2fetc' }] })
    for (const [verb, input] of Object.entries(verbs('a\0b')))
      await expect(call(verb.split(' ')[0] as string, input), verb).rejects.toMatchObject({
        code: expect.stringMatching(/E_VALIDATION|E_NOT_FOUND/),
      })
  })

  it.runIf(process.platform === 'linux')('waits for a pipe, a socket or a device [FS-08]', async () => {
    const { call, root } = await filesWith({ 'a.txt': 'a' }, { allowed_paths: ['/dev/zero', '/proc/self'] })
    execFileSync('mkfifo', [join(root, 'pipe')])
    const server = createServer().listen(join(root, 'socket'))
    onTestFinished(() => void server.close())
    const began = Date.now()
    for (const path of ['pipe', 'socket', '/dev/zero', '/proc/self/environ'])
      for (const verb of ['read', 'read_file', 'grep', 'edit', 'cp'])
        await expect(
          call(verb, { ...verbs(path)[verb], ...(verb === 'cp' ? { from: path, to: 'n' } : {}) }),
          `${verb} ${path}`,
        ).rejects.toMatchObject({
          code: 'E_NOT_REGULAR_FILE',
        })
    expect(await call('grep', { pattern: 'a' })).toMatchObject({ total: 1 })
    expect(Date.now() - began).toBeLessThan(2_000)
  })

  it('touches, finds or names what is denied [FS-10]', async () => {
    const files = await filesWith(
      { 'a.txt': 'a', '.env': 'word', 'd/.env': 'word', '.ssh/id': 'word', 'd/ok.txt': 'word' },
      { denied_paths: ['**/.env', '**/.ssh/**'] },
    )
    for (const path of ['.env', 'd/.env', '.ssh/id', '.ssh', '.SSH/id', '.ssh/new'])
      expect(await codes(files, path), path).toEqual(all(path, 'E_PATH_DENIED'))
    const everything = JSON.stringify([
      await files.call('ls', { recursive: true, show_hidden: true }),
      await files.call('tree', { show_hidden: true, ignored: true }),
      await files.call('find', { pattern: '**', ignored: true }),
      await files.call('grep', { pattern: 'word', ignored: true }),
    ])
    expect(everything).toContain('ok.txt')
    expect(everything).not.toMatch(/\.env|\.ssh/)
    await files.call('cp', { from: 'd', to: 'copy' })
    expect(await readdir(join(files.root, 'copy'))).toEqual(['ok.txt'])
    for (const verb of ['rm', 'mv'])
      await expect(
        files.call(verb, verb === 'rm' ? { path: 'd', recursive: true } : { from: 'd', to: 'e' }),
      ).rejects.toMatchObject({
        code: 'E_PATH_DENIED',
      })
  })

  it('writes beside the folders for writing, and the setting is named [FS-12]', async () => {
    const { call } = await filesWith({ 'a.txt': 'a', 'out/b.txt': 'b' }, { write_roots: ['out'] })
    const refused = {
      code: 'E_READ_ONLY',
      hint: 'modules.filesystem.config.write_roots says where writing is allowed.',
    }
    for (const [verb, input] of [
      ['write', { path: 'n', content: '' }],
      ['edit', { path: 'a.txt', old: 'a', new: 'b' }],
      ['insert', { path: 'a.txt', line: 0, content: 'x' }],
      ['mkdir', { path: 'n' }],
      ['rm', { path: 'a.txt' }],
      ['mv', { from: 'a.txt', to: 'out/a.txt' }],
      ['mv', { from: 'out/b.txt', to: 'b.txt' }],
      ['cp', { from: 'out/b.txt', to: 'b.txt' }],
    ] as const)
      await expect(call(verb, input), verb).rejects.toMatchObject(refused)
    expect(await call('cp', { from: 'a.txt', to: 'out/a.txt' })).toMatchObject({ files: 1 })
  })

  it("writes into Pegboard's own configuration, state and modules [FS-14]", async () => {
    const files = await filesWith({
      'a.txt': 'a',
      'mcp.config.json': '{}',
      'state/audit.jsonl': 'x',
      'modules/m.mjs': '//',
    })
    for (const path of ['mcp.config.json', 'state/audit.jsonl', 'state/new', 'modules/m.mjs', 'modules/new.mjs'])
      for (const verb of ['write', 'rm', 'mv to', 'mv from', 'cp to'])
        await expect(
          files.call(verb.split(' ')[0] as string, verbs(path)[verb]),
          `${verb} ${path}`,
        ).rejects.toMatchObject({
          code: 'E_PATH_DENIED',
        })
    for (const path of ['state', 'modules'])
      await expect(files.call('rm', { path, recursive: true }), path).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
  })

  it('writes what runs by itself, unless that very file is allowed [FS-15]', async () => {
    const dangerous = ['.git/hooks/pre-commit', '.bashrc', '.npmrc', '.mcp.json', '.vscode/tasks.json']
    const { call } = await filesWith({ 'a.txt': 'a' })
    for (const path of dangerous) {
      await expect(call('write', { path, content: '' }), path).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
      await expect(call('cp', { from: 'a.txt', to: path }), path).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
      await expect(call('mv', { from: 'a.txt', to: path }), path).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
    }
    const allowing = await filesWith(
      { '.bashrc': 'old' },
      { roots: ['.'], allowed_paths: ['.bashrc', '.vscode/tasks.json'] },
    )
    expect(await allowing.call('write', { path: '.bashrc', content: 'new' })).toMatchObject({ created: false })
    expect(await allowing.call('write', { path: '.vscode/tasks.json', content: '{}' })).toMatchObject({ created: true })
    await expect(allowing.call('write', { path: '.zshrc', content: '' })).rejects.toMatchObject({
      code: 'E_PATH_DENIED',
    })
  })

  it('takes the memory of a huge file, or makes text of bytes [FS-16]', async () => {
    const { call, root } = await filesWith({ 'huge.txt': 'line\n'.repeat(100_000) })
    await truncate(join(root, 'huge.txt'), 5_000_000_000)
    const before = process.memoryUsage().rss
    expect(await call('read', { path: 'huge.txt', limit: 10 })).toMatchObject({
      lines: 10,
      truncated: true,
      size: 5_000_000_000,
    })
    expect(await call('read', { path: 'huge.txt', tail: 1 })).toMatchObject({ truncated: true })
    expect(await call('read_file', { path: 'huge.txt' })).toMatchObject({ truncated: true })
    expect(process.memoryUsage().rss - before).toBeLessThan(200_000_000)
    await writeFile(join(root, 'b.bin'), Buffer.from([1, 0, 255]))
    expect(await call('read', { path: 'b.bin' })).toMatchObject({ binary: true, content: '' })
  })

  it('is held up by an expression that would never end elsewhere [FS-18]', async () => {
    const { call } = await filesWith({ 'evil.txt': 'a'.repeat(1_000_000), 'b.txt': 'b' })
    const [evil, none] = ['(a+)+$', '(a+)+$b'].map((pattern) => call('grep', { pattern, path: 'evil.txt' }))
    expect(await call('read', { path: 'b.txt' })).toMatchObject({ content: 'b' })
    expect(await evil).toMatchObject({ total: 1, matches: [{ line: 1 }] })
    expect(await none).toMatchObject({ total: 0, truncated: false })
  })

  it.runIf(canMount())(
    'leaves a part of a file, or loses what was there, when the system stops a write; each reason has its own words [FS-20]',
    async () => {
      const root = await tempDir()
      const faults = {
        ENOSPC: 'mount -t tmpfs -o size=64k none "$1" && printf old > "$1/a.txt"',
        EROFS: 'mount -t tmpfs -o size=64k none "$1" && printf old > "$1/a.txt" && mount -o remount,ro "$1"',
        EACCES: 'printf old > "$1/a.txt" && chmod 444 "$1/a.txt" && chmod 555 "$1" && chmod 755 "$1/.."',
        EMFILE: 'printf old > "$1/a.txt" && ulimit -n 64',
      }
      const told: Record<string, string[]> = {}
      for (const [fault, prepare] of Object.entries(faults)) {
        const folder = join(root, fault)
        await mkdir(folder)
        onTestFinished(() => chmod(folder, 0o700))
        const run = `${prepare} && exec "$2" "$3" "$1" ${fault}`
        const apart = prepare.startsWith('mount') ? ['unshare', ...UNSHARE] : []
        const args = [...apart, 'sh', '-c', run, 'sh', folder, process.execPath, faultScript]
        const found = JSON.parse(execFileSync('env', args, { encoding: 'utf8' }))
        expect([fault, found.files, found.text]).toEqual([fault, ['a.txt'], 'old'])
        told[fault] = found.told
      }
      const of = (code: string, what: string) =>
        ['a.txt', 'a.txt', 'new.txt'].map((name) => `${code} '${name}' ${what}.`)
      expect(told).toEqual({
        ENOSPC: of('E_TOOL_FAILED', 'could not be written: no space is left'),
        EROFS: of('E_READ_ONLY', 'lies on a read-only file system'),
        EACCES: of('E_PATH_DENIED', 'is not accessible: its permissions forbid it'),
        EMFILE: of('E_OVERLOADED', 'could not be opened: too many files are open'),
      })
    },
  )

  it('writes through another name of a file outside [FS-21]', async () => {
    const top = await tempDir({ 'outside.txt': 'outside' })
    const { call, root } = await filesWith({ 'a.txt': 'a' })
    await mkdir(join(root, 'd'))
    await put(root, { 'd/x': '' })
    await link(join(top, 'outside.txt'), join(root, 'hard'))
    for (const [verb, input] of [
      ['write', { path: 'hard', content: 'x' }],
      ['write', { path: 'hard', content: 'x', append: true }],
      ['edit', { path: 'hard', old: 'outside', new: 'x' }],
      ['cp', { from: 'a.txt', to: 'hard', overwrite: true }],
      ['mv', { from: 'a.txt', to: 'hard', overwrite: true }],
    ] as const)
      await expect(call(verb, input), verb).rejects.toMatchObject({ code: 'E_PATH_DENIED' })
    expect(await readFile(join(top, 'outside.txt'), 'utf8')).toBe('outside')
  })
})
