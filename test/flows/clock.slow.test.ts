import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { type Answer, answerOf } from '../app.ts'
import { connectOverHttp } from '../client.ts'
import { place, serveHttp } from '../process.ts'

const LIBRARY = '/usr/lib'
/** Changes the time of a whole process; Debian's package is `faketime`. */
const faketime =
  process.platform === 'linux' && existsSync(LIBRARY)
    ? readdirSync(LIBRARY)
        .map((folder) => join(LIBRARY, folder, 'faketime/libfaketime.so.1'))
        .find((file) => existsSync(file))
    : undefined
if (faketime === undefined) {
  if (process.env['CI'] === 'true' && process.platform === 'linux')
    throw new Error('faketime is not installed; these tests need it')
  process.stderr.write('No faketime here: clocks that are set while a server runs are not tested.\n')
}

const WORK = `
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
const input = { type: 'object', properties: { ms: { type: 'integer' }, text: { type: 'string' } } }
export default { name: 'work', description: 'Things to do.', tools: {
  wait: { description: 'Waits.', effect: 'read', input, run: ({ ms }) => new Promise((done) => setTimeout(() => done({ now: Date.now() }), ms)) },
  note: { description: 'Writes down.', effect: 'write', input, run: ({ text }) => { appendFileSync(join(process.env.HOME, 'notes.txt'), text + '\\n'); return text } },
} }`

const HOUR = 3_600_000

/** A server whose clock can be set. */
async function served() {
  const where = place(
    { exposure: { mode: 'direct' }, execution: { watchers: true, scheduler: true, timeoutMs: 20_000 } },
    { 'work.mjs': WORK },
  )
  const file = join(where.dir, 'clock')
  const setAhead = (ms: number): void => {
    writeFileSync(file, `${ms < 0 ? '-' : '+'}${Math.abs(ms) / 1_000}\n`)
  }
  setAhead(0)
  const { url, token, stderr } = await serveHttp({
    ...where,
    env: {
      ...where.env,
      LD_PRELOAD: String(faketime),
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
  })
  const client = await connectOverHttp(url, token)
  const call = async (name: string, args: object = {}): Promise<Answer> =>
    answerOf(await client.callTool({ name, arguments: args as never }))
  const notes = (): string[] => {
    const path = join(where.dir, 'notes.txt')
    return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : []
  }
  /** Difference between its clock and ours. */
  const ahead = async (): Promise<number> => (await call('work__wait', { ms: 0 })).now - Date.now()
  return { url, call, notes, ahead, setAhead, stderr }
}

describe.skipIf(faketime === undefined)('a clock change while the server runs', () => {
  it('forward runs once what became due, and ends no call or session', async () => {
    const { url, call, notes, ahead, setAhead } = await served()
    for (const [when, text] of [
      ['in 10m', 'soon'],
      ['in 1d', 'tomorrow'],
    ])
      await call('schedule_once', { when, name: 'work.note', params: { text }, label: text })
    const underWay = call('work__wait', { ms: 4_000 })
    await sleep(500)
    setAhead(HOUR)
    expect(Math.abs((await ahead()) - HOUR)).toBeLessThan(60_000)
    expect((await underWay).now).toEqual(expect.any(Number))
    await expect.poll(notes, { timeout: 75_000 }).toEqual(['soon'])
    expect((await fetch(new URL('/ready', url))).status).toBe(200)
    expect((await call('schedule_list')).jobs.map(({ label }: Answer) => label)).toEqual(['tomorrow'])
    setAhead(0)
    await sleep(3_000)
    expect(notes()).toEqual(['soon'])
  }, 120_000)

  it('back repeats nothing and loses nothing', async () => {
    const { url, call, notes, ahead, setAhead } = await served()
    await call('schedule_once', { when: 'in 1s', name: 'work.note', params: { text: 'first' }, label: 'first' })
    await call('schedule_once', { when: 'in 5m', name: 'work.note', params: { text: 'later' }, label: 'later' })
    await expect.poll(notes).toEqual(['first'])
    const underWay = call('work__wait', { ms: 3_000 })
    await sleep(300)
    setAhead(-24 * HOUR)
    expect(Math.abs((await ahead()) + 24 * HOUR)).toBeLessThan(60_000)
    expect((await underWay).now).toEqual(expect.any(Number))
    await call('schedule_once', { when: 'in 2s', name: 'work.note', params: { text: 'anew' }, label: 'anew' })
    await expect.poll(notes, { timeout: 30_000 }).toEqual(['first', 'anew'])
    expect((await call('schedule_list')).jobs.map(({ label }: Answer) => label)).toEqual(['later'])
    expect((await fetch(new URL('/ready', url))).status).toBe(200)
  }, 150_000)

  it('a year ahead and back stops no watcher and no job, and is logged', async () => {
    const { call, notes, setAhead, stderr } = await served()
    const name = 'work.note'
    const { job_id } = await call('schedule_cron', { cron: '* * * * *', name, params: { text: 'job' } })
    const { watcher_id } = await call('watch_start', { name, params: { text: 'watch' }, interval: 5 })
    setAhead(365 * 24 * HOUR)
    const watched = (): number => notes().filter((line) => line === 'watch').length
    await expect.poll(notes).toContain('job')
    const before = watched()
    setAhead(0)
    await expect.poll(watched).toBeGreaterThan(before)
    const nextRun = async (): Promise<number> =>
      Date.parse((await call('schedule_status', { job_id })).next_run_at) - Date.now()
    await expect.poll(nextRun).toBeLessThanOrEqual(60_000)
    expect(Date.parse((await call('watch_status', { watcher_id })).next_check_at) - Date.now()).toBeLessThan(5_500)
    expect(stderr()).toContain('the clock was set, or the machine slept: jobs follow the new time')
  }, 60_000)

  it('at a repeated hour in Berlin runs planned work once', async () => {
    const { call, notes, setAhead } = await served()
    const to = (utc: string): void => setAhead(Date.parse(utc) - Date.now())
    // Summer time ends on 25 October 2026 at 01:00 UTC: half past two is at 00:30 and at 01:30 UTC.
    to('2026-10-25T00:29:50Z')
    const planned = { cron: '30 2 * * *', timezone: 'Europe/Berlin', name: 'work.note', params: { text: 'night' } }
    await call('schedule_cron', { ...planned, label: 'night' })
    await expect.poll(notes, { timeout: 75_000 }).toEqual(['night'])
    const after = { when: '2026-10-25T01:30:05Z', name: 'work.note', params: { text: 'after' } }
    await call('schedule_once', after)
    to('2026-10-25T01:29:55Z')
    await expect.poll(notes, { timeout: 75_000 }).toContain('after')
    expect(notes()).toEqual(['night', 'after'])
  }, 240_000)
})
