import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Client, ClientOptions } from '@modelcontextprotocol/client'
import { onTestFinished } from 'vitest'
import { temporaryFolder } from './app.ts'
import { connectOverHttp } from './client.ts'
import { cli, type Place, place } from './process.ts'
import { redisUrl } from './redis.ts'

/** The requirements of tests with several machines: a Redis and nginx. In CI a missing one is a failure. */
export const fleetRuns: boolean = redisUrl !== undefined && hasNginx()

function hasNginx(): boolean {
  const there = spawnSync('nginx', ['-v']).status === 0
  if (!there && process.env['CI'] === 'true') throw new Error('nginx is not installed; these tests need it')
  if (!there) process.stderr.write('No nginx here: several machines behind one address are not tested.\n')
  return there
}

export const TOKEN = 'a-token-for-all-of-the-fleet'

export interface Member {
  readonly url: string
  readonly child: ChildProcess
  /** Its output on stderr so far. */
  stderr(): string
  /** Kills it with SIGKILL. */
  kill(): Promise<void>
  /** Starts it again at the same address. */
  restart(): Promise<void>
}

export interface Fleet {
  readonly prefix: string
  readonly members: readonly Member[]
  /** Behind nginx, which sends each request to the next member. */
  readonly url: string
  readonly place: Place
}

/** Several server processes on one Redis, with nginx in front; stopped with the test. */
export async function startFleet(
  size: number,
  settings: Record<string, unknown>,
  modules: Record<string, string> = {},
  stateUrl = String(redisUrl),
  /** How far the clock of each member is ahead. */
  aheadMs: readonly number[] = [],
): Promise<Fleet> {
  const prefix = `pegboard-test-${randomBytes(6).toString('hex')}`
  onTestFinished(() => forget(prefix))
  const where = place({ ...settings, state: { url: stateUrl, prefix }, server: { http: { token: TOKEN } } }, modules)
  const members = await Promise.all(Array.from({ length: size }, (_, n) => startMember(where, aheadMs[n])))
  return { prefix, members, place: where, url: await startNginx(members.map(({ url }) => new URL(url).host)) }
}

async function startMember({ config, env, dir }: Place, aheadMs = 0): Promise<Member> {
  const clock = aheadMs === 0 ? [] : ['--import', clockAhead(aheadMs)]
  let stderr = ''
  const begin = async (port: string): Promise<{ child: ChildProcess; url: string }> => {
    const child = spawn(
      process.execPath,
      [...clock, cli, 'serve', '--http', '--port', port, '--json', '--config', config],
      {
        // They share only Redis.
        env: { ...env, PEGBOARD_STATE_DIR: join(dir, `state-${randomBytes(4).toString('hex')}`) },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    )
    child.stderr?.on('data', (chunk: Buffer) => {
      stderr += chunk
    })
    const [line] = (await Promise.race([
      once(child.stdout as NonNullable<typeof child.stdout>, 'data'),
      once(child, 'exit').then(() => Promise.reject(new Error(`it ended: ${stderr}`))),
    ])) as [Buffer]
    const { url } = JSON.parse(line.toString()) as { url: string }
    // It listens before its modules are loaded if that takes long.
    while ((await fetch(new URL('/ready', url))).status !== 200) await new Promise((done) => setTimeout(done, 50))
    return { child, url }
  }
  let now = await begin('0')
  const { url } = now
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (now.child.exitCode !== null || now.child.signalCode !== null) return
    const ended = once(now.child, 'exit')
    now.child.kill(signal)
    await ended
  }
  onTestFinished(() => end('SIGTERM'))
  return {
    url,
    get child() {
      return now.child
    },
    stderr: () => stderr,
    kill: () => end('SIGKILL'),
    async restart() {
      await end('SIGTERM')
      now = await begin(new URL(url).port)
    },
  }
}

/** Changes the time of a whole process. */
const clockAhead = (ms: number): string =>
  `data:text/javascript,${encodeURIComponent(`const { now } = Date
globalThis.Date = class extends Date { constructor(...given) { super(...(given.length === 0 ? [now() + ${ms}] : given)) } static now() { return now() + ${ms} } }`)}`

/** The configuration in docs/guides/operations.md, on its own port. */
const nginxConf = (port: number, dir: string, hosts: readonly string[]): string => `
daemon off;
master_process off;
pid ${dir}/nginx.pid;
error_log stderr warn;
events {}
http {
  access_log off;
  client_body_temp_path ${dir}/body;
  proxy_temp_path ${dir}/proxy;
  fastcgi_temp_path ${dir}/fastcgi;
  uwsgi_temp_path ${dir}/uwsgi;
  scgi_temp_path ${dir}/scgi;
  upstream pegboard {
${hosts.map((host) => `    server ${host} max_fails=1 fail_timeout=2s;`).join('\n')}
    keepalive 16;
  }
  server {
    listen 127.0.0.1:${port};
    client_max_body_size 4m;
    location / {
      proxy_pass http://pegboard;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_buffering off;
      proxy_read_timeout 1h;
    }
  }
}
`

async function startNginx(hosts: readonly string[]): Promise<string> {
  const dir = temporaryFolder()
  const port = await freePort()
  const file = join(dir, 'nginx.conf')
  writeFileSync(file, nginxConf(port, dir, hosts))
  const child = spawn('nginx', ['-p', dir, '-c', file, '-e', 'stderr'], { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk
  })
  const ended = once(child, 'exit')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const url = `http://127.0.0.1:${port}`
  for (let n = 0; n < 200; n++) {
    if (child.exitCode !== null) throw new Error(`nginx ended: ${said}`)
    if (
      await fetch(`${url}/health`).then(
        (answer) => answer.ok,
        () => false,
      )
    )
      return `${url}/mcp`
    await new Promise((done) => setTimeout(done, 25))
  }
  throw new Error(`nginx does not answer: ${said}`)
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}

export interface Gateway {
  readonly port: number
  /** Closes all connections and rejects new ones. */
  shut(): Promise<void>
  open(): Promise<void>
}

/** A proxy to Redis that can be cut. */
export async function gatewayTo(target: string): Promise<Gateway> {
  const { hostname, port: there } = new URL(target)
  const sockets = new Set<Socket>()
  const port = await freePort()
  let server: Server
  const open = async (): Promise<void> => {
    server = createServer((from) => {
      const to = connect({ host: hostname, port: Number(there || 6379) })
      for (const [one, other] of [
        [from, to],
        [to, from],
      ] as const) {
        sockets.add(one)
        one.on('error', () => other.destroy())
        one.on('close', () => {
          sockets.delete(one)
          other.destroy()
        })
        one.pipe(other)
      }
    }).listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  const shut = async (): Promise<void> => {
    const closed = new Promise((done) => server.close(done))
    for (const socket of sockets) socket.destroy()
    await closed
  }
  await open()
  onTestFinished(shut)
  return { port, open, shut }
}

/** Deletes the keys of a test from Redis. */
export async function forget(prefix: string): Promise<void> {
  const { Redis } = await import('ioredis')
  const redis = new Redis(String(redisUrl))
  const keys = await redis.keys(`${prefix}:*`)
  if (keys.length > 0) await redis.del(...keys)
  redis.disconnect()
}

export const headers = { authorization: `Bearer ${TOKEN}` }

/** The SDK's client, at one member or at nginx. */
export async function clientOf(
  url: string,
  era: 'legacy' | 'modern' = 'legacy',
  options: ClientOptions = {},
): Promise<Client & { readonly session: string | undefined }> {
  const client = await connectOverHttp(url, TOKEN, era, options)
  return Object.defineProperty(client, 'session', { get: () => client.transport?.sessionId }) as never
}
