import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Answer } from '../app.ts'
import { canMount, serveOnSmallDisk } from '../small-disk.ts'

const LONG = 'x'.repeat(400_000)
const later = (label: string) => ({ when: 'in 1d', name: 'disk.wait', params: { ms: 1, why: LONG }, label })

describe.skipIf(!canMount)('a state folder on a disk', () => {
  it('that was full at the first audited call has a verifiable audit log once there is space', async () => {
    const verify = '"$0" "$1" audit verify --config "$2" > "$STATE/../verified.txt" 2>&1'
    const { connect, dir } = await serveOnSmallDisk(verify, '8m', { audit: { enabled: true } })
    const { call } = await connect()
    expect(await call('disk__fill')).toEqual({ is: 'full' })
    expect(await call('disk__all')).not.toContain('audit.key')
    expect(await call('disk__free')).toEqual({ is: 'free' })
    await expect.poll(() => call('disk__all')).toContain('audit.key')
    process.kill(await call('disk__pid'), 'SIGTERM')
    await connect()
    expect(readFileSync(join(dir, 'verified.txt'), 'utf8')).toMatch(
      /^\d+ lines in 1 file, no line changed, inserted or deleted\.\n$/,
    )
  }, 60_000)

  it('that is full resets nothing, clearly rejects what must be stored, and recovers when there is space', async () => {
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
          message: 'The state could not be written: the disk is full.',
          hint: 'Free space on the disk of dirs.state. Pegboard then continues by itself.',
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
    expect(await call('disk__files')).toEqual(['state.db', 'state.db-open', 'state.db-shm', 'state.db-wal'])
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
})

/** The reserved space of the state file is used up. */
async function fillUp(raw: (name: string, args: object) => Promise<Answer>): Promise<void> {
  for (let n = 0; n < 400; n++) if ((await raw('schedule_once', later(`filling ${n}`)))['isError']) break
  for (let n = 0; n < 400; n++) {
    const small = { when: 'in 1d', name: 'disk.wait', params: { ms: 1 }, label: `small ${n}` }
    if ((await raw('schedule_once', small))['isError']) return
  }
  throw new Error('it was never full')
}
