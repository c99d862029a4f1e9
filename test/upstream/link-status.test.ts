import { expect, it } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { createReasonFilter } from '../../src/upstream/error-reasons.ts'
import { createLinkStatus, type LinkState } from '../../src/upstream/link-status.ts'
import { parseServer } from '../../src/upstream/upstream-settings.ts'
import { createManualClock } from '../clock.ts'

/** The status of a server whose attempts take 30 seconds at most before they are reported. */
function bench() {
  const clock = createManualClock()
  const { settings } = parseServer('srv', { command: 'x' })
  const states: (readonly [LinkState, string | undefined])[] = []
  const status = createLinkStatus(
    {
      id: 'srv',
      settings: () => settings,
      shared: { clock, connectTimeoutMs: 30_000 },
      log: silentLog,
      keeps: () => false,
      changed: (state, reason) => states.push([state, reason]),
    },
    createReasonFilter(settings, () => false),
    () => undefined,
  )
  return { clock, status, states }
}

it('a slow attempt is pending until it has failed, and not while its connection closes', () => {
  const { clock, status, states } = bench()
  status.connecting()
  status.begin(true)
  clock.pass(29_999)
  expect(status.isPatient()).toBe(false)
  clock.pass(1)
  expect(status.isPatient()).toBe(true)
  expect(states).toEqual([
    ['connecting', undefined],
    ['failing', 'no answer within 30 s'],
  ])
  status.answered()
  expect(status.isPatient()).toBe(true)
  status.attemptEnded()
  expect(status.isPatient()).toBe(false)
  status.failed(new Error('its lists could not be read'), undefined)
  expect(status.nextAttemptAt()).toBeGreaterThan(clock.now())
})
