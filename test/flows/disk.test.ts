import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Answer, answerOf } from '../app.ts'
import { cli, place } from '../process.ts'

/** A disk of its own needs a namespace of its own. */
const NAMESPACE = process.getuid?.() === 0 ? ['-m'] : ['-Urm']
const canMount =
  process.platform === 'linux' &&
  spawnSync('unshare', [...NAMESPACE, 'mount', '-t', 'tmpfs', 'tmpfs', tmpdir()]).status === 0
if (!canMount) process.stderr.write('No mounts here: a full disk is not tested.\n')

/** Runs inside, where the disk is. */
const DISK = `
import { closeSync, openSync, readdirSync, rmSync, writeSync } from 'node:fs'
const dir = process.env.PEGBOARD_STATE_DIR
const tool = (effect, run) => ({ description: 'Does something to the disk with the state folder.', input: { type: 'object', properties: { ms: { type: 'integer' }, why: { type: 'string' } } }, effect, run })
export default {
  name: 'disk',
  description: 'A disk that can be full.',
  tools: {
    fill: tool('write', () => {
      const file = openSync(dir + '/ballast', 'w')
      try {
        for (const size of [1 << 16, 1 << 12]) try { for (;;) writeSync(file, Buffer.alloc(size)) } catch (error) { if (error.code !== 'ENOSPC') throw error }
      } finally { closeSync(file) }
      return { is: 'full' }
    }),
    free: tool('write', () => { rmSync(dir + '/ballast'); return { is: 'free' } }),
    files: tool('read', () => readdirSync(dir).filter((name) => name.startsWith('state.db'))),
    wait: tool('read', ({ ms }) => new Promise((done) => setTimeout(() => done({ is: 'waited' }), ms))),
    pid: tool('read', () => process.pid),
  },
}`

/** A server whose state folder is a disk of 8 MB, and the same again when that has ended. */
async function serveOnSmallDisk(between = ':') {
  const where = place(
    { exposure: { mode: 'direct' }, execution: { watchers: true, scheduler: true } },
    { 'disk.mjs': DISK },
  )
  const state = join(where.dir, 'state')
  mkdirSync(state)
  const serve = `"$0" "$1" serve --http --port 0 --json --config "$2"`
  const child = spawn(
    'unshare',
    [
      ...NAMESPACE,
      'sh',
      '-c',
      `mount -t tmpfs -o size=8m,mode=700 tmpfs ${state} && STATE=${state} && { ${serve}; ${between} && ${serve}; }`,
      process.execPath,
      cli,
      where.config,
    ],
    { env: where.env, stdio: ['ignore', 'pipe', 'ignore'], detached: true },
  )
  const ended = once(child, 'exit')
  onTestFinished(async () => {
    process.kill(-Number(child.pid), 'SIGKILL')
    await ended
  })
  const connect = async () => {
    const [line] = (await once(child.stdout, 'data')) as [Buffer]
    const { url, token } = JSON.parse(line.toString()) as { url: string; token: string }
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
    const headers = { authorization: `Bearer ${token}` }
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
    onTestFinished(() => client.close().catch(() => undefined))
    const raw = async (name: string, args: object = {}) =>
      (await client.callTool({ name, arguments: args as never })) as Answer
    return { raw, call: async (name: string, args: object = {}) => answerOf(await raw(name, args)) as never }
  }
  return { connect }
}

const LONG = 'x'.repeat(400_000)
const later = (label: string) => ({ when: 'in 1d', name: 'disk.wait', params: { ms: 1, why: LONG }, label })

describe.skipIf(!canMount)('a state folder on a disk', () => {
  it('that is full resets nothing, refuses clearly what must be kept, and goes on when there is space again', async () => {
    const { connect } = await serveOnSmallDisk()
    const { raw, call } = await connect()
    await call('schedule_once', { when: 'in 1d', name: 'disk.wait', params: { ms: 1 }, label: 'before' })
    const begun: { task_id: string } = await call('background_run', { name: 'disk.wait', params: { ms: 2_000 } })
    expect(await call('disk__fill')).toEqual({ is: 'full' })
    const refused = {
      isError: true,
      structuredContent: {
        error: {
          code: 'E_STATE_UNAVAILABLE',
          retryable: true,
          message: 'What must survive a restart could not be written: the disk is full.',
          hint: 'Free space where dirs.state is; it goes on by itself then.',
        },
      },
    }
    await fillUp(raw)
    expect(await raw('background_run', { name: 'disk.wait', params: { ms: 1, why: LONG } })).toMatchObject({
      isError: true,
    })
    expect(await raw('schedule_once', { when: 'in 1d', name: 'disk.wait', params: { ms: 1 } })).toMatchObject(refused)
    expect(await raw('remember', { content: 'a fact' })).toMatchObject(refused)
    expect(await call('disk__pid')).toEqual(expect.any(Number))
    const labels = async (from = call) =>
      ((await from('schedule_list')) as { jobs: { label: string }[] }).jobs.map(({ label }) => label)
    expect(await labels()).toContain('before')
    await sleep(2_000)
    expect(await call('background_result', { task_id: begun.task_id })).toMatchObject({ result: { is: 'waited' } })

    expect(await call('disk__free')).toEqual({ is: 'free' })
    await call('schedule_once', { when: 'in 1d', name: 'disk.wait', params: { ms: 1 }, label: 'after' })
    await call('remember', { content: 'a fact' })
    await expect
      .poll(() => call('background_status', { task_id: begun.task_id }), { timeout: 20_000 })
      .toMatchObject({ status: 'completed' })
    await sleep(1_500)
    expect(await call('disk__files')).toEqual(['state.db', 'state.db-shm', 'state.db-wal'])
    process.kill(await call('disk__pid'), 'SIGTERM')
    const again = await connect()
    const found = await labels(again.call)
    expect([found.includes('before'), found.includes('after')]).toEqual([true, true])
    expect(await again.call('background_result', { task_id: begun.task_id })).toMatchObject({
      status: 'completed',
      result: { is: 'waited' },
    })
    expect(((await again.call('remember')) as { facts: { content: string }[] }).facts.at(-1)).toMatchObject({
      content: 'a fact',
    })
  }, 60_000)

  it('that may only be read says so, and all goes on that keeps nothing [STA-08]', async () => {
    const { connect } = await serveOnSmallDisk('mount -o remount,ro "$STATE"')
    const { call } = await connect()
    await call('schedule_once', { when: 'in 1d', name: 'disk.wait', params: { ms: 1 }, label: 'before' })
    process.kill(await call('disk__pid'), 'SIGTERM')
    const again = await connect()
    for (const name of ['schedule_list', 'background_list', 'remember']) {
      const refused = await again.raw(name)
      expect(refused).toMatchObject({
        isError: true,
        structuredContent: { error: { message: 'What is kept for later cannot be read or written now.' } },
      })
      expect(JSON.stringify(refused)).toMatch(/E_STATE.*dirs\.state/)
    }
    expect(await again.call('disk__pid')).toEqual(expect.any(Number))
    expect(await again.call('run_parallel', { actions: [{ name: 'disk.pid' }] })).toMatchObject({ succeeded: 1 })
  }, 60_000)
})

/** What the state file has of its own to write in, is used up. */
async function fillUp(raw: (name: string, args: object) => Promise<Answer>): Promise<void> {
  for (let n = 0; n < 400; n++) if ((await raw('schedule_once', later(`filling ${n}`)))['isError']) break
  for (let n = 0; n < 400; n++) {
    const small = { when: 'in 1d', name: 'disk.wait', params: { ms: 1 }, label: `small ${n}` }
    if ((await raw('schedule_once', small))['isError']) return
  }
  throw new Error('it was never full')
}
