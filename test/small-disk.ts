import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type Answer, answerOf } from './app.ts'
import { connectOverHttp } from './client.ts'
import { cli, place } from './process.ts'

/** Mounting a disk needs a separate mount namespace. */
export const NAMESPACE = process.getuid?.() === 0 ? ['-m'] : ['-Urm']
export const canMount =
  process.platform === 'linux' &&
  spawnSync('unshare', [...NAMESPACE, 'mount', '-t', 'tmpfs', 'tmpfs', tmpdir()]).status === 0
if (!canMount) process.stderr.write('No mounts here: a full disk is not tested.\n')

/** Runs inside the namespace. */
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
    all: tool('read', () => readdirSync(dir, { recursive: true })),
    files: tool('read', () => readdirSync(dir).filter((name) => name.startsWith('state.db'))),
    wait: tool('read', ({ ms }) => new Promise((done) => setTimeout(() => done({ is: 'waited' }), ms))),
    pid: tool('read', () => process.pid),
  },
}`

/**
 * A server whose state folder is a small disk (8 MB by default), and its restart on the same disk.
 * @param between shell commands to run before the restart; `$STATE` is the state folder
 */
export async function serveOnSmallDisk(between = ':', size = '8m', settings: object = {}) {
  const token = 'the-token-for-the-small-disk'
  const execution = { watchers: true, scheduler: true }
  const where = place(
    { exposure: { mode: 'direct' }, execution, server: { http: { token } }, ...settings },
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
      `mount -t tmpfs -o size=${size},mode=700 tmpfs ${state} && STATE=${state} && { ${serve}; ${between} && ${serve}; }`,
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
    const { url } = JSON.parse(line.toString()) as { url: string }
    const client = await connectOverHttp(url, token, 'modern')
    const raw = async (name: string, args: object = {}) =>
      (await client.callTool({ name, arguments: args as never })) as Answer
    return { raw, call: async (name: string, args: object = {}) => answerOf(await raw(name, args)) as never }
  }
  return { connect, dir: where.dir }
}
