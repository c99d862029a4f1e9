import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run } from '../../src/cli/run-command.ts'
import { temporaryFolder } from '../app.ts'
import { terminal } from './terminal.ts'

const SECRET = 'correct horse battery'

async function command(dir: string, argv: readonly string[], typed?: string, isTTY = false) {
  const { io, out, err, input } = terminal(dir, isTTY)
  const raw: boolean[] = []
  Object.assign(input, { setRawMode: (on: boolean) => raw.push(on) })
  if (typed !== undefined) input.write(typed)
  if (!isTTY) input.end()
  const code = await run(argv, { ...io, env: { ...io.env, PEGBOARD_KEYRING: 'off' } })
  return { code, out: out(), err: err(), raw }
}

describe('pegboard secret', () => {
  it('stores a secret from stdin in a private file, and gives it to the configuration', async () => {
    const dir = temporaryFolder()
    expect(await command(dir, ['secret', 'set', 'GITHUB_TOKEN'], `${SECRET}\n`)).toMatchObject({
      code: 0,
      out: `GITHUB_TOKEN is stored in a file only you can read. Use it as \${keyring:GITHUB_TOKEN}.\n`,
      err: '',
    })
    const file = join(dir, '.state/secrets.json')
    if (process.platform !== 'win32') expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ secrets: { GITHUB_TOKEN: { value: SECRET } } })

    const config = join(dir, 'mcp.config.json')
    const server = (name: string) => ({
      url: 'http://127.0.0.1:9/mcp',
      headers: { Authorization: `Bearer \${keyring:${name}}` },
    })
    writeFileSync(config, JSON.stringify({ mcpServers: { a: server('GITHUB_TOKEN'), b: server('OTHER') } }))
    const listed = await command(dir, ['list', 'servers', '--wait', '0', '--config', config])
    expect(listed.out).toContain(
      `mcpServers.b.headers.Authorization needs the secret OTHER, which is not set (pegboard --config ${config} secret set OTHER)`,
    )
    expect(listed.err + listed.out).not.toContain('mcpServers.a')
    expect(listed.err + listed.out).not.toContain(SECRET)
    // Commands that do not need the server do not mention it.
    expect((await command(dir, ['call', 'hello.say_hello', '--config', config])).err).toBe('')
    expect((await command(dir, ['call', 'b.search', '--config', config])).err).toContain('needs the secret OTHER')
    const tools = await command(dir, ['list', '--wait', '0', '--config', config])
    expect(tools.err).toContain('pegboard: warning: mcp_b: mcpServers.b.headers.Authorization needs the secret OTHER')
  })

  it('reads a secret from a terminal without showing it', async () => {
    const dir = temporaryFolder()
    const typed = await command(dir, ['secret', 'set', 'A.b-c'], 'secrex\u007ft\rignored', true)
    expect(typed).toMatchObject({ code: 0, raw: [true, false], err: 'Value of A.b-c (not shown): \n' })
    expect(readFileSync(join(dir, '.state/secrets.json'), 'utf8')).toContain('"value": "secret"')
    expect(await command(dir, ['secret', 'set', 'B'], '\u0003', true)).toMatchObject({ code: 2, raw: [true, false] })
  })

  it('lists names but never values, and removes secrets', async () => {
    const dir = temporaryFolder()
    await command(dir, ['secret', 'set', 'TWO'], SECRET)
    await command(dir, ['secret', 'set', 'ONE'], SECRET)
    expect((await command(dir, ['secret'])).out).toBe('ONE  a file only you can read\nTWO  a file only you can read\n')
    expect(JSON.parse((await command(dir, ['secret', 'list', '--json'])).out)).toEqual({
      secrets: [
        { name: 'ONE', place: 'file' },
        { name: 'TWO', place: 'file' },
      ],
    })
    expect(await command(dir, ['secret', 'rm', 'ONE'])).toMatchObject({ code: 0, out: 'ONE is removed.\n' })
    expect(await command(dir, ['secret', 'rm', 'ONE'])).toMatchObject({
      code: 1,
      err: 'pegboard: E_NOT_FOUND: There is no secret ONE. See pegboard secret list.\n',
    })
    expect((await command(dir, ['secret', 'list'])).out).toBe('TWO  a file only you can read\n')
  })

  it('refuses a value on the command line without repeating it', async () => {
    const refused = await command(temporaryFolder(), ['secret', 'set', 'NAME', SECRET])
    expect(refused).toMatchObject({
      code: 2,
      err: expect.stringContaining('Type or pipe the value: it does not belong on the command line'),
    })
    expect(refused.err).not.toContain(SECRET)
    expect(await command(temporaryFolder(), ['secret', 'set', 'a b'])).toMatchObject({ code: 2 })
    expect(await command(temporaryFolder(), ['secret', 'set', 'EMPTY'], '\n')).toMatchObject({
      code: 2,
      err: expect.stringContaining('no value was given for EMPTY'),
    })
  })
})
