import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants, promises, readdirSync, readFileSync } from 'node:fs'
import { chmod, link, mkdir, readdir, readFile, symlink, truncate, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expect, onTestFinished, test, vi } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { botServer, TOKEN } from '../bot-api.ts'
import { put, tempDir } from '../loader/setup.ts'
import { serve } from '../modules/web-servers.ts'
import { cli, connectToProcess, place } from '../process.ts'
import { lowestFreeDescriptor } from '../process-limits.ts'
import { type AppWithClient, startAppWithClient } from './app-with-client.ts'
import { least, soonest } from './lag.ts'

/** A separate mount namespace, in which anything can be mounted. */
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

interface Files extends AppWithClient {
  readonly root: string
}

/** The module over a folder of files; `config` as in the configuration file. */
async function filesWith(
  content: Readonly<Record<string, string>> = {},
  config: Record<string, unknown> = {},
  modules: Record<string, unknown> = {},
): Promise<Files> {
  const dir = temporaryFolder()
  await put(dir, content)
  const settings = { execution: { maxResultTokens: 0 } }
  const all = await startAppWithClient(
    { filesystem: { config: { readonly: false, ...config } }, ...modules },
    { dir, settings },
  )
  const full = (tool: string): string => (tool.includes('.') ? tool : `filesystem.${tool}`)
  return {
    ...all,
    root: dir,
    call: (tool, input, more) => all.call(full(tool), input, more),
    fails: (tool, input, more) => all.fails(full(tool), input, more),
  }
}

/** Every tool with a path argument, and what it does with the path. */
const verbs = (path: string): Readonly<Record<string, object>> => ({
  read: { path },
  read_file: { path },
  watch: { path, timeout: 1 },
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

async function codes({ call }: Files, path: string): Promise<Record<string, string>> {
  // Each of several files has its own error.
  expect((await call('read_many', { paths: [path] })).files).toEqual([{ path, error: expect.any(String) }])
  return Object.fromEntries(
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
}
const all = (path: string, code: string) => Object.fromEntries(Object.keys(verbs(path)).map((verb) => [verb, code]))

test('FS-01: no tool leaves the roots by dots or an absolute path, and the error shows only the requested path', async () => {
  const paths = ['../../etc/passwd', '/etc/passwd', '..']
  for (const path of paths) {
    const files = await filesWith({ 'a.txt': 'a' })
    expect(await codes(files, path)).toEqual(all(path, 'E_PATH_OUTSIDE_ROOT'))
    const message = await files.call('read', { path }).catch((error: Error) => error.message)
    expect(message).toBe(`'${path}' is outside the allowed folders (modules.filesystem.config.roots).`)
    const { answerText } = await files.fails('read', { path })
    expect(answerText).not.toContain(files.root)
  }
})

test('FS-02: a folder beside the root with the same prefix is not inside the root', async () => {
  const top = await tempDir({ 'app/a.txt': 'a', 'app-secret/x': 'secret' })
  const files = await filesWith({}, { roots: [join(top, 'app')] })
  for (const path of [join(top, 'app-secret/x'), '../app-secret/x'])
    expect(await codes(files, path)).toEqual(all(path, 'E_PATH_OUTSIDE_ROOT'))
})

test('FS-03: no tool follows a link out of the roots, and links inside work', async () => {
  const files = await filesWith({ 'a.txt': 'a', 'in/b.txt': 'b' })
  await symlink('/etc/passwd', join(files.root, 'out'))
  await symlink('/etc', join(files.root, 'etc'))
  await symlink('in/b.txt', join(files.root, 'inside'))
  for (const path of ['out', 'etc/passwd', 'etc/none'])
    expect(await codes(files, path), path).toEqual(all(path, 'E_PATH_OUTSIDE_ROOT'))
  expect(await files.call('read', { path: 'inside' })).toMatchObject({ content: 'b', path: 'in/b.txt' })
})

test('FS-06: percent signs are literal, and a path with a zero byte is rejected', async () => {
  const files = await filesWith({ 'a.txt': 'a' })
  const { call } = files
  await expect(call('read', { path: '%2e%2e%2fetc' })).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
  await call('write', { path: '%2e%2e%2fetc', content: 'literal' })
  expect(await call('ls')).toMatchObject({ entries: [{ path: '%2e%2e%2fetc' }, { path: 'a.txt' }] })
  expect(await codes(files, 'a\0b')).toEqual(all('a\0b', 'E_VALIDATION'))
  expect(await codes(files, 'a.txt\0')).toEqual(all('a.txt\0', 'E_VALIDATION'))
})

test.runIf(process.platform === 'linux')(
  'FS-08: no call blocks on a pipe, a socket, a device or a kernel file',
  async () => {
    const { call, fails, root } = await filesWith({ 'a.txt': 'a' }, { allowed_paths: ['/dev/zero', '/proc/self'] })
    execFileSync('mkfifo', [join(root, 'pipe')])
    const server = createServer().listen(join(root, 'socket'))
    onTestFinished(() => void server.close())
    for (const path of ['pipe', 'socket', '/dev/zero', '/proc/self/environ'])
      for (const verb of ['read', 'read_file', 'grep', 'edit', 'insert', 'cp from']) {
        const took = await soonest(1_000, async () => {
          const began = performance.now()
          expect(await fails(verb.split(' ')[0] as string, verbs(path)[verb]), `${verb} ${path}`).toMatchObject({
            code: 'E_NOT_REGULAR_FILE',
          })
          return performance.now() - began
        })
        expect(took, `${verb} ${path}`).toBeLessThan(1_000)
      }
    expect(await call('grep', { pattern: 'a', include: '*.txt' })).toMatchObject({ count: 1 })
  },
)

test('FS-10: no tool of any module touches denied paths, neither by search nor by name', async () => {
  const bot = await botServer()
  const denied_paths = ['**/.env', '**/.ssh/**']
  const asked: string[] = []
  const url = await serve((request, answer) => void answer.end(String(asked.push(request.url ?? ''))))
  const files = await filesWith(
    {
      'a.txt': 'a',
      '.env': 'word',
      'd/.env': 'word',
      '.ssh/id': 'word',
      'd/ok.txt': 'word',
      'state/files/.env': 'word',
    },
    { denied_paths },
    {
      telegram: {
        config: {
          token: TOKEN,
          base_url: bot.url,
          default_chat_id: '42',
          file_cache_dir: '{{workspace}}',
          denied_paths,
        },
      },
      http: { config: { access: 'write', allow_private_hosts: true, denied_paths } },
      web: {
        config: {
          access: 'write',
          fetch: { allow_private_network: true },
          url_fetch: { file_cache_dir: '{{workspace}}', denied_paths },
        },
      },
      shell: { config: { enabled: true, allowed_commands: ['cat'], denied_paths } },
      database: { config: { roots: ['.'], denied_paths } },
    },
  )
  for (const path of ['.env', 'd/.env', '.ssh/id', '.ssh', '.SSH/id', '.ssh/new'])
    expect(await codes(files, path), path).toEqual(all(path, 'E_PATH_DENIED'))
  for (const path of ['.env', 'd/.env', '.ssh/id'])
    for (const [tool, input] of Object.entries({
      read_file: { path },
      write_file: { path: `file_state_dir/${path}`, content: 'x' },
      'telegram.telegram_send_file': { path },
      'telegram.telegram_send_voice': { chat_id: '42', path },
      'http.upload_file': { url, path },
      'http.download': { url, destination: path },
      'web.url_fetch': { url, download_path: path },
      'shell.run': { command: 'cat', cwd: path },
      'database.connect': { connection_id: 'own', driver: 'sqlite', database: path },
    }))
      expect(await files.fails(tool, input), `${tool} ${path}`).toMatchObject({ code: 'E_PATH_DENIED' })
  expect([bot.calls, asked]).toEqual([[], []])
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

test('FS-12: no tool writes outside the folders for writing, and the error names the setting', async () => {
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

test('FS-14: no tool writes to the configuration, state, audit log and modules of Pegboard', async () => {
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

test('FS-15: no tool writes files that run automatically, unless that very file is allowed', async () => {
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

test('FS-16: a tool reads a part of a huge file, and does not return bytes as text', async () => {
  const { call, root } = await filesWith({ 'huge.txt': 'line\n'.repeat(100_000) })
  await truncate(join(root, 'huge.txt'), 5_000_000_000)
  const grown = await least(64_000_000, async () => {
    const before = process.memoryUsage().rss
    expect(await call('read', { path: 'huge.txt', limit: 10 })).toMatchObject({
      content: 'line\n'.repeat(10),
      lines: 10,
      truncated: true,
      size: 5_000_000_000,
    })
    expect(await call('read', { path: 'huge.txt', tail: 1 })).toMatchObject({ truncated: true })
    expect(await call('read_file', { path: 'huge.txt' })).toMatchObject({
      content: expect.stringMatching(/^(line\n){1000}/),
      truncated: true,
    })
    return process.memoryUsage().rss - before
  })
  expect(grown).toBeLessThan(64_000_000)
  await writeFile(join(root, 'b.bin'), Buffer.from([1, 0, 255]))
  expect(await call('read', { path: 'b.bin' })).toMatchObject({ binary: true, content: '' })
})

test('FS-18: a search with a malicious expression ends within a second and does not block other calls', async () => {
  const { call } = await filesWith({ 'evil.txt': 'a'.repeat(1_000_000), 'b.txt': 'b' })
  for (const [pattern, found] of [
    ['(a+)+$', { count: 1, matches: [{ line: 1 }] }],
    ['(a+)+$b', { count: 0, truncated: false }],
  ] as const) {
    const took = await soonest(1_000, async () => {
      const asked = performance.now()
      let over = false
      const search = call('grep', { pattern, path: 'evil.txt' }).finally(() => {
        over = true
      })
      expect(await call('read', { path: 'b.txt' })).toMatchObject({ content: 'b' })
      expect(over).toBe(false)
      expect(await search).toMatchObject(found)
      return performance.now() - asked
    })
    expect(took, pattern).toBeLessThan(1_000)
  }
})

/** A server in its own process, started by a shell that prepares the environment. */
async function serverIn(folder: string, begin: readonly string[]) {
  const where = place({
    exposure: { mode: 'direct' },
    modules: { filesystem: { config: { roots: [folder] } } },
  })
  for (const path of [where.dir, join(where.dir, 'modules')]) await chmod(path, 0o777)
  const { client, pid } = await connectToProcess(where, {}, 'test', begin)
  const told = async (path: string, append = false): Promise<string> => {
    const input = { path, content: 'x'.repeat(300_000), append }
    const answer = await client.callTool({ name: 'filesystem__write', arguments: input })
    return (answer.content as { text: string }[])[0]?.text ?? ''
  }
  return { client, told, pid }
}

test.runIf(canMount())(
  'FS-20: a failed write leaves no partial file and keeps the old one, and the error names the reason',
  async () => {
    const root = await tempDir()
    await chmod(root, 0o755)
    const tmpfs = 'mount -t tmpfs -o size=64k,mode=777 none "$0" && printf old > "$0/a.txt"'
    const faults: Record<string, readonly string[]> = {
      ENOSPC: ['unshare', ...UNSHARE, 'sh', '-c', `${tmpfs} && exec "$@"`],
      EROFS: ['unshare', ...UNSHARE, 'sh', '-c', `${tmpfs} && mount -o remount,ro "$0" && exec "$@"`],
      EACCES: [
        ...(process.getuid?.() === 0 ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : []),
        ...['sh', '-c', 'exec "$@"'],
      ],
      EMFILE: ['sh', '-c', 'exec "$@"'],
    }
    const told: Record<string, string[]> = {}
    for (const [fault, begin] of Object.entries(faults)) {
      const folder = join(root, fault)
      await mkdir(folder)
      await writeFile(join(folder, 'a.txt'), 'old')
      if (fault === 'EACCES') await chmod(folder, 0o555)
      onTestFinished(() => chmod(folder, 0o700))
      const server = await serverIn(folder, [...begin, folder])
      if (fault === 'EMFILE') {
        // Code that loads on demand needs descriptors, too.
        for (const path of ['filesystem__read', 'filesystem__write'])
          await server.client.callTool({ name: path, arguments: { path: 'a.txt', content: 'old' } })
        execFileSync('prlimit', ['--pid', String(server.pid), `--nofile=${lowestFreeDescriptor(Number(server.pid))}:`])
      }
      told[fault] = [await server.told('a.txt'), await server.told('a.txt', true), await server.told('new.txt')]
      const seen = join(`/proc/${server.pid}/root`, folder)
      expect([fault, readdirSync(seen), readFileSync(join(seen, 'a.txt'), 'utf8')]).toEqual([fault, ['a.txt'], 'old'])
    }
    const of = (code: string, what: string, hint: string) =>
      ['a.txt', 'a.txt', 'new.txt'].map((name) => `${code}: '${name}' ${what}. ${hint}`)
    expect(told).toEqual({
      ENOSPC: of(
        'E_TOOL_FAILED',
        'could not be written: no space is left',
        'Free some space first; nothing was changed.',
      ),
      EROFS: of('E_READ_ONLY', 'lies on a read-only file system', 'Write somewhere else.'),
      EACCES: of(
        'E_PATH_DENIED',
        'is not accessible: its permissions forbid it',
        'The operator can change the permissions of the file.',
      ),
      EMFILE: of('E_OVERLOADED', 'could not be opened: too many files are open', 'Try again later.'),
    })
  },
  60_000,
)

test('FS-21: no tool writes through a hard link to a file outside', async () => {
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

test('appends nothing to a file that became a hard link to one outside after the check', async () => {
  const top = await tempDir({ 'outside.txt': 'outside' })
  const { call, root } = await filesWith({ 'a.txt': 'a' })
  const real = promises.open
  let swapped = 0
  const open = vi.spyOn(promises, 'open').mockImplementation(async (path, flags, ...rest) => {
    if (typeof flags === 'number' && flags & constants.O_APPEND) {
      swapped++
      await promises.unlink(join(root, 'a.txt'))
      await promises.link(join(top, 'outside.txt'), join(root, 'a.txt'))
    }
    return await real(path, flags, ...rest)
  })
  onTestFinished(() => open.mockRestore())
  await expect(call('write', { path: 'a.txt', content: 'x', append: true })).rejects.toMatchObject({
    code: 'E_PATH_DENIED',
  })
  expect(swapped).toBe(1)
  expect(await readFile(join(top, 'outside.txt'), 'utf8')).toBe('outside')
})

test('a name that is too long or not text is an error of the caller', async () => {
  const files = await filesWith({ 'a.txt': 'a' })
  for (const path of ['x'.repeat(300), '\ud800x', 'x\udfff'])
    expect(await codes(files, path), path).toEqual(all(path, 'E_VALIDATION'))
})

test('no folder accepts files that make editors, shells and git run programs', async () => {
  const { fails } = await filesWith({ 'a.txt': 'a' })
  for (const path of [
    '.husky/pre-commit',
    'sub/.devcontainer/devcontainer.json',
    '.vimrc',
    '.exrc',
    '.inputrc',
    'd/.tmux.conf',
  ])
    expect(await fails('write', { path, content: 'x' }), path).toMatchObject({ code: 'E_PATH_DENIED' })
})

test.runIf(process.platform === 'linux')(
  'no tool leaves the roots while another program keeps replacing a folder by a link',
  async () => {
    const outside = await tempDir({ f: 'sesame', 'keep/k': 'k' })
    const files = await filesWith({ 'x/f': 'inside', src: 'planted' })
    const script = `const fs = require('node:fs'); process.chdir(process.argv[1]); fs.symlinkSync(process.argv[2], 'link')
console.log('on'); for (;;) try { fs.renameSync('x', 'y'); fs.renameSync('link', 'x'); fs.renameSync('x', 'link'); fs.renameSync('y', 'x') } catch {}`
    const racer = spawn(process.execPath, ['-e', script, files.root, outside], { stdio: ['ignore', 'pipe', 'inherit'] })
    onTestFinished(() => void racer.kill('SIGKILL'))
    await once(racer.stdout, 'data')
    const heard: string[] = []
    for (let turn = 0; turn < 15; turn++)
      await Promise.all(
        Object.entries({
          ...verbs('x/f'),
          read_many: { paths: ['x/f'] },
          'write a new one': { path: 'x/new', content: 'planted' },
          'write at the end': { path: 'x/f', content: 'planted', append: true },
          'cp the folder': { from: 'x', to: `copy${turn}` },
          'cp into it': { from: 'src', to: 'x/c', overwrite: true },
          'mv out of it': { from: 'x/keep', to: 'taken' },
          'mv into it': { from: `copy${turn - 1}`, to: 'x/moved' },
          'rm of a folder': { path: 'x/keep', recursive: true },
          'grep all': { pattern: 'sesame' },
          'find all': { pattern: 'keep' },
          'ls of it': { path: 'x' },
          'tree of all': {},
        }).map(async ([verb, input]) => {
          const answer = await files.call(verb.split(' ')[0] as string, input).catch(({ code }) => code)
          heard.push(JSON.stringify(answer))
        }),
      )
    racer.kill('SIGKILL')
    expect(heard.filter((one) => /sesame|"k"|keep/.test(one))).toEqual([])
    expect([readdirSync(outside).toSorted(), readdirSync(join(outside, 'keep'))]).toEqual([['f', 'keep'], ['k']])
    expect(readFileSync(join(outside, 'f'), 'utf8')).toBe('sesame')
    const copies = readdirSync(files.root, { recursive: true })
      .map(String)
      .filter((name) => /^copy|^taken/.test(name))
    expect(copies.filter((name) => name.includes('keep'))).toEqual([])
  },
  60_000,
)

/** Hard links to a few files, because a million files would take a gigabyte. */
const MILLION = `import os,sys
d=sys.argv[1]+"/many"
os.mkdir(d)
for i in range(1000000):
  if i%60000==0: os.mknod(d+"/f%07d"%i)
  else: os.link(d+"/f%07d"%(i-i%60000),d+"/f%07d"%i)`

test.runIf(canMount())(
  'FS-17: every tool limits a folder with a million entries within 5 s, and a cancelled call ends within 1 s',
  async () => {
    const { config, env, dir } = place({
      audit: { enabled: true },
      exposure: { mode: 'direct' },
      execution: { maxResultTokens: 0 },
      modules: { filesystem: { config: { roots: ['{{workspace}}/root'] } } },
    })
    const root = join(dir, 'root')
    await mkdir(root)
    const world = 'mount -t tmpfs -o size=2g,nr_inodes=3000000 none "$0" && python3 -c "$1" "$0" && shift && exec "$@"'
    const transport = new StdioClientTransport({
      command: 'unshare',
      args: [
        ...UNSHARE,
        'sh',
        '-c',
        world,
        root,
        MILLION,
        process.execPath,
        cli,
        'serve',
        '--stdio',
        '--config',
        config,
      ],
      env: env as Record<string, string>,
      stderr: 'ignore',
    })
    const client = new Client({ name: 'test', version: '1' })
    onTestFinished(() => client.close())
    await client.connect(transport, { timeout: 240_000 })
    const calls: [string, Record<string, unknown>][] = [
      ['ls', { path: 'many' }],
      ['ls', { path: 'many', recursive: true, details: true }],
      ['ls', { path: 'many', sort: 'size' }],
      ['ls', { path: 'many', sort: 'time', details: true }],
      ['tree', { path: 'many' }],
      ['find', { path: 'many', pattern: '*.none' }],
      ['find', { pattern: '**/f*' }],
      ['grep', { path: 'many', pattern: 'none' }],
      ['grep', { path: '.', pattern: 'x.*y' }],
    ]
    const call = (tool: string, input: Record<string, unknown>, signal?: AbortSignal) =>
      client.callTool(
        { name: `filesystem__${tool}`, arguments: input },
        { timeout: 60_000, ...(signal ? { signal } : {}) },
      )
    for (const [tool, input] of calls) {
      const took = await soonest(
        5_000,
        async () => {
          const asked = performance.now()
          const { structuredContent } = await call(tool, input)
          expect(structuredContent, `${tool} ${JSON.stringify(input)}`).toMatchObject({ truncated: true })
          return performance.now() - asked
        },
        3,
      )
      expect(took, `${tool} ${JSON.stringify(input)}`).toBeLessThan(5_000)
    }
    const peakKiB = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${transport.pid}/status`, 'utf8'))?.[1])
    expect(peakKiB / 1024).toBeLessThan(500)

    const log = join(dir, 'state/audit.jsonl')
    const lines = (): { ms: number }[] =>
      readFileSync(log, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line))
    await expect.poll(() => lines().length).toBeGreaterThanOrEqual(calls.length)
    for (const [tool, input] of calls) {
      const took = await soonest(1_000, async () => {
        const before = lines().length
        const end = new AbortController()
        const running = call(tool, input, end.signal).catch(() => undefined)
        await new Promise((resolve) => setTimeout(resolve, 50))
        end.abort()
        await running
        await expect.poll(() => lines().length).toBe(before + 1)
        return Number(lines().at(-1)?.ms) - 50
      })
      expect(took, tool).toBeLessThan(1_000)
    }
  },
  400_000,
)

test('FS-17: a search reaches the bottom of a tree with 500 levels, and a loop of links is not a tree', async () => {
  const { call, root } = await filesWith({ 'top.txt': 'needle' })
  const bottom = Array.from({ length: 500 }, () => 'd').join('/')
  await mkdir(join(root, bottom), { recursive: true })
  await writeFile(join(root, bottom, 'deep.txt'), 'needle')
  await symlink('.', join(root, 'loop'))
  await symlink(root, join(root, 'd/back'))
  const found = await call('find', { pattern: '*.txt' })
  expect(found).toMatchObject({ paths: [`${bottom}/deep.txt`, 'top.txt'], truncated: false })
  expect(await call('grep', { pattern: 'needle', output_mode: 'files_with_matches' })).toMatchObject({
    count: 2,
    truncated: false,
  })
  expect(await call('ls', { recursive: true, limit: 5_000 })).toMatchObject({ count: 504, truncated: false })
})

test('FS-19: one of twenty concurrent writes is complete afterwards, and no reader sees a partial file', async () => {
  const { call, root } = await filesWith({ 'a.txt': 'start' })
  const texts = Array.from({ length: 20 }, (_, n) => String.fromCharCode(97 + n).repeat(300_000))
  let over = false
  const reading = (async () => {
    while (!over) {
      const text = await readFile(join(root, 'a.txt'), 'utf8')
      expect(text === 'start' || texts.includes(text)).toBe(true)
    }
  })()
  await Promise.all(texts.map((content) => call('write', { path: 'a.txt', content })))
  over = true
  await reading
  expect(texts).toContain(await readFile(join(root, 'a.txt'), 'utf8'))
  expect((await readdir(root)).filter((name) => name.endsWith('.tmp'))).toEqual([])
})

test('FS-19: a kill during a write leaves the old file or the new one, and the next start removes temporary files', async () => {
  const where = place({
    exposure: { mode: 'direct' },
    modules: { filesystem: { config: { roots: ['{{workspace}}/d'] } } },
  })
  const folder = join(where.dir, 'd')
  await mkdir(folder)
  const start = () => connectToProcess(where)
  const strays = (): string[] => readdirSync(folder).filter((name) => name.endsWith('.tmp'))
  const old = 'o'.repeat(4_000_000)
  const fresh = 'n'.repeat(4_000_000)
  let left = 0
  for (let round = 0; round < 30 && left === 0; round++) {
    await writeFile(join(folder, 'a.txt'), old)
    const { client, pid } = await start()
    const killed = new AbortController()
    const { signal } = killed
    const writing = client
      .callTool({ name: 'filesystem__write', arguments: { path: 'a.txt', content: fresh } }, { signal })
      .catch(() => undefined)
    const until = performance.now() + 20_000
    while (strays().length === 0 && performance.now() < until) {
      if (readFileSync(join(folder, 'a.txt'), 'latin1').startsWith('n')) break
      await new Promise((resolve) => setImmediate(resolve))
    }
    process.kill(pid, 'SIGKILL')
    // The call is given up, not lost.
    killed.abort()
    await writing
    left = strays().length
    expect([old, fresh]).toContain(await readFile(join(folder, 'a.txt'), 'utf8'))
  }
  expect(left).toBe(1)
  const { client } = await start()
  await client.callTool({ name: 'filesystem__ls', arguments: {} })
  expect(strays()).toEqual([])
}, 120_000)
