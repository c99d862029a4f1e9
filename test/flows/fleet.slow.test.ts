import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { type Answer, answerOf } from '../app.ts'
import { postModern } from '../client.ts'
import {
  clientOf,
  type Fleet,
  fleetRuns,
  freePort,
  gatewayTo,
  headers,
  type Member,
  startFleet,
  TOKEN,
} from '../fleet.ts'
import { cli, place, run } from '../process.ts'
import { redisUrl } from '../redis.ts'
import { scripted } from '../upstream/host.ts'

const WORK = `
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
const input = { type: 'object', properties: { n: { type: 'integer' }, ms: { type: 'integer' } }, required: ['n'] }
const tool = (kind, idempotent) => ({
  description: 'Works for so many milliseconds, and writes down that it began.',
  input, idempotent, context: true, effect: 'write',
  run: ({ n, ms = 0 }, { signal }) => new Promise((resolve, reject) => {
    appendFileSync(join(process.env.HOME, 'runs.txt'), kind + ' ' + n + ' ' + process.pid + '\\n')
    const timer = setTimeout(() => resolve({ n, pid: process.pid }), ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      appendFileSync(join(process.env.HOME, 'runs.txt'), 'aborted ' + n + ' ' + process.pid + '\\n')
      reject(new Error('stopped'))
    })
  }),
})
export default {
  name: 'work',
  description: 'Things to do.',
  tools: { safe: tool('safe', true), unsafe: tool('unsafe', false), tick: tool('tick', false), pid: { description: 'Says which process it is.', effect: 'read', run: () => process.pid } },
}`

const settings = {
  // On a busy machine the first connection to a module takes long.
  loader: { importTimeoutMs: 60_000 },
  exposure: { mode: 'direct' },
  execution: { watchers: true, scheduler: true, tasks: { maxRunning: 300 }, maxResultTokens: 0 },
}

const TASKS = {
  command: process.execPath,
  args: [join(import.meta.dirname, '../fixtures/upstreams/tasks.mjs')],
  start: 'eager',
}

type Asked = Awaited<ReturnType<typeof clientOf>>
const notices: string[] = []
const call = async (client: Asked, name: string, args: Record<string, unknown> = {}) => {
  const answer = (await client.callTool({ name, arguments: args })) as Answer
  notices.push(
    ...(answer['content'] as { text?: string }[]).flatMap(({ text }) => (text?.startsWith('[NOTICE]') ? [text] : [])),
  )
  return answerOf(answer)
}
const pids = ({ members }: Fleet): number[] => members.map(({ child }) => Number(child.pid))

describe.skipIf(!fleetRuns)('several servers on one Redis', () => {
  it('continue a session that another one opened, and end it everywhere', async () => {
    const fleet = await startFleet(
      3,
      { ...settings, mcpServers: { old: { ...scripted(), start: 'eager' } } },
      { 'work.mjs': WORK },
    )
    const client = await clientOf(fleet.url, 'legacy', { capabilities: { elicitation: { form: {} } } })
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { name: 'Ann' } }) as never)
    const seen = new Set<unknown>()
    for (let n = 0; n < 9; n++) seen.add(await call(client, 'work__pid'))
    expect([...seen].sort()).toEqual(pids(fleet).sort())
    for (let n = 0; n < 6; n++)
      expect(JSON.stringify(await client.callTool({ name: 'old__ask_person', arguments: {} }))).toContain('Ann')

    const session = String(client.session)
    const ping = (url: string, more: Record<string, string> = {}) =>
      fetch(url, {
        method: 'POST',
        headers: {
          authorization: 'Bearer a-token-for-all-of-the-fleet',
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-session-id': session,
          ...more,
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 77, method: 'ping' }),
      }).then(({ status }) => status)
    expect(await Promise.all(fleet.members.map(({ url }) => ping(url)))).toEqual([200, 200, 200])
    expect(
      (await fetch(fleet.url, { method: 'DELETE', headers: { ...headers, 'mcp-session-id': session } })).status,
    ).toBe(200)
    await expect
      .poll(() => Promise.all(fleet.members.map(({ url }) => ping(url))), { interval: 100 })
      .toEqual([404, 404, 404])
    for (const member of fleet.members) expect(member.stderr()).not.toContain('"level":"error"')
  }, 90_000)

  it('continue a call that asked its client, whichever of them gets the answer', async () => {
    const asking = { mcpServers: { old: { ...scripted(), start: 'eager' } } }
    const fleet = await startFleet(3, { ...settings, ...asking }, { 'work.mjs': WORK })
    const client = await clientOf(fleet.url, 'modern', { capabilities: { elicitation: { form: {} } } })
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { name: 'Ann' } }) as never)
    for (let n = 0; n < 7; n++)
      expect(JSON.stringify(await client.callTool({ name: 'old__ask_person', arguments: {} }))).toContain('Ann')
  }, 90_000)

  it('return the result to a reconnecting client, whichever of them it reaches', async () => {
    const fleet = await startFleet(3, settings, { 'work.mjs': WORK })
    const gateway = await gatewayTo(fleet.url)
    const client = await clientOf(`http://127.0.0.1:${gateway.port}/mcp`)
    const answers = Promise.all([1, 2, 3, 4].map((n) => call(client, 'work__unsafe', { n, ms: 6_000 })))
    await until(() => runsOf(fleet).length === 4, 30_000)
    // From then on each event has an id for resuming.
    await sleep(1_500)
    await gateway.shut()
    await gateway.open()
    expect(await answers).toMatchObject([{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }])
    expect(runsOf(fleet)).toHaveLength(4)
  }, 90_000)

  it("ask for a server's task where that server runs it", async () => {
    const fleet = await startFleet(3, { ...settings, mcpServers: { t: TASKS } })
    const post = (method: string, params: Record<string, unknown>) =>
      postModern(fleet.url, TOKEN, method, params, { extensions: { 'io.modelcontextprotocol/tasks': {} } })
    const created = await post('tools/call', { name: 't__slow', arguments: {} })
    const taskId = created.result?.['taskId']
    expect(created.result).toMatchObject({ resultType: 'task', status: 'working' })
    const states: unknown[] = []
    for (let n = 0; n < 6; n++) states.push((await post('tasks/get', { taskId })).result?.['status'])
    expect(states).toEqual(['working', ...Array.from({ length: 5 }, () => 'completed')])
  }, 90_000)

  it("agree on the time, whatever their machines' clocks say", async () => {
    const fleet = await startFleet(3, settings, { 'work.mjs': WORK }, undefined, [0, 3_600_000, -600_000])
    const clients = await Promise.all(fleet.members.map(({ url }) => clientOf(url, 'modern')))
    const at = Date.now() + 10_000
    for (const [n, client] of clients.entries()) {
      const when = new Date(at).toISOString()
      expect(await call(client, 'schedule_once', { when, name: 'work.tick', params: { n } })).toMatchObject({
        next_run_at: when,
      })
      await call(client, 'schedule_once', { when: 'in 11s', name: 'work.tick', params: { n: n + 10 } })
      await call(client, 'background_run', { name: 'work.unsafe', params: { n: n + 20, ms: 300_000 } })
    }
    const ticks = () => runsOf(fleet).filter((line) => line.startsWith('tick'))
    while (Date.now() < at - 300) {
      expect(ticks()).toEqual([])
      await sleep(100)
    }
    // A process that waits for the queue checks again after ten seconds.
    await until(() => ticks().length >= 6, 60_000)
    await sleep(1_000)
    expect(
      ticks()
        .map((line) => Number(line.split(' ')[1]))
        .sort((a, b) => a - b),
    ).toEqual([0, 1, 2, 10, 11, 12])
    // No process is considered dead, and running times stay correct.
    for (const client of clients) {
      const { tasks } = (await call(client, 'background_list')) as {
        tasks: { status: string; elapsed_seconds: number }[]
      }
      expect(tasks.map(({ status }) => status)).toEqual(['running', 'running', 'running'])
      for (const { elapsed_seconds } of tasks)
        expect([elapsed_seconds >= 4, elapsed_seconds < 120]).toEqual([true, true])
    }
    expect(fleet.members.map(({ stderr }) => stderr().includes('differs from the clock of Redis'))).toEqual([
      false,
      true,
      true,
    ])
  }, 120_000)

  it('stop a task that runs in another one at once, and deliver its notice once', async () => {
    const fleet = await startFleet(2, settings, { 'work.mjs': WORK })
    const [one, other] = await Promise.all(fleet.members.map(({ url }) => clientOf(url, 'modern')))
    const { task_id } = await call(one as Asked, 'background_run', {
      name: 'work.unsafe',
      params: { n: 1, ms: 30_000 },
    })
    expect(await call(other as Asked, 'background_status', { task_id })).toMatchObject({ status: 'running' })
    const before = performance.now()
    expect(await call(other as Asked, 'background_cancel', { task_id })).toMatchObject({ status: 'cancelled' })
    await until(() => runsOf(fleet).some((line) => line.startsWith('aborted 1')))
    // It would end after 30 s.
    expect(performance.now() - before).toBeLessThan(20_000)
    expect(await call(one as Asked, 'background_status', { task_id })).toMatchObject({ status: 'cancelled' })

    await call(one as Asked, 'background_run', { name: 'work.safe', params: { n: 2, ms: 500 } })
    await sleep(3_000)
    const told = await Promise.all(
      [other, one, other, one].map((client) => (client as Asked).callTool({ name: 'work__pid', arguments: {} })),
    )
    expect(JSON.stringify(told).match(/\[NOTICE\]/g)).toHaveLength(1)
  }, 90_000)

  it('say of a long result of another one that the call may be repeated there', async () => {
    const long = `export default { name: 'long', description: 'Long texts.', tools: {
      text: { description: 'A long text.', effect: 'read', run: () => 'word '.repeat(100_000) } } }`
    const fleet = await startFleet(2, { exposure: { mode: 'direct' } }, { 'long.mjs': long })
    const [one, other] = await Promise.all(fleet.members.map(({ url }) => clientOf(url, 'modern')))
    const shortened = JSON.stringify(await one?.callTool({ name: 'long__text', arguments: {} }))
    const handle = /r_[0-9a-z]+/.exec(shortened)?.[0]
    const read = (client: Asked | undefined) => client?.callTool({ name: 'read_result', arguments: { handle } })
    expect(JSON.stringify(await read(one))).toContain('word word')
    expect(answerOf(await read(other)).error).toMatchObject({
      code: 'E_NOT_FOUND',
      message: `Result '${handle}' not found.`,
      hint: 'It was deleted, or another server behind the same address keeps it. Try again; if that fails, call the tool again.',
      retryable: true,
    })
  }, 90_000)

  it('run the idempotent work of a stopped process again', async () => {
    const fleet = await startFleet(2, settings, { 'work.mjs': WORK })
    const [member, other] = fleet.members as [Member, Member]
    const runningIn = (n: number) => runsOf(fleet).flatMap((line) => line.match(`^safe ${n} (\\d+)`)?.[1] ?? [])
    const [one, two] = await Promise.all([clientOf(member.url, 'modern'), clientOf(other.url, 'modern')])
    const { task_id } = await call(one, 'background_run', { name: 'work.safe', params: { n: 1, ms: 9_000 } })
    // Either process may run a job, so several are due.
    for (let n = 2; n < 10; n++)
      await call(one, 'schedule_once', {
        when: 'in 1s',
        name: 'work.safe',
        params: { n, ms: 9_000 },
        label: `job ${n}`,
      })
    await until(() => runsOf(fleet).length === 9)
    const stopped = String(member.child.pid)
    const interrupted = [1, 2, 3, 4, 5, 6, 7, 8, 9].filter((n) => runningIn(n)[0] === stopped)
    expect(interrupted.length).toBeGreaterThan(1)
    member.child.kill('SIGTERM')
    await until(() => interrupted.every((n) => runningIn(n).length === 2), 30_000)
    for (const n of interrupted) expect(runningIn(n)).toEqual([stopped, String(other.child.pid)])
    expect(await call(two, 'background_wait', { task_id, timeout: 30 })).toMatchObject({ status: 'completed' })
    await until(async () => ((await call(two, 'schedule_list')) as { total: number }).total === 0, 30_000)
    expect(runsOf(fleet).filter((line) => line.startsWith('safe'))).toHaveLength(9 + interrupted.length)
  }, 90_000)

  it('lose nothing and repeat nothing, whichever of them is killed', async () => {
    const fleet = await startFleet(3, settings, { 'work.mjs': WORK })
    const { members } = fleet
    const client = await clientOf(fleet.url, 'modern')
    let retries = 0
    /** A client that knows nothing of several servers may retry once. */
    const again = async (name: string, args: Record<string, unknown>) => {
      for (let tries = 1; ; tries++)
        try {
          return await call(client, name, args)
        } catch (error) {
          if (tries === 2) throw error
          retries++
          await sleep(200)
        }
    }
    const at = Date.now() + 5_000
    // Twenty calls around the moments when each server is killed once.
    for (let n = 0; n < 20; n++)
      await again('schedule_once', {
        when: new Date(at + n * 600).toISOString(),
        name: 'work.tick',
        params: { n, ms: 200 },
        label: `tick ${n}`,
      })
    const tasks: { id: string; n: number; safe: boolean }[] = []
    for (let from = 0; from < 200; from += 20)
      await Promise.all(
        Array.from({ length: 20 }, async (_, k) => {
          const n = from + k
          const safe = n % 2 === 0
          const params = { n, ms: 2_000 + ((n * 7_919) % 12_000) }
          const { task_id } = await again('background_run', { name: safe ? 'work.safe' : 'work.unsafe', params })
          tasks.push({ id: String(task_id), n, safe })
        }),
      )
    expect(new Set(tasks.map(({ id }) => id)).size).toBe(200)
    const dead = pids(fleet)

    await sleep(Math.max(0, at + 1_500 - Date.now()))
    for (const member of members) {
      await member.kill()
      await Promise.all(Array.from({ length: 12 }, () => again('work__pid', {})))
      await member.restart()
      await sleep(1_500)
    }

    const readers = await Promise.all(members.map(({ url }) => clientOf(url, 'modern')))
    const over = async () =>
      ((await call(readers[0] as Asked, 'background_list')) as { tasks: { status: string }[] }).tasks.every(
        ({ status }) => status !== 'running',
      )
    await until(over, 80_000, 1_000)
    const runs = runsOf(fleet)
    const ran = (kind: string, n: number) => runs.filter((line) => line.startsWith(`${kind} ${n} `))
    /** All calls of one server, a few at a time; an overloaded one is retried once. */
    const read = async (reader: Asked): Promise<Answer[]> => {
      const found: Answer[] = []
      for (let from = 0; from < tasks.length; from += 20)
        found.push(
          ...(await Promise.all(
            tasks.slice(from, from + 20).map(async ({ id }) => {
              const first = await call(reader, 'background_result', { task_id: id })
              return first['status'] === undefined ? call(reader, 'background_result', { task_id: id }) : first
            }),
          )),
        )
      return found
    }
    const statuses = await Promise.all(readers.map(read))
    for (const [index, { n, safe }] of tasks.entries()) {
      const [first, ...others] = statuses.map((all) => all[index] as { status: string; result?: unknown })
      for (const one of others) expect(one.status).toBe(first?.status)
      const all = ran(safe ? 'safe' : 'unsafe', n)
      if (safe) expect([n, first?.status]).toEqual([n, 'completed'])
      else {
        expect([n, all.length]).toEqual([n, 1])
        const killed = dead.includes(Number(all[0]?.split(' ')[2]))
        if (!killed) expect([n, first?.status]).toEqual([n, 'completed'])
        else expect(['completed', 'interrupted']).toContain(first?.status)
      }
    }
    expect(runs.filter((line) => line.startsWith('aborted'))).toEqual([])
    expect(statuses[0]?.filter((one) => one['status'] === 'interrupted').length).toBeGreaterThan(0)
    await until(async () => ((await call(client, 'schedule_list')) as { total: number }).total === 0, 20_000, 500)
    for (let n = 0; n < 20; n++) {
      // Killed between claim and run: not run, and reported.
      const said = notices.some((line) => line.includes(`tick ${n} (work.tick) was interrupted`))
      if (!said) expect([n, ran('tick', n).length]).toEqual([n, 1])
      else expect(ran('tick', n).length).toBeLessThanOrEqual(1)
    }
    expect(retries).toBeLessThan(40)
  }, 240_000)
})

describe.skipIf(!fleetRuns)('a server whose Redis goes away', () => {
  it('continues what needs no Redis, clearly rejects the rest, and recovers by itself', async () => {
    const gateway = await gatewayTo(String(redisUrl))
    const url = `redis://:a-very-secret-word@127.0.0.1:${gateway.port}`
    const { members } = await startFleet(2, settings, { 'work.mjs': WORK }, url)
    const [one, other] = members as [Member, Member]
    const [client, session] = [await clientOf(one.url, 'modern'), await clientOf(one.url)]
    const begun = await call(client, 'background_run', { name: 'work.safe', params: { n: 1, ms: 2_000 } })
    await call(client, 'schedule_once', { when: 'in 2s', name: 'work.tick', params: { n: 1 } })

    await gateway.shut()
    expect(await call(client, 'work__pid')).toBe(one.child.pid)
    expect(await call(session, 'work__pid')).toBe(one.child.pid)
    const refused = (await client.callTool({
      name: 'background_run',
      arguments: { name: 'work.safe', params: { n: 2 } },
    })) as Answer
    expect(refused).toMatchObject({
      isError: true,
      structuredContent: { error: { code: 'E_STATE_UNAVAILABLE', retryable: true } },
    })
    const elsewhere = await fetch(other.url, {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-session-id': String(session.session),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
    })
    expect([elsewhere.status, elsewhere.headers.get('retry-after')]).toEqual([503, '2'])
    expect(await elsewhere.text()).toContain('E_STATE_UNAVAILABLE')
    await sleep(3_000)

    await gateway.open()
    const after = await clientOf(other.url, 'modern')
    const is = async (): Promise<unknown> =>
      ((await call(after, 'background_result', { task_id: begun['task_id'] })) as { status?: string }).status
    await until(async () => (await is()) === 'completed', 40_000, 250)
    await until(async () => ((await call(after, 'schedule_list')) as { total?: number }).total === 0, 40_000, 250)
    expect(await call(client, 'background_run', { name: 'work.unsafe', params: { n: 3 } })).toMatchObject({
      status: 'completed',
    })
    for (const { stderr } of members) {
      expect(stderr()).toContain('Redis is not reachable; Pegboard tries again')
      expect(stderr()).not.toContain('very-secret')
    }
  }, 120_000)

  it('does not start without it, and names the setting', async () => {
    const where = place({ state: { url: `redis://:a-very-secret-word@127.0.0.1:${await freePort()}` } })
    const ended = await run(process.execPath, [cli, 'serve', '--http', '--port', '0', '--config', where.config], {
      env: where.env,
    }).catch((error: { code: number; stderr: string }) => error)
    expect(ended).toMatchObject({ code: expect.any(Number) })
    expect(ended.stderr).toContain('E_STATE')
    expect(ended.stderr).toContain('state.url')
    expect(ended.stderr).not.toContain('very-secret')
  })
})

const runsOf = ({ place }: Fleet): string[] => {
  try {
    return readFileSync(join(place.dir, 'runs.txt'), 'utf8').trim().split('\n')
  } catch {
    return []
  }
}

async function until(true_: () => boolean | Promise<boolean>, ms = 20_000, everyMs = 50): Promise<void> {
  for (const end = Date.now() + ms; !(await true_()); await sleep(everyMs))
    if (Date.now() > end) throw new Error('it did not come to that')
}
