import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run } from '../../src/cli/run-command.ts'
import { temporaryFolder } from '../app.ts'
import { terminal } from './terminal.ts'

const server = (id: string): string => JSON.stringify({ mcpServers: { [id]: { command: 'no-such-program' } } })

/** A home folder that contains a project. */
function home() {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'project/deep/er'), { recursive: true })
  mkdirSync(join(dir, '.config/pegboard'), { recursive: true })
  writeFileSync(join(dir, 'project/mcp.config.json'), server('of-project'))
  return { dir, own: join(dir, '.config/pegboard/mcp.config.json') }
}

async function list(
  dir: string,
  cwd: string,
  { answer, env = {}, flags = [] }: { answer?: string; env?: Record<string, string>; flags?: readonly string[] } = {},
) {
  const { io, out, err, input } = terminal(join(dir, cwd))
  if (answer !== undefined) input.write(`${answer}\n`)
  const world = {
    ...io,
    env: { ...io.env, HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state'), ...env },
    ...(answer === undefined ? {} : { terminal: { out: false, err: true } }),
  }
  const code = await run(['list', 'servers', '--wait', '0', ...flags], world)
  return { code, out: out(), err: err() }
}

describe.runIf(process.platform === 'linux')('the configuration file', () => {
  it('is the nearest one upwards, after confirmation on a terminal', async () => {
    const { dir } = home()
    const asked = await list(dir, 'project/deep/er', { answer: 'yes' })
    expect(asked.err).toContain(
      `Use ${join(dir, 'project/mcp.config.json')}? It decides which programs run here as you. [y/N] `,
    )
    expect(asked.out).toContain('of-project')
    const again = await list(dir, 'project')
    expect(again).toMatchObject({ code: 0, out: expect.stringContaining('of-project') })
    expect(again.err).not.toContain('[y/N]')
  })

  it('is ignored without confirmation: list says so and fails', async () => {
    const { dir } = home()
    expect(await list(dir, 'project')).toMatchObject({
      code: 1,
      out: 'No servers: mcp.config.json is ignored.\n',
      err: expect.stringContaining(
        'mcp.config.json is ignored. To use it, run pegboard in a terminal here and confirm it, or pass --config mcp.config.json',
      ),
    })
    expect(await list(dir, 'project/deep', { answer: 'no' })).toMatchObject({
      code: 1,
      out: 'No servers: ../mcp.config.json is ignored.\n',
    })
    expect((await list(dir, '.')).out).toBe('No servers.\n')
  })

  it('is not read without confirmation: search says so and fails, also with --json', async () => {
    const { dir } = home()
    const search = async (...words: string[]) => {
      const { io, out } = terminal(join(dir, 'project'))
      const env = { ...io.env, HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') }
      const code = await run(['search', '--wait', '0', ...words], { ...io, env })
      return { code, out: out() }
    }
    const unlike = 'zqxjv'
    expect(await search(unlike)).toEqual({ code: 1, out: 'Nothing matches: mcp.config.json is ignored.\n' })
    expect(await search(unlike, '--json')).toEqual({ code: 1, out: '[]\n' })
  })

  it("is --config, then PEGBOARD_CONFIG, then a confirmed file, then the user's", async () => {
    const { dir, own } = home()
    writeFileSync(own, server('of-user'))
    writeFileSync(join(dir, 'env.json'), server('of-env'))
    writeFileSync(join(dir, 'flag.json'), server('of-flag'))
    const env = { PEGBOARD_CONFIG: join(dir, 'env.json') }
    expect((await list(dir, 'project')).out).toContain('of-user')
    expect((await list(dir, '.')).out).toContain('of-user')
    expect((await list(dir, 'project', { answer: 'y' })).out).toContain('of-project')
    expect((await list(dir, 'project', { env })).out).toContain('of-env')
    expect((await list(dir, 'project', { env, flags: ['--config', join(dir, 'flag.json')] })).out).toContain('of-flag')
  })
})
