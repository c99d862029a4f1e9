import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/client'
import { expect, it } from 'vitest'
import { connectOverHttp } from '../client.ts'
import { place, serveHttp } from '../process.ts'

const NOTE = `
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
export default { name: 'note', description: 'Notes.', tools: { write: {
  description: 'Writes down who it was called for, with which roles.', effect: 'write', context: true,
  run: (_input, { caller }) => appendFileSync(join(process.env.HOME, 'notes.txt'), caller.principal + ' ' + caller.roles.join() + '\\n'),
} } }`
const ANN = 'a-token-that-ann-has'
const BOB = 'a-token-that-bob-has'

it("work planned with a token runs with the token's current roles after a restart, and not at all if it is gone", async () => {
  const settings = (tokens: object[]) => ({
    exposure: { mode: 'direct' },
    execution: { watchers: true, scheduler: true },
    server: { http: { tokens: [{ token: BOB, principal: 'bob' }, ...tokens] } },
  })
  const ann = (...roles: string[]) => ({ token: ANN, principal: 'ann', roles })
  const where = place(settings([ann('admin')]), { 'note.mjs': NOTE })
  const notes = (): string => {
    try {
      return readFileSync(join(where.dir, 'notes.txt'), 'utf8')
    } catch {
      return ''
    }
  }
  const serve = async (tokens: object[]) => {
    writeFileSync(where.config, JSON.stringify(settings(tokens)))
    const { url, child } = await serveHttp(where)
    const connect = (token: string): Promise<Client> => connectOverHttp(url, token, 'modern')
    const stop = async (): Promise<void> => {
      const gone = new Promise((done) => child.once('exit', done))
      child.kill('SIGTERM')
      await gone
    }
    return { connect, stop }
  }
  const plan = async (client: Client, label: string) =>
    client.callTool({ name: 'schedule_once', arguments: { when: 'in 3s', name: 'note.write', label } })

  const first = await serve([ann('admin')])
  await plan(await first.connect(ANN), 'one')
  await first.stop()
  const second = await serve([ann('reader')])
  await expect.poll(notes).toBe('ann reader\n')
  await plan(await second.connect(ANN), 'two')
  await second.stop()

  const third = await serve([])
  await expect(third.connect(ANN)).rejects.toThrow()
  await plan(await third.connect(BOB), 'mine')
  await expect.poll(notes).toBe('ann reader\nbob \n')
  await third.stop()

  const last = await serve([ann('reader')])
  const told = JSON.stringify(await (await last.connect(ANN)).callTool({ name: 'schedule_list', arguments: {} }))
  expect(told).toContain('[NOTICE] Scheduled job two (note.write)')
  expect(told).toContain('E_OWNER_GONE: Pegboard does nothing for \\"ann\\" now: it has no token any more.')
  expect(notes()).toBe('ann reader\nbob \n')
}, 90_000)
