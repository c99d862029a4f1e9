import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type Answer, temporaryFolder } from '../app.ts'
import { serve } from '../modules/web-servers.ts'
import { cli, connectToProcess } from '../process.ts'
import { type AppWithClient, startAppWithClient } from './app-with-client.ts'

/** A server whose one tool returns its version; part of its code is in another file. */
const program = (word: string): string => `import { word } from './part.mjs'
let rest = ''
process.stdin.on('data', (chunk) => {
  const lines = (rest + chunk).split('\\n')
  rest = lines.pop()
  for (const line of lines.filter(Boolean)) {
    const { id, method } = JSON.parse(line)
    if (id === undefined) continue
    const result = method === 'initialize'
      ? { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'notes', version: '1' } }
      : method === 'tools/list'
        ? { tools: [{ name: 'say', description: 'Says a word.', inputSchema: { type: 'object' } }] }
        : method === 'tools/call' ? { content: [{ type: 'text', text: '${word} ' + word }] } : {}
    process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }) + '\\n')
  }
})
`

async function workspace(
  { roots = ['{{workspace}}'], ...filesystem }: Record<string, unknown> = {},
  server: Record<string, unknown> = {},
): Promise<AppWithClient> {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'servers/notes'), { recursive: true })
  mkdirSync(join(dir, 'modules'))
  mkdirSync(join(dir, 'docs'))
  writeFileSync(join(dir, 'servers/notes/server.mjs'), program('good'))
  writeFileSync(join(dir, 'servers/notes/part.mjs'), "export const word = 'part'\n")
  writeFileSync(join(dir, 'servers/notes/README.md'), 'hello\n')
  writeFileSync(join(dir, 'secrets.txt'), 'NOTES_KEY=key-of-notes\n')
  writeFileSync(join(dir, 'docs/a.md'), 'a\n')
  writeFileSync(join(dir, 'mcp.config.json'), '{}')
  const one = await startAppWithClient(
    { filesystem: { config: { roots, deny_names: [], ...filesystem } }, mcp: { config: { enabled: true } } },
    {
      dir,
      settings: {
        audit: { enabled: true, file: 'logs/audit.jsonl' },
        mcpServers: {
          notes: { command: 'node', args: ['servers/notes/server.mjs'], envFile: 'secrets.txt', ...server },
        },
      },
    },
  )
  await one.app.settled(10_000)
  return one
}

const refused = { code: 'E_PATH_DENIED' }

describe('code that Pegboard runs', () => {
  test('cannot be changed by a model that can write the workspace and then reconnects the server', async () => {
    const { fails, call, dir } = await workspace()
    const evil = program('evil')
    for (const path of [
      'servers/notes/server.mjs',
      'servers/notes/part.mjs',
      'servers/notes/new.mjs',
      'servers/notes/x',
    ])
      for (const [tool, input] of [
        ['write', { path, content: evil }],
        ['cp', { from: 'docs/a.md', to: path, overwrite: true }],
        ['mv', { from: 'docs/a.md', to: path, overwrite: true }],
      ] as const)
        expect(await fails(`filesystem.${tool}`, input), `${tool} ${path}`).toMatchObject(refused)
    for (const [tool, input] of [
      ['edit', { path: 'servers/notes/server.mjs', old: 'good', new: 'evil' }],
      ['insert', { path: 'servers/notes/part.mjs', line: 0, content: 'evil()\n' }],
      ['rm', { path: 'servers/notes/part.mjs' }],
      ['mv', { from: 'servers/notes/part.mjs', to: 'docs/part.mjs' }],
    ] as const)
      expect(await fails(`filesystem.${tool}`, input), tool).toMatchObject(refused)
    expect(readFileSync(join(dir, 'servers/notes/server.mjs'), 'utf8')).toBe(program('good'))
    await call('mcp.reconnect', { server_id: 'notes' })
    expect(JSON.stringify(await call('notes.say'))).toContain('good part')
  })

  test.each(['package.json', 'pyproject.toml', '.git/HEAD'])(
    'includes the whole package of a script, which accepts only documents, as %s says',
    async (mark) => {
      const dir = temporaryFolder()
      mkdirSync(join(dir, 'servers/notes/.git'), { recursive: true })
      if (!mark.startsWith('.git')) renameSync(join(dir, 'servers/notes/.git'), join(dir, 'gone'))
      mkdirSync(join(dir, 'servers/notes/app/cli'), { recursive: true })
      mkdirSync(join(dir, 'servers/notes/lib'))
      mkdirSync(join(dir, 'linked'))
      mkdirSync(join(dir, 'evil'))
      writeFileSync(join(dir, 'servers/notes', mark), '{}')
      writeFileSync(join(dir, 'servers/notes/app/cli/server.mjs'), program('good'))
      symlinkSync('../servers/notes/app/cli/server.mjs', join(dir, 'linked/server.mjs'))
      const allowed = { filesystem: { config: { roots: ['{{workspace}}'] } } }
      for (const script of ['servers/notes/app/cli/server.mjs', 'linked/server.mjs']) {
        const { call, fails } = await startAppWithClient(allowed, {
          dir,
          settings: { mcpServers: { notes: { command: 'node', args: [script] } } },
        })
        for (const path of ['servers/notes/lib/part.mjs', 'servers/notes/index.js', 'servers/notes/config.json'])
          expect(await fails('filesystem.write', { path, content: 'evil()' }), path).toMatchObject(refused)
        await call('filesystem.write', { path: 'evil/index.mjs', content: 'evil()' })
        const inside = { from: 'evil', to: 'servers/notes/evil' }
        expect(await fails('filesystem.mv', inside)).toMatchObject(refused)
        expect(await call('filesystem.cp', { ...inside, overwrite: true })).toMatchObject({ files: 0 })
        await call('filesystem.write', { path: 'servers/notes/lib/notes.md', content: 'x' })
        await call('filesystem.write', { path: 'servers/other.mjs', content: 'x' })
      }
    },
  )

  test('cannot be replaced by a package or setting in a folder above it, where Node.js and package managers look', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'node_modules/part'), { recursive: true })
    writeFileSync(join(dir, 'node_modules/part/index.js'), "exports.word = 'part'\n")
    mkdirSync(join(dir, 'apps/servers/notes'), { recursive: true })
    mkdirSync(join(dir, 'tools/modules'), { recursive: true })
    writeFileSync(join(dir, 'apps/servers/notes/package.json'), '{}')
    writeFileSync(join(dir, 'apps/servers/notes/server.mjs'), program('good').replace('./part.mjs', 'part'))
    const { fails, call } = await startAppWithClient(
      { filesystem: { config: { roots: ['{{workspace}}'] } }, mcp: { config: { enabled: true } } },
      {
        dir,
        settings: {
          modulesDir: 'tools/modules',
          mcpServers: { notes: { command: 'node', args: ['apps/servers/notes/server.mjs'] } },
        },
      },
    )
    await call('filesystem.write', { path: 'evil/part/index.js', content: "exports.word = 'evil'" })
    for (const path of [
      'apps/servers/node_modules/part/index.js',
      'apps/node_modules/part/index.js',
      'apps/package.json',
      'apps/servers/tsconfig.json',
      'tools/node_modules/pegboard/index.js',
    ])
      expect(await fails('filesystem.write', { path, content: 'x' }), path).toMatchObject(refused)
    for (const to of ['apps/servers/node_modules', 'tools/node_modules'])
      expect(await fails('filesystem.mv', { from: 'evil', to }), to).toMatchObject(refused)
    await call('mcp.reconnect', { server_id: 'notes' })
    expect(JSON.stringify(await call('notes.say'))).toContain('good part')
    await call('filesystem.write', { path: 'evil/package.json', content: '{}' })
  })

  test('does not include the rest of a workspace that is a package itself', async () => {
    const { call, fails, dir } = await workspace()
    writeFileSync(join(dir, 'package.json'), '{}')
    await call('filesystem.write', { path: 'src/index.mjs', content: 'x' })
    expect(await fails('filesystem.write', { path: 'servers/notes/x.mjs', content: 'x' })).toMatchObject(refused)
  })

  test('stays in its folder, which cannot be renamed, removed or replaced', async () => {
    const { fails, call, dir } = await workspace()
    await call('filesystem.mkdir', { path: 'evil/notes' })
    await call('filesystem.write', { path: 'evil/notes/server.mjs', content: program('evil') })
    for (const [tool, input] of [
      ['mv', { from: 'servers', to: 'old' }],
      ['mv', { from: 'servers/notes', to: 'old' }],
      ['mv', { from: 'evil/notes', to: 'servers/notes' }],
      ['rm', { path: 'servers', recursive: true }],
      ['rm', { path: 'servers/notes', recursive: true }],
    ] as const)
      expect(await fails(`filesystem.${tool}`, input), `${tool} ${JSON.stringify(input)}`).toMatchObject(refused)
    expect(existsSync(join(dir, 'servers/notes/server.mjs'))).toBe(true)
  })

  test('cannot be reached through a link on the way to the program or beside it', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'real/notes'), { recursive: true })
    writeFileSync(join(dir, 'real/notes/server.mjs'), program('good'))
    writeFileSync(join(dir, 'real/notes/part.mjs'), "export const word = 'part'\n")
    symlinkSync('real', join(dir, 'linked'))
    symlinkSync('real/notes', join(dir, 'beside'))
    const { fails } = await startAppWithClient(
      { filesystem: { config: { roots: ['{{workspace}}'] } } },
      { dir, settings: { mcpServers: { notes: { command: 'node', args: ['linked/notes/server.mjs'] } } } },
    )
    const content = program('evil')
    for (const path of ['linked/notes/part.mjs', 'real/notes/part.mjs', 'beside/part.mjs'])
      expect(await fails('filesystem.write', { path, content }), path).toMatchObject(refused)
    for (const from of ['linked', 'real', 'real/notes'])
      expect(await fails('filesystem.mv', { from, to: 'gone' }), from).toMatchObject(refused)
    expect(await fails('filesystem.rm', { path: 'linked' })).toMatchObject(refused)
  })

  test('includes modules, packages and the working folder of an interpreter; documents are allowed everywhere', async () => {
    const { call, fails } = await workspace({}, { command: 'python3', args: ['-m', 'notes'] })
    for (const path of [
      'modules/x.mjs',
      'modules/x.md',
      'node_modules/a/index.js',
      'package.json',
      'notes.py',
      'json/__init__.py',
    ])
      expect(await fails('filesystem.write', { path, content: 'x' }), path).toMatchObject(refused)
    for (const path of ['notes.md', 'docs/table.csv', 'servers/notes/NOTES.md'])
      expect(await call('filesystem.write', { path, content: 'x' }), path).toMatchObject({ path })
    await call('filesystem.mkdir', { path: 'drafts' })
    await call('filesystem.write', { path: 'drafts/a.md', content: 'x' })
    await call('filesystem.mv', { from: 'drafts', to: 'kept' })
    await call('filesystem.rm', { path: 'kept', recursive: true })
  })

  test('does not include a data folder inside the folder of a server', async () => {
    const { call } = await workspace({ roots: ['{{workspace}}/docs'] }, { command: 'python3', args: ['-m', 'notes'] })
    expect(await call('filesystem.write', { path: 'tool.py', content: 'x' })).toMatchObject({ path: 'tool.py' })
  })

  test('is protected from other modules that write files, too', async () => {
    const { fails } = await startAppWithClient(
      { http: { config: { access: 'write', allow_private_hosts: true } } },
      { settings: { mcpServers: { notes: { command: 'node', args: ['server.mjs'] } } } },
    )
    for (const destination of ['server.mjs', 'lib/part.mjs', 'pegboard.lock.json'])
      expect(await fails('http.download', { url: 'http://127.0.0.1:9/', destination }), destination).toMatchObject(
        refused,
      )
  })
})

describe('files that Pegboard trusts and keeps secret', () => {
  const LINKED = 'docs/link.txt'

  test('cannot be written: lock file, audit log, configuration, env files and state', async () => {
    const { call, fails, dir } = await workspace()
    await call('filesystem.ls')
    await expect.poll(() => existsSync(join(dir, 'logs/audit.jsonl'))).toBe(true)
    for (const path of [
      'pegboard.lock.json',
      'mcp.config.json',
      'secrets.txt',
      'logs/audit.jsonl',
      'logs/audit.jsonl.1',
      'state/token',
      'state/audit.key',
    ]) {
      expect(await fails('filesystem.write', { path, content: '' }), path).toMatchObject(refused)
      expect(await fails('filesystem.cp', { from: 'docs/a.md', to: path, overwrite: true }), path).toMatchObject(
        refused,
      )
    }
    for (const from of ['logs', 'state']) {
      expect(await fails('filesystem.mv', { from, to: 'gone' }), from).toMatchObject(refused)
      expect(await fails('filesystem.rm', { path: from, recursive: true }), from).toMatchObject(refused)
    }
  })

  test('cannot be read, found or listed, also through links', async () => {
    const { call, fails, dir } = await workspace()
    symlinkSync('../secrets.txt', join(dir, LINKED))
    await call('filesystem.ls')
    await expect.poll(() => existsSync(join(dir, 'logs/audit.jsonl'))).toBe(true)
    for (const path of ['secrets.txt', LINKED, 'logs/audit.jsonl', 'mcp.config.json', 'state']) {
      for (const tool of ['read', 'read_file', 'stat', 'grep'])
        expect(
          await fails(`filesystem.${tool}`, { path, ...(tool === 'grep' ? { pattern: '.' } : {}) }),
          `${tool} ${path}`,
        ).toMatchObject(refused)
      expect(await fails('filesystem.cp', { from: path, to: 'docs/copy.txt' }), path).toMatchObject(refused)
    }
    expect(await call('filesystem.grep', { pattern: 'key-of-notes' })).toMatchObject({ count: 0 })
    const { entries } = await call('filesystem.ls')
    expect(entries.map(({ path }: { path: string }) => path)).not.toContain('secrets.txt')
    expect(await call('filesystem.find', { pattern: '**/audit*' })).toMatchObject({ count: 0 })
  })

  test('include the files that an option of a server names as secret', async () => {
    const dir = temporaryFolder()
    for (const name of ['prod.vars', 'login.json', 'list.json']) writeFileSync(join(dir, name), 'canary')
    const { call, fails } = await startAppWithClient(
      { filesystem: { config: { roots: ['{{workspace}}'] } } },
      {
        dir,
        settings: {
          mcpServers: {
            notes: {
              command: 'node',
              args: ['--env-file=prod.vars', 'server.mjs', '--credentials', 'login.json', '--list', 'list.json'],
            },
          },
        },
      },
    )
    for (const path of ['prod.vars', 'login.json'])
      expect(await fails('filesystem.read', { path }), path).toMatchObject(refused)
    expect(await call('filesystem.grep', { pattern: 'canary' })).toMatchObject({ count: 1 })
  })

  test('cannot be opened by an exact path in allowed_paths', async () => {
    const { fails } = await workspace({ allowed_paths: ['secrets.txt', 'pegboard.lock.json'] })
    expect(await fails('filesystem.read', { path: 'secrets.txt' })).toMatchObject(refused)
    expect(await fails('filesystem.write', { path: 'pegboard.lock.json', content: '' })).toMatchObject(refused)
  })
})

const sandboxed = spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', 'true']).status === 0

describe.runIf(sandboxed)('a command in the sandbox', () => {
  async function shell() {
    const dir = temporaryFolder()
    for (const folder of ['servers', 'keys', 'work']) mkdirSync(join(dir, folder))
    writeFileSync(join(dir, 'servers/server.mjs'), program('good'))
    writeFileSync(join(dir, 'servers/part.mjs'), "export const word = 'part'\n")
    writeFileSync(join(dir, 'keys/env.txt'), 'NOTES_KEY=key-of-notes\n')
    writeFileSync(join(dir, 'notes.txt'), 'mine\n')
    writeFileSync(join(dir, 'mcp.config.json'), 'canary')
    symlinkSync('work', join(dir, 'link'))
    const one = await startAppWithClient(
      { shell: { config: { enabled: true } } },
      {
        dir,
        settings: {
          modulesDir: 'modules',
          mcpServers: {
            notes: { command: 'node', args: ['servers/server.mjs'], envFile: 'keys/env.txt' },
            later: { command: 'node', args: ['plugins/later.mjs'] },
          },
        },
      },
    )
    /** Its output, whether it failed or not. */
    const bash = async (cmd: string): Promise<string> =>
      await one.call('shell.bash', { cmd: `${cmd}; true` }).then(({ stdout, stderr }) => stdout + stderr)
    return { ...one, bash }
  }

  test('cannot create a missing file that Pegboard would run or trust', async () => {
    const { bash, client, dir } = await shell()
    const before = readdirSync(dir)
    for (const path of ['modules/evil.mjs', 'node_modules/.bin/x', 'plugins/later.mjs', 'package.json', 'uv.toml'])
      expect(await bash(`mkdir -p "$(dirname ${path})" && echo evil > ${path}`), path).toContain(
        'Read-only file system',
      )
    const { content } = (await client.callTool({
      name: 'shell__bash',
      arguments: { cmd: 'mkdir modules; true' },
    })) as Answer
    expect(JSON.stringify(content)).toContain('Work in a folder below')
    for (const cmd of [
      'ln -s /tmp memory.jsonl',
      'mv work modules',
      'rm notes.txt',
      'mv servers old',
      'rm link',
      'echo evil > keys/other.txt',
      'echo evil > servers/part.mjs',
    ])
      expect(await bash(cmd), cmd).toMatch(/Read-only file system|Device or resource busy/)
    // Pegboard writes its lock file meanwhile.
    const others = (names: readonly string[]) =>
      names.filter((name) => name !== 'pegboard.lock.json' && name !== 'pegboard.lock.json.writing').toSorted()
    expect(others(readdirSync(dir))).toEqual(others(before))
    expect(readdirSync(join(dir, 'keys'))).toEqual(['env.txt'])
  })

  test('cannot create a package above the program of a server', async () => {
    const dir = temporaryFolder()
    for (const folder of ['apps/notes', 'work']) mkdirSync(join(dir, folder), { recursive: true })
    writeFileSync(join(dir, 'apps/notes/server.mjs'), program('good'))
    const { call } = await startAppWithClient(
      { shell: { config: { enabled: true } } },
      { dir, settings: { mcpServers: { notes: { command: 'node', args: ['apps/notes/server.mjs'] } } } },
    )
    const { stderr } = await call('shell.bash', { cmd: 'mkdir apps/node_modules work/node_modules; true' })
    expect(stderr).toMatch(/apps\/node_modules.*Read-only file system/)
    expect(existsSync(join(dir, 'work/node_modules'))).toBe(true)
  })

  test('can work in subfolders and on existing files', async () => {
    const { bash, dir } = await shell()
    expect(await bash('echo more >> notes.txt; cat notes.txt')).toBe('mine\nmore\n')
    expect(await bash('mkdir work/a && echo x > work/a/b && mv work/a link/c && ls link')).toBe('c\n')
    expect(readFileSync(join(dir, 'work/c/b'), 'utf8')).toBe('x\n')
    expect(await bash('cat keys/env.txt mcp.config.json')).not.toMatch(/canary|key-of-notes/)
  })

  test('reaches no file of Pegboard that another program replaces while it runs', async () => {
    const { call, dir } = await shell()
    const replaced = ['mcp.config.json', 'keys/env.txt', 'servers/part.mjs']
    const cmd = `until [ -e work/go ]; do sleep 0.05; done
      for f in ${replaced.join(' ')}; do cat $f; echo evil > $f; done; echo done`
    const { task_id } = await call('shell.background_run', { command: cmd, shell: true })
    await expect.poll(async () => (await call('shell.ps')).total).toBeGreaterThan(0)
    for (const path of replaced) {
      writeFileSync(join(dir, 'new'), path.startsWith('servers') ? 'program' : 'canary')
      renameSync(join(dir, 'new'), join(dir, path))
    }
    writeFileSync(join(dir, 'work/go'), '')
    const ended = await call('shell.task_wait', { task_id, timeout_seconds: 20 })
    const { stdout, stderr } = await call('shell.task_output', { task_id })
    expect([ended.status, `${stdout}${stderr}`]).toEqual(['ended', expect.stringContaining('done')])
    expect(`${stdout}${stderr}`).not.toContain('canary')
    for (const path of replaced) expect(readFileSync(join(dir, path), 'utf8'), path).not.toContain('evil')
  })
})

test('a model with the bundled sample configuration reaches none of these files', async () => {
  const dir = temporaryFolder()
  const sample = JSON.parse(readFileSync(join(import.meta.dirname, '../../mcp.config.json'), 'utf8'))
  writeFileSync(join(dir, 'mcp.config.json'), JSON.stringify(sample))
  mkdirSync(join(dir, 'modules'))
  symlinkSync(join(import.meta.dirname, '../../node_modules'), join(dir, 'node_modules'))
  const { client } = await connectToProcess({
    config: join(dir, 'mcp.config.json'),
    env: { PATH: process.env['PATH'], HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') },
  })
  const call = async (name: string, params: Record<string, unknown>): Promise<string> =>
    JSON.stringify(await client.callTool({ name: 'execute_tool', arguments: { name, params } }))
  const memory = join(dir, 'node_modules/@modelcontextprotocol/server-memory/dist/index.js')
  const before = readFileSync(memory)
  for (const path of [
    memory,
    join(dir, 'pegboard.lock.json'),
    join(dir, 'mcp.config.json'),
    join(dir, 'modules/x.mjs'),
    join(dir, 'server.js'),
    cli,
  ]) {
    expect(await call('filesystem.write', { path, content: 'x' }), path).toMatch(/E_PATH_(OUTSIDE_ROOT|DENIED)/)
    expect(await call('filesystem.read', { path }), path).toMatch(/E_PATH_(OUTSIDE_ROOT|DENIED)/)
  }
  expect(readFileSync(memory)).toEqual(before)
  expect(await call('filesystem.write', { path: 'notes.md', content: 'x' })).toContain('notes.md')
  expect(readFileSync(join(dir, 'data/notes.md'), 'utf8')).toBe('x')
})

test('with only PEGBOARD_STATE_DIR set, downloads in the cache work and the state stays untouched', async () => {
  const url = await serve((_request, answer) => void answer.end('bytes'))
  const { call, fails, dir } = await startAppWithClient({
    web: { config: { access: 'write', fetch: { allow_private_network: true } } },
  })
  expect(await call('web.url_fetch', { url, download_path: 'papers/a.txt' })).toMatchObject({
    path: 'file_cache_dir/papers/a.txt',
  })
  expect(readFileSync(join(dir, 'state/cache/files/papers/a.txt'), 'utf8')).toBe('bytes')
  expect(await call('filesystem.read', { path: 'file_cache_dir/papers/a.txt' })).toMatchObject({ content: 'bytes' })
  expect(await fails('web.url_fetch', { url, download_path: '../../token' })).toMatchObject({
    code: 'E_PATH_OUTSIDE_ROOT',
  })
})

test('secrets and undo of the user are protected when the configuration names another state folder', async () => {
  const dir = temporaryFolder()
  // Commands keep secrets and undo there, whatever the configuration says.
  const record = 'state/undo/20261128T120000Z-01234567'
  mkdirSync(join(dir, record), { recursive: true })
  mkdirSync(join(dir, 'docs'))
  writeFileSync(join(dir, 'docs/a.md'), 'a\n')
  const files = ['state/secrets.json', `${record}/0.before`, `${record}/record.json`]
  for (const path of files) writeFileSync(join(dir, path), 'key-of-the-user\n')
  for (const root of ['{{workspace}}', '{{workspace}}/state']) {
    const { fails, call } = await startAppWithClient(
      { filesystem: { config: { roots: [root], deny_names: [] } } },
      { dir, settings: { dirs: { state: 'elsewhere' } } },
    )
    const at = root.length > '{{workspace}}'.length ? 'state/'.length : 0
    for (const file of files) {
      const path = file.slice(at)
      for (const [tool, input] of [
        ['read', { path }],
        ['write', { path, content: '{}' }],
        ['cp', { from: path, to: 'copy.txt' }],
        ['rm', { path }],
      ] as const)
        expect(await fails(`filesystem.${tool}`, input), `${tool} ${path}`).toMatchObject(refused)
    }
    const forged = 'state/undo/20261128T130000Z-01234567/record.json'.slice(at)
    expect(await fails('filesystem.write', { path: forged, content: '{}' })).toMatchObject(refused)
    if (at === 0) await call('filesystem.write', { path: 'docs/b.md', content: 'b' })
  }
  for (const path of files) expect(readFileSync(join(dir, path), 'utf8')).toBe('key-of-the-user\n')
})
