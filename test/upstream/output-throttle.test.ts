import { spawn } from 'node:child_process'
import { PassThrough } from 'node:stream'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import { createOutputThrottle } from '../../src/upstream/output-throttle.ts'

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** A program with endless output. */
function printing(text: string) {
  const script = `const text = process.argv[1].repeat(1000); const go = () => process.stdout.write(text, go); go()`
  const child = spawn(process.execPath, ['-e', script, text], { stdio: ['ignore', 'pipe', 'ignore'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child.stdout
}

/** A clock that advances a millisecond at each reading. */
function slowClock(): Clock {
  let at = 0
  return { now: () => ++at, after: systemClock.after }
}

describe('a pipe', () => {
  it('full of lines has a few of them processed in each turn, in order', async () => {
    const pipe = new PassThrough({ highWaterMark: 1 << 20 })
    const lines = Array.from({ length: 1_000 }, (_, n) => `${String(n).padEnd(99)}\n`).join('')
    let text = ''
    let pieces = 0
    createOutputThrottle(pipe, slowClock(), { waiting: 0 }, (bytes) => {
      text += bytes.toString()
      pieces++
    })
    pipe.write(lines)
    pipe.write('and the last\n')
    let turns = 0
    while (!text.endsWith('last\n') && turns++ < 100) await nextTurn()
    expect(text).toBe(`${lines}and the last\n`)
    // Twelve chunks of eight kilobytes, at most two per turn.
    expect(pieces).toBeGreaterThanOrEqual(12)
    expect(turns).toBeGreaterThanOrEqual(5)
  })

  it('of a program with endless output leaves room for other work in each turn', async () => {
    let inTurn = 0
    let most = 0
    let all = 0
    createOutputThrottle(printing('x'.repeat(1_000)), systemClock, { waiting: 0 }, (bytes) => {
      inTurn += bytes.length
      all += bytes.length
    })
    for (const patience = Date.now() + 30_000; all < 20_000_000 && Date.now() < patience; ) {
      await nextTurn()
      most = Math.max(most, inTurn)
      inTurn = 0
    }
    expect(all).toBeGreaterThanOrEqual(20_000_000)
    expect(most).toBeLessThan(512 * 1024)
  })

  it('with useless output is read at a limited rate', async () => {
    const waiting: Array<() => void> = []
    const clock: Clock = {
      now: Date.now,
      after(_ms, fn) {
        waiting.push(fn)
        return () => undefined
      },
    }
    let all = 0
    createOutputThrottle(
      printing('x'),
      clock,
      { waiting: 0 },
      (bytes) => {
        all += bytes.length
      },
      () => true,
    )
    for (const patience = Date.now() + 30_000; waiting.length === 0 && Date.now() < patience; ) await nextTurn()
    const before = all
    for (let turn = 0; turn < 100; turn++) await nextTurn()
    expect(all).toBe(before)
    for (const go of waiting.splice(0)) go()
    for (const patience = Date.now() + 30_000; waiting.length === 0 && Date.now() < patience; ) await nextTurn()
    expect(all).toBeGreaterThan(before)
  })

  it('that is closed is read to its end at once', () => {
    const pipe = new PassThrough({ highWaterMark: 1 << 20 })
    let text = ''
    const intake = createOutputThrottle(pipe, slowClock(), { waiting: 0 }, (bytes) => {
      text += bytes.toString()
    })
    const lines = 'line\n'.repeat(20_000)
    pipe.emit('data', Buffer.from(lines))
    expect(intake.behind).toBe(true)
    intake.finish()
    expect(text).toBe(lines)
  })
})
