import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Answer, answerOf } from '../app.ts'
import { callTool } from '../client.ts'
import { cli, type Place, place, type Served, serveHttp, talkTo } from '../process.ts'
import { until } from '../upstream/host.ts'

/** The tools write a line when they start. They wait, except in a second process. */
const WORK = `
import { appendFileSync, readFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
const tool = (name, more) => ({
  description: 'Works for a minute, and writes down that it started.', ...more,
  run: (_input, ctx) => {
    const file = join(process.env.HOME, name + '.txt')
    const isRepeated = existsSync(file)
    appendFileSync(file, ctx.callId + '\\n')
    return isRepeated ? 'done' : new Promise((resolve) => setTimeout(() => resolve('done'), 60_000))
  },
})
export default { name: 'work', description: 'Work that takes time.', tools: {
  sync: tool('sync', { effect: 'write', idempotent: true }),
  pay: tool('pay', { effect: 'write' }),
  steps: { description: 'Works in two steps, the second after SIGTERM.', effect: 'write', run: async (_input, ctx) => {
    appendFileSync(join(process.env.HOME, 'steps.txt'), 'started\\n')
    await new Promise((resolve) => process.once('SIGTERM', () => setTimeout(resolve, 100)))
    return (await ctx.call('work.step')).value
  } },
  step: { description: 'The second step.', effect: 'write', run: () => ({ steps: 2 }) },
} }`

const settings = {
  loader: { importTimeoutMs: 60_000 },
  exposure: { mode: 'direct' },
  execution: { watchers: true, scheduler: true },
}

const openPlace = (): Place => place(settings, { 'work.mjs': WORK })

async function clientAt({ url, token }: Served): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
  const requestInit = { headers: { authorization: `Bearer ${token}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }))
  onTestFinished(() => client.close().catch(() => undefined))
  return client
}

const call = async (client: Client, name: string, args: Record<string, unknown> = {}): Promise<Answer> =>
  answerOf(await client.callTool({ name, arguments: args }))

const linesOf = ({ dir }: Place, tool: string): string[] => {
  const file = join(dir, `${tool}.txt`)
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []
}

/** Reads the inbox until it has had a number of notices. */
async function noticesOf(client: Client, count: number): Promise<string[]> {
  const notices: string[] = []
  for (const end = Date.now() + 30_000; notices.length < count && Date.now() < end; await sleep(50)) {
    const { contents } = await client.readResource({ uri: 'notifications://inbox' })
    notices.push(...JSON.parse((contents[0] as { text: string }).text).notices)
  }
  return notices.sort()
}

const stopLine = ({ stderr }: Served): unknown =>
  stderr()
    .split('\n')
    .flatMap((line) => (line.includes('"stopping"') ? [JSON.parse(line)] : []))[0]

describe('SIGTERM', () => {
  it('leaves an idempotent background task to the next process, and reports another one as interrupted', async () => {
    const where = openPlace()
    const first = await serveHttp(where)
    const before = await clientAt(first)
    const sync = await call(before, 'background_run', { name: 'work.sync' })
    const pay = await call(before, 'background_run', { name: 'work.pay' })
    first.child.kill('SIGTERM')
    await first.ended
    const after = await clientAt(await serveHttp(where))
    expect(await call(after, 'background_wait', { task_id: sync.task_id })).toMatchObject({
      status: 'completed',
      result: 'done',
    })
    expect(new Set(linesOf(where, 'sync')).size).toBe(1)
    expect(linesOf(where, 'sync')).toHaveLength(2)
    expect(await call(after, 'background_result', { task_id: pay.task_id })).toMatchObject({
      status: 'interrupted',
      error: expect.stringContaining('E_SHUTTING_DOWN'),
    })
    expect(linesOf(where, 'pay')).toHaveLength(1)
  })

  it('leaves a one-time job with an idempotent tool to the next process, and reports another one as interrupted', async () => {
    const where = openPlace()
    const first = await serveHttp(where)
    const before = await clientAt(first)
    for (const name of ['sync', 'pay'])
      await call(before, 'schedule_once', { when: 'in 1s', name: `work.${name}`, label: name })
    await until(() => linesOf(where, 'sync').length === 1 && linesOf(where, 'pay').length === 1)
    first.child.kill('SIGTERM')
    await first.ended
    const after = await clientAt(await serveHttp(where))
    expect(await noticesOf(after, 3)).toEqual([
      'Scheduled job pay (work.pay) was interrupted, and is not run again.',
      'Scheduled job sync (work.sync) gave "done"',
      'Scheduled job sync (work.sync) was interrupted, and is run again.',
    ])
    expect(new Set(linesOf(where, 'sync')).size).toBe(1)
    expect(linesOf(where, 'pay')).toHaveLength(1)
  })

  it('tells the client of a call that it ended whether the call may be repeated', async () => {
    const where = openPlace()
    const served = await serveHttp(where)
    const client = await clientAt(served)
    const errors = Promise.all(
      ['pay', 'sync'].map(async (tool) => answerOf(await client.callTool({ name: `work__${tool}` })).error),
    )
    await until(() => linesOf(where, 'sync').length === 1 && linesOf(where, 'pay').length === 1)
    served.child.kill('SIGTERM')
    expect(await errors).toMatchObject([
      {
        code: 'E_SHUTTING_DOWN',
        message: 'The server stopped while work.pay was running. It may have changed something.',
        hint: 'Check what it did before you call it again.',
        retryable: false,
      },
      { code: 'E_SHUTTING_DOWN', message: 'The server is stopping.', retryable: true },
    ])
  })

  it('makes /ready answer 503 while running calls end, and answers other requests', async () => {
    const where = openPlace()
    const served = await serveHttp(where)
    const client = await clientAt(served)
    const ready = async (): Promise<unknown> => {
      const response = await fetch(new URL('/ready', served.url))
      return [response.status, await response.json()]
    }
    expect(await ready()).toEqual([200, { status: 'ready' }])
    const answer = client.callTool({ name: 'work__pay' })
    await until(() => linesOf(where, 'pay').length === 1)
    served.child.kill('SIGTERM')
    await expect.poll(ready).toEqual([503, { status: 'not ready', reason: 'the server is stopping' }])
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('work__pay')
    expect(answerOf(await answer).error.code).toBe('E_SHUTTING_DOWN')
    const stopping = { level: 'info', message: 'stopping', signal: 'SIGTERM', waitsForCalls: 1, maxWaitMs: 2_000 }
    expect(stopLine(served)).toEqual(expect.objectContaining(stopping))
  })

  it('is reported in the log, without a number of calls if none runs', async () => {
    const served = await serveHttp(openPlace())
    served.child.kill('SIGTERM')
    await served.ended
    expect(stopLine(served)).toEqual({
      time: expect.any(String),
      level: 'info',
      message: 'stopping',
      signal: 'SIGTERM',
    })
  })

  it('lets a running call make calls of its own during the grace period', async () => {
    const where = openPlace()
    const served = await serveHttp(where)
    const client = await clientAt(served)
    const answer = client.callTool({ name: 'work__steps' })
    await until(() => linesOf(where, 'steps').length === 1)
    served.child.kill('SIGTERM')
    expect(answerOf(await answer)).toEqual({ steps: 2 })
  })
})

describe('SIGHUP', () => {
  it('makes a server over HTTP read its configuration again', async () => {
    const where = openPlace()
    const served = await serveHttp(where)
    const client = await clientAt(served)
    const step = async () => answerOf(await callTool(client, { name: 'work__step' }))
    expect(await step()).toEqual({ steps: 2 })
    served.child.kill('SIGHUP')
    await until(() => served.stderr().includes('"SIGHUP: the configuration is unchanged"'))

    writeFileSync(where.config, JSON.stringify({ ...settings, policy: { deny: ['work.step'] } }))
    served.child.kill('SIGHUP')
    await until(() => served.stderr().includes('"configuration reloaded"'))
    expect((await step()).error.code).toBe('E_NOT_FOUND')
    expect(served.child.exitCode).toBe(null)
  })

  it('does not end a server over HTTP without a configuration file', async () => {
    const where = openPlace()
    rmSync(where.config)
    const child = spawn(process.execPath, [cli, 'serve', '--http', '--port', '0'], {
      env: where.env,
      cwd: where.dir,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk
    })
    await once(child.stdout, 'data')
    child.kill('SIGHUP')
    await until(() => stderr.includes('"SIGHUP: no configuration file is in use"'))
    expect(child.exitCode).toBe(null)
  })

  it('stops a server over stdio in order', async () => {
    const { child, ended } = await talkTo(openPlace())
    child.kill('SIGHUP')
    await ended
    expect([child.exitCode, child.signalCode]).toEqual([0, null])
  })
})
