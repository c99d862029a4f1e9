import { expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { silentLog } from '../../src/core/log.ts'
import { createLocalAlarms } from '../../src/state/alarms.ts'
import { createManualClock } from '../clock.ts'
import { alarmsContract } from '../contract/alarms.ts'

alarmsContract('in this process', async () => ({
  alarms: createLocalAlarms(systemClock, silentLog),
  close: () => Promise.resolve(),
}))

const turns = async (): Promise<void> => {
  for (let at = 0; at < 20; at++) await Promise.resolve()
}

it('goes on ringing after what is kept could not be read for once', async () => {
  const clock = createManualClock()
  const alarms = createLocalAlarms(clock, silentLog)
  const rang: string[] = []
  let looks = 0
  await alarms.start(
    async (id) => void rang.push(id),
    async () => {
      if (++looks === 2) throw new Error('database is locked')
      return [{ id: 'tea', at: 150_000 }]
    },
  )
  for (let at = 0; at < 40; at++) {
    clock.pass(5_000)
    await turns()
  }
  expect(rang).toContain('tea')
})
