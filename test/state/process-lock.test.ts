import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { cli, place, serveHttp } from '../process.ts'

it('several processes share a folder without a lock', async () => {
  const where = place()
  const [one, other] = await Promise.all([serveHttp(where), serveHttp(where)])
  expect([one.child.exitCode, other.child.exitCode]).toEqual([null, null])
  expect(readdirSync(join(where.dir, 'state'))).not.toContain('alone.db')
})

it('of several processes that start at once on a locked folder, one gets it', async () => {
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
