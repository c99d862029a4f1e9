import { expect, it } from 'vitest'
import { createHealth } from '../../modules/web/health.ts'

it('an engine that asked for a long pause is not asked earlier, because a later request failed too', () => {
  let now = 0
  const health = createHealth(
    () => undefined,
    () => now,
  )
  health.markFailed('http://engine', 60_000)
  health.markFailed('http://engine', 1_000)
  now = 2_000
  expect(health.isHealthy('http://engine')).toBe(false)
  now = 60_000
  expect(health.isHealthy('http://engine')).toBe(true)
})
