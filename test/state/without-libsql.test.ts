import { cpSync, existsSync, mkdirSync, symlinkSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { callsOf, cli, place, run, talkTo } from '../process.ts'

/** An installation of Pegboard as npm makes it: with its dependencies, without optional packages. */
function installPackage(): string {
  const root = temporaryFolder()
  const packageRoot = join(root, 'node_modules/pegboard')
  mkdirSync(packageRoot, { recursive: true })
  for (const name of ['dist', 'models', 'package.json'])
    cpSync(resolve(dirname(cli), '../..', name), join(packageRoot, name), { recursive: true })
  for (const name of ['undici', 'zod']) symlinkSync(resolve('node_modules', name), join(root, 'node_modules', name))
  return join(packageRoot, 'dist/cli/main.js')
}

const hasBuiltIn = isBuiltin('node:sqlite')

describe.runIf(!hasBuiltIn)('on a version of Node.js without SQLite, and without libsql', () => {
  it('keeps jobs in memory and logs one warning that names the package to install', async () => {
    const here = place({ exposure: { mode: 'direct' }, execution: { scheduler: true, watchers: true } })
    const talk = await talkTo(here, [], undefined, installPackage())
    const call = callsOf(talk)
    for (const label of ['tea', 'coffee'])
      await call('schedule_once', { when: 'in 1d', name: 'hello.say_hello', label })
    expect((await call('schedule_list')).structuredContent.total).toBe(2)
    const warnings = talk
      .stderr()
      .split('\n')
      .filter((line) => line.includes('libsql'))
    expect(warnings).toEqual([expect.stringMatching(/kept in memory.*npm install libsql/)])
    expect(existsSync(join(here.dir, 'state/state.db'))).toBe(false)
  })

  it('remembers facts until it stops', async () => {
    const here = place({ exposure: { mode: 'direct' }, execution: { scheduler: true, watchers: true } })
    const talk = await talkTo(here, [], undefined, installPackage())
    await callsOf(talk)('remember', { content: 'Ada likes tea.' })
    talk.send({ id: 1, method: 'prompts/get', params: { name: 'system_prompt' } })
    expect(JSON.stringify(await talk.answer(1))).toContain('Ada likes tea.')
  })

  it('refuses to start with state.exclusive, which needs SQLite', async () => {
    const { config, env } = place({ state: { exclusive: true } })
    const serving = run(process.execPath, [installPackage(), 'serve', '--stdio', '--config', config], { env })
    await expect(serving).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining('npm install libsql') })
  })

  it('refuses calls of the module database for SQLite with what to install', async () => {
    const here = place({
      exposure: { mode: 'direct' },
      modules: { database: { config: { connections: { notes: { driver: 'sqlite', database: ':memory:' } } } } },
    })
    const talk = await talkTo(here, [], undefined, installPackage())
    const { error } = (await callsOf(talk)('database__query', { sql: 'SELECT 1' })).structuredContent
    expect(error).toMatchObject({
      code: 'E_DB_UNAVAILABLE',
      message: expect.stringContaining('SQLite is not available'),
      hint: expect.stringContaining('npm install libsql'),
    })
  })
})
