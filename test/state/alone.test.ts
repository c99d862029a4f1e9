import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { cli, place, run, serveHttp } from '../process.ts'

const refused = (where: ReturnType<typeof place>) =>
  run(process.execPath, [cli, 'serve', '--http', '--port', '0', '--json', '--config', where.config], {
    env: where.env,
    timeout: 15_000,
  }).then(
    () => ({ stderr: 'it started' }),
    (error: { stderr: string }) => error,
  )

it('a second process is refused a folder that one has alone, and gets it as soon as that one is killed [STA-07]', async () => {
  const where = place({ state: { exclusive: true } })
  const first = await serveHttp(where)
  const { stderr } = await refused(where)
  expect(stderr).toContain('E_STATE')
  expect(stderr).toContain(`is held by process ${first.child.pid}.`)
  expect(stderr).toContain('state.exclusive')
  // What keeps nothing may look all the same.
  expect((await run(process.execPath, [cli, 'list', '--config', where.config], { env: where.env })).stdout).toContain(
    'hello',
  )
  const gone = once(first.child, 'exit')
  first.child.kill('SIGKILL')
  await gone
  const second = await serveHttp(where)
  expect((await refused(where)).stderr).toContain(`is held by process ${second.child.pid}.`)
}, 40_000)

it('several processes share a folder that nobody has alone', async () => {
  const where = place()
  const [one, other] = await Promise.all([serveHttp(where), serveHttp(where)])
  expect([one.child.exitCode, other.child.exitCode]).toEqual([null, null])
  expect(readdirSync(join(where.dir, 'state'))).not.toContain('alone.db')
})

it('of several that start at once on a folder for one, one has it', async () => {
  const where = place({ state: { exclusive: true } })
  const started = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const child = spawn(
        process.execPath,
        [cli, 'serve', '--http', '--port', '0', '--json', '--config', where.config],
        { env: where.env, stdio: ['ignore', 'pipe', 'ignore'] },
      )
      const ended = once(child, 'exit')
      onTestFinished(async () => {
        child.kill('SIGKILL')
        await ended
      })
      return Promise.race([once(child.stdout, 'data').then(() => true), ended.then(() => false)])
    }),
  )
  expect(started.filter(Boolean)).toHaveLength(1)
}, 40_000)
