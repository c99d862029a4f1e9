import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { folder, notesModule, pegboard } from '../cli/terminal.ts'

vi.setConfig({ testTimeout: 60_000 })

function at(files: Readonly<Record<string, string | object>> = {}): string {
  const { dir, remove } = folder(files)
  onTestFinished(remove)
  return dir
}

/** A pipe without a writer; a process that opens it is released when the test ends. */
function pipe(file: string): void {
  execFileSync('mkfifo', [file])
  onTestFinished(async () => {
    const writer = spawn('sh', ['-c', 'exec 3<>"$0"', file])
    await once(writer, 'exit')
  })
}

test.skipIf(process.platform === 'win32')(
  'a configuration that is a pipe or device, or a link to one, is rejected immediately',
  async () => {
    const dir = at()
    pipe(join(dir, 'pipe.json'))
    symlinkSync('/dev/zero', join(dir, 'zero.json'))
    for (const file of ['pipe.json', 'zero.json', '/dev/zero'])
      expect(await pegboard(dir, 'token', 'list', '--config', file)).toMatchObject({
        code: 1,
        out: '',
        err: expect.stringMatching(/^pegboard: E_CONFIG_MISSING: The configuration file \S+ is not a regular file\./),
      })
  },
)

test.skipIf(process.platform === 'win32')(
  'a module or API document that is a pipe or device is skipped with its reason, and the others load',
  async () => {
    const dir = at({
      'c.json': { openapi: { a: { document: './a.yaml' }, b: { document: './b.yaml' } } },
      'modules/_x.mjs': '',
    })
    pipe(join(dir, 'modules', 'pipe.mjs'))
    symlinkSync('/dev/zero', join(dir, 'modules', 'zero.mjs'))
    pipe(join(dir, 'a.yaml'))
    symlinkSync('/dev/zero', join(dir, 'b.yaml'))
    const { code, out } = await pegboard(dir, 'check', '--json', '--config', 'c.json')
    expect(code).toBe(1)
    const { errors, categories } = JSON.parse(out)
    expect(errors).toEqual([
      expect.stringMatching(/^pipe\.mjs: .*it is not a regular file/),
      expect.stringMatching(/^zero\.mjs: .*it is not a regular file/),
      expect.stringMatching(/^api_a .*the file is not a regular file/),
      expect.stringMatching(/^api_b .*the file is not a regular file/),
    ])
    expect(categories.map(({ id }: { id: string }) => id)).toEqual(expect.arrayContaining(['filesystem', 'hello']))
  },
)

test('names of Object.prototype are not commands or options', async () => {
  const dir = at()
  for (const word of ['constructor', 'toString', '__proto__', 'hasOwnProperty']) {
    expect(await pegboard(dir, 'list', word)).toMatchObject({
      code: 2,
      err: expect.stringContaining(`list takes tools, modules or servers, not "${word}"`),
    })
    expect(await pegboard(dir, 'token', word)).toMatchObject({
      code: 2,
      err: expect.stringContaining('token takes create <name>, list or revoke <id or name>'),
    })
  }
})

test('a token whose tools do not exist is created with a warning that suggests similar names', async () => {
  const dir = at({
    'c.json': { mcpServers: { github: { command: 'true', enabled: true } } },
    'modules/notes.mjs': notesModule,
  })
  const make = (name: string, ...tools: string[]) =>
    pegboard(dir, 'token', 'create', name, ...tools.flatMap((one) => ['--tools', one]), '--config', 'c.json')
  const { code, out, err } = await make('a', 'filesytem.*', 'hello.say_hello', 'filesystem.raed')
  expect({ code, isToken: /^pegboard_\S+\n$/.test(out) }).toEqual({ code: 0, isToken: true })
  expect(err.split('\n').filter((line) => line.includes('warning'))).toEqual([
    'pegboard: warning: --tools "filesytem.*" matches no tool; did you mean "filesystem"?',
    'pegboard: warning: --tools "filesystem.raed" matches no tool; did you mean "filesystem.read"?',
  ])
  // The tools of a server that was never connected are unknown.
  for (const tools of [['*'], ['hello.*'], ['filesystem__read'], ['notes.*'], ['mcp_github.*'], ['github.list_issues']])
    expect((await make(`fits_${tools.join('_').replaceAll('*', 'all')}`, ...tools)).err).not.toContain('warning')
})

test('a token has no pattern or role that is empty, too long or contains control characters', async () => {
  const dir = at()
  for (const words of [
    ['--tools', ''],
    ['--tools', ' '],
    ['--tools', 'a\nb'],
    ['--tools', '\u001b[31mx'],
    ['--tools', '*'.repeat(1_000)],
    ['--role', ''],
    ['--role', 'admin\nfake'],
    ['--role', '\u202eadmin'],
  ])
    expect(await pegboard(dir, 'token', 'create', 'a', ...words)).toMatchObject({ code: 2, out: '' })
  expect((await pegboard(dir, 'token', 'list')).out).toContain('No tokens exist.')
})

test('check reports configured tokens whose tools do not exist', async () => {
  const token = 'abcdefabcdefabcdefabcdef'
  const tokens = [{ token, principal: 'ci', tools: ['hello.*', 'nothere.*'] }]
  const dir = at({ 'c.json': { server: { http: { tokens } } } })
  const { code, out } = await pegboard(dir, 'check', '--json', '--config', 'c.json')
  expect(code).toBe(0)
  expect(JSON.parse(out).warnings).toEqual(['server.http.tokens.0.tools names "nothere.*", which matches no tool.'])
  expect(out).not.toContain(token)
})
