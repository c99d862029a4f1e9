import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { describe, expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { serve } from '../modules/web-servers.ts'
import { cli } from '../process.ts'
import { type Served, served } from './served.ts'

/** A server that says what it is in its one tool, and keeps part of itself in another file. */
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
): Promise<Served> {
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
  const one = await served(
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

describe('what Pegboard runs', () => {
  test('a model that may write the workspace cannot change the program of a server, then reconnect it', async () => {
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

  test('a folder above the program is not renamed, removed or replaced', async () => {
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

  test('a link leads to no way around, neither on the way to the program nor beside it', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'real/notes'), { recursive: true })
    writeFileSync(join(dir, 'real/notes/server.mjs'), program('good'))
    writeFileSync(join(dir, 'real/notes/part.mjs'), "export const word = 'part'\n")
    symlinkSync('real', join(dir, 'linked'))
    symlinkSync('real/notes', join(dir, 'beside'))
    const { fails } = await served(
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

  test('modules, packages and the folder that an interpreter starts in take no code; documents are written everywhere', async () => {
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

  test('a folder for data inside the folder of a server is free', async () => {
    const { call } = await workspace({ roots: ['{{workspace}}/docs'] }, { command: 'python3', args: ['-m', 'notes'] })
    expect(await call('filesystem.write', { path: 'tool.py', content: 'x' })).toMatchObject({ path: 'tool.py' })
  })

  test('other modules that write files keep their hands off, too', async () => {
    const { fails } = await served(
      { http: { config: { access: 'write', allow_private_hosts: true } } },
      { settings: { mcpServers: { notes: { command: 'node', args: ['server.mjs'] } } } },
    )
    for (const destination of ['server.mjs', 'lib/part.mjs', 'pegboard.lock.json'])
      expect(await fails('http.download', { url: 'http://127.0.0.1:9/', destination }), destination).toMatchObject(
        refused,
      )
  })
})

describe('what Pegboard trusts and keeps secret', () => {
  const LINKED = 'docs/link.txt'

  test('the lock, the audit log, the configuration, env files and the state are not written', async () => {
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

  test('secrets are neither read, found, listed nor followed to', async () => {
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
    expect(await call('filesystem.grep', { pattern: 'key-of-notes' })).toMatchObject({ total: 0 })
    const { entries } = await call('filesystem.ls')
    expect(entries.map(({ path }: { path: string }) => path)).not.toContain('secrets.txt')
    expect(await call('filesystem.find', { pattern: '**/audit*' })).toMatchObject({ count: 0 })
  })

  test('an exact path in allowed_paths opens none of it', async () => {
    const { fails } = await workspace({ allowed_paths: ['secrets.txt', 'pegboard.lock.json'] })
    expect(await fails('filesystem.read', { path: 'secrets.txt' })).toMatchObject(refused)
    expect(await fails('filesystem.write', { path: 'pegboard.lock.json', content: '' })).toMatchObject(refused)
  })
})

test('a model with the sample configuration that comes with Pegboard reaches none of it', async () => {
  const dir = temporaryFolder()
  const sample = JSON.parse(readFileSync(join(import.meta.dirname, '../../mcp.config.json'), 'utf8'))
  writeFileSync(join(dir, 'mcp.config.json'), JSON.stringify(sample))
  mkdirSync(join(dir, 'modules'))
  symlinkSync(join(import.meta.dirname, '../../node_modules'), join(dir, 'node_modules'))
  const client = new Client({ name: 'injected', version: '1' })
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [cli, 'serve', '--stdio', '--config', join(dir, 'mcp.config.json')],
      env: { PATH: process.env['PATH'] ?? '', HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') },
      stderr: 'ignore',
    }),
  )
  onTestFinished(() => client.close())
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

test('with PEGBOARD_STATE_DIR alone, whose cache lies in the state folder, downloads are kept and the state is not touched', async () => {
  const url = await serve((_request, answer) => void answer.end('bytes'))
  const { call, fails, dir } = await served({
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
