import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { servers } from '../app.ts'
import { LISTED } from '../listed-server.ts'
import { folder, pegboard } from './terminal.ts'

const made: ReturnType<typeof folder>[] = []
const at = (): string => {
  const one = folder({ 'other.json': { profiles: { work: {} } } })
  made.push(one)
  return one.dir
}
afterEach(() => made.splice(0).forEach((one) => void one.remove()))

it('a token is shown once, and only its digest is stored, in a private file', async () => {
  const dir = at()
  const { code, out, err } = await pegboard(dir, 'token', 'create', 'ci')
  expect(code).toBe(0)
  expect(out).toMatch(/^pegboard_[0-9a-f]{12}_[\w-]{43}\n$/)
  expect(err).toBe('Pegboard shows this token only once. Its name is ci. To revoke it, run pegboard token revoke ci.\n')
  const tokens = join(dir, '.state', 'tokens')
  const [file = ''] = readdirSync(tokens)
  const text = readFileSync(join(tokens, file), 'utf8')
  expect(text).not.toContain(out.trim().slice(-43))
  expect(JSON.parse(text)).toMatchObject({
    name: 'ci',
    principal: 'ci',
    digest: expect.stringMatching(/^[0-9a-f]{64}$/),
  })
  if (process.platform !== 'win32')
    expect([statSync(tokens).mode & 0o777, statSync(join(tokens, file)).mode & 0o777]).toEqual([0o700, 0o600])
  expect((await pegboard(dir, 'token', 'list')).out).not.toContain(out.trim().slice(-43))
})

it('list names the owners of tokens in the configuration', async () => {
  const dir = at()
  const tokens = ['ann', 'bob'].map((principal) => ({ token: `a-token-of-${principal}-in-the-file`, principal }))
  writeFileSync(join(dir, 'some.json'), JSON.stringify({ server: { http: { token: 'operator-token-0123', tokens } } }))
  const list = (...words: string[]) => pegboard(dir, 'token', 'list', ...words, '--config', 'some.json')
  const configured = 'The configuration has 3 tokens: of local, ann, bob.\n'
  expect((await list()).out).toBe(
    `No tokens were created. To create one, run pegboard --config some.json token create <name>.\n${configured}`,
  )
  expect(JSON.parse((await list('--json')).out)).toEqual([])
  await pegboard(dir, 'token', 'create', 'ci', '--config', 'some.json')
  expect((await list()).out).toMatch(new RegExp(`^[0-9a-f]{12} +ci +valid until revoked\n${configured}$`))
})

it('warns for a token that lacks the limits of the tokens of its principal in the configuration', async () => {
  const dir = at()
  const token = 'a-token-of-ann-in-the-file'
  const ann = { token, principal: 'ann', profile: 'work', tools: ['hello.*'] }
  const settings = {
    profiles: { work: {} },
    server: { http: { tokens: [ann, { token: `${token}2`, principal: 'bob' }] } },
  }
  writeFileSync(join(dir, 'some.json'), JSON.stringify(settings))
  const warnings = async (...words: string[]): Promise<string[]> =>
    (await pegboard(dir, 'token', 'create', ...words, '--config', 'some.json')).err.split('\n').slice(0, -2)
  const warning =
    'pegboard: warning: server.http.tokens limits the tokens of ann, and this token does not have the same limits: see'
  expect(await warnings('ann')).toEqual([`${warning} --profile, --tools`])
  expect(await warnings('a', '--principal', 'ann', '--profile', 'work')).toEqual([`${warning} --tools`])
  expect(await warnings('b', '--principal', 'ann', '--profile', 'work', '--tools', 'hello.*')).toEqual([])
  expect(await warnings('bob')).toEqual([])
  expect(await warnings('new')).toEqual([])
})

it('warns for a read-only token about servers whose annotations are not trusted', async () => {
  const box = servers.memory('/nowhere/memory.jsonl')
  const one = folder({
    'mcp.config.json': { mcpServers: { box } },
    'believed.json': { mcpServers: { box: { ...box, trustHints: true } } },
  })
  made.push(one)
  // The warning needs a known server.
  await pegboard(one.dir, 'list', 'servers', '--config', 'mcp.config.json')
  const told = async (config: string, ...words: string[]): Promise<string[]> =>
    (await pegboard(one.dir, 'token', 'create', ...words, '--config', config)).err.split('\n').slice(0, -2)
  const warning =
    'pegboard: warning: --effect read leaves out 2 tools of mcp_box, because only the server declares them read-only. Set mcpServers.box.trustHints to true to trust it.'
  expect(await told('mcp.config.json', 'a', '--effect', 'read')).toEqual([warning])
  expect(await told('mcp.config.json', 'b', '--effect', 'read', '--tools', 'box.*')).toEqual([warning])
  expect(await told('mcp.config.json', 'c', '--effect', 'read', '--tools', 'hello.*')).toEqual([])
  expect(await told('mcp.config.json', 'd', '--effect', 'write', '--tools', 'box.*')).toEqual([])
  expect(await told('believed.json', 'e', '--effect', 'read')).toEqual([])
}, 60_000)

it('warns for a token that matches no tool, unless the tools are labelled', async () => {
  const program = { command: process.execPath, args: [LISTED, 'tools.json'] }
  const one = folder({
    'tools.json': { tools: ['describe_table', 'read_query', 'drop_table'].map((name) => ({ name })) },
    'mcp.config.json': { mcpServers: { sqlite: program } },
    'all.json': { mcpServers: { sqlite: { ...program, effect: 'read' } } },
    'one.json': { mcpServers: { sqlite: { ...program, tools: { describe_table: { effect: 'read' } } } } },
  })
  made.push(one)
  const told = async (config: string, name: string): Promise<string[]> => {
    await pegboard(one.dir, 'list', 'servers', '--config', config)
    const words = ['--effect', 'read', '--tools', 'sqlite.*', '--config', config]
    return (await pegboard(one.dir, 'token', 'create', name, ...words)).err.split('\n').slice(0, -2)
  }
  expect(await told('mcp.config.json', 'a')).toEqual([
    'pegboard: warning: the token can use no tool: none of 3 tools that it names counts as "read". Set "effect" of their server, or of single tools, to say what they do.',
  ])
  expect(await told('all.json', 'b')).toEqual([])
  expect(await told('one.json', 'c')).toEqual([])
}, 60_000)

it('the purpose of a token is printed, listed, and available as JSON', async () => {
  const dir = at()
  const words = [
    '--principal',
    'ann',
    '--profile',
    'work',
    '--role',
    'admin',
    '--role',
    'auditor',
    '--tools',
    'github.*',
  ]
  const { out } = await pegboard(
    dir,
    ...['token', 'create', 'laptop', ...words, '--effect', 'read', '--expires', '30d'],
    ...['--json', '--config', 'other.json'],
  )
  const answer = JSON.parse(out) as Record<string, string>
  const { token, id, created_at: created = '', expires_at: expires = '', ...rest } = answer
  expect(token).toContain(`pegboard_${id}_`)
  expect(rest).toEqual({
    name: 'laptop',
    principal: 'ann',
    profile: 'work',
    roles: ['admin', 'auditor'],
    tools: ['github.*'],
    effect: 'read',
    state: 'valid',
  })
  expect(Date.parse(expires) - Date.parse(created)).toBe(30 * 86_400_000)
  expect((await pegboard(dir, 'token', 'list')).out).toBe(
    `${id}  laptop  valid until ${expires} (principal ann; profile work; roles admin, auditor; tools github.*; effect read)\n`,
  )
})

it('a token is revoked by name or id', async () => {
  const dir = at()
  const one = JSON.parse((await pegboard(dir, 'token', 'create', 'one', '--json')).out) as { id: string }
  await pegboard(dir, 'token', 'create', 'two')
  expect(JSON.parse((await pegboard(dir, 'token', 'revoke', one.id, '--json')).out)).toEqual({ revoked: [one.id] })
  expect((await pegboard(dir, 'token', 'revoke', 'two')).code).toBe(0)
  expect((await pegboard(dir, 'token')).out).toBe('No tokens exist. To create one, run pegboard token create <name>.\n')
  expect(await pegboard(dir, 'token', 'revoke', 'two')).toMatchObject({
    code: 1,
    err: 'pegboard: E_NOT_FOUND: There is no token "two". pegboard token list shows them.\n',
  })
})

it.each([
  [['create'], 'token create takes the name of the token'],
  [['create', 'a b'], '"a b" is not a valid name'],
  [['create', 'x', '--principal', 'a\nb'], 'is not a valid name'],
  [['create', 'x', '--principal', 'local'], 'local is the name of the person who runs Pegboard'],
  [['create', 'x', '--expires', 'soon'], '--expires takes minutes, hours, days or weeks'],
  [['create', 'x', '--expires', '0d'], '--expires takes minutes, hours, days or weeks'],
  [['create', 'x', '--effect', 'all'], '--effect takes read, write, destructive, not "all"'],
  [['create', 'x', '--profile', 'home'], 'there is no profile "home"'],
  [['forget', 'x'], 'token takes create <name>, list or revoke <id or name>'],
  [['revoke'], 'token revoke takes the id or the name of a token'],
])('%j is rejected', async (words, why) => {
  const { code, err } = await pegboard(at(), 'token', ...words)
  expect(code).toBe(2)
  expect(err).toContain(why)
})

it('a second token of one name is rejected while the first is valid', async () => {
  const dir = at()
  await pegboard(dir, 'token', 'create', 'ci')
  expect(await pegboard(dir, 'token', 'create', 'ci')).toMatchObject({
    code: 2,
    err: expect.stringContaining('a token "ci" exists already; revoke it with pegboard token revoke ci'),
  })
})
