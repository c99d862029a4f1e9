import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'

test('a timer set for years ahead does not fire at once, and causes no warning of Node', async () => {
  const warned: string[] = []
  const hear = ({ name }: Error): void => void warned.push(name)
  process.on('warning', hear)
  onTestFinished(() => void process.off('warning', hear))
  let fired = 0
  const cancel = systemClock.after(2 ** 40, () => fired++)
  await pause(50)
  cancel()
  expect({ fired, warned }).toEqual({ fired: 0, warned: [] })
})

test('a timer fires after its whole time, and can be cancelled before', () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  let fired = 0
  systemClock.after(2 ** 32, () => fired++)
  const cancel = systemClock.after(2 ** 32, () => (fired += 10))
  vi.advanceTimersByTime(2 ** 32 - 1)
  expect(fired).toBe(0)
  cancel()
  vi.advanceTimersByTime(1)
  expect(fired).toBe(1)
})
