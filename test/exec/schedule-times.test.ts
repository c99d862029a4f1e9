import { describe, expect, it } from 'vitest'
import { nextRun, parseScheduleTime, skippedRuns } from '../../src/exec/schedule-times.ts'

const at = (iso: string): number => Date.parse(iso)
const iso = (ms: number): string => new Date(ms).toISOString()

describe('a schedule time', () => {
  it('is relative or absolute', () => {
    const now = at('2026-03-01T12:00:00Z')
    expect(iso(parseScheduleTime('in 30s', now))).toBe('2026-03-01T12:00:30.000Z')
    expect(iso(parseScheduleTime('In 5 m', now))).toBe('2026-03-01T12:05:00.000Z')
    expect(iso(parseScheduleTime('in 2h', now))).toBe('2026-03-01T14:00:00.000Z')
    expect(iso(parseScheduleTime('in 10 minutes', now))).toBe('2026-03-01T12:10:00.000Z')
    expect(iso(parseScheduleTime('90 secs', now))).toBe('2026-03-01T12:01:30.000Z')
    expect(iso(parseScheduleTime('in 1 hour', now))).toBe('2026-03-01T13:00:00.000Z')
    expect(iso(parseScheduleTime('in 1d', now))).toBe('2026-03-02T12:00:00.000Z')
    expect(iso(parseScheduleTime('2026-03-01T14:00:00+01:00', now))).toBe('2026-03-01T13:00:00.000Z')
  })

  it('is rejected with the accepted formats if it is neither, or in the past', () => {
    for (const [when, why] of [
      ['tomorrow', "Invalid when: 'tomorrow'."],
      ['in 5 months', "Invalid when: 'in 5 months'."],
      ['2026-03-01', "Invalid when: '2026-03-01'."],
      ['2020-01-01T00:00:00Z', "'2020-01-01T00:00:00Z' is in the past."],
      ['2027-02-30T09:00:00Z', "'2027-02-30' is not a day of the calendar."],
      ['in 4000d', "'in 4000d' is more than 5 years ahead."],
      ['2036-03-01T12:00:00Z', "'2036-03-01T12:00:00Z' is more than 5 years ahead."],
    ] as const)
      expect(() => parseScheduleTime(when, at('2026-03-01T12:00:00Z'))).toThrow(
        expect.objectContaining({ code: 'E_SCHEDULE_INVALID', message: why, hint: expect.stringContaining('in 30s') }),
      )
  })
})

describe('cron', () => {
  it('returns the next run of every fifteen minutes', () => {
    for (const [now, next] of [
      ['2026-01-01T00:00:00Z', '2026-01-01T00:15:00.000Z'],
      ['2026-01-01T00:14:59Z', '2026-01-01T00:15:00.000Z'],
      ['2026-01-01T00:15:00Z', '2026-01-01T00:30:00.000Z'],
      ['2026-01-01T00:15:01Z', '2026-01-01T00:30:00.000Z'],
      ['2026-01-01T23:45:00Z', '2026-01-02T00:00:00.000Z'],
      ['2026-01-31T23:59:59Z', '2026-02-01T00:00:00.000Z'],
      ['2028-02-28T23:50:00Z', '2028-02-29T00:00:00.000Z'],
      ['2026-12-31T23:46:00Z', '2027-01-01T00:00:00.000Z'],
      ['2026-06-15T12:31:00Z', '2026-06-15T12:45:00.000Z'],
      ['2026-06-15T12:59:00Z', '2026-06-15T13:00:00.000Z'],
    ] as const)
      expect(iso(nextRun('*/15 * * * *', 'UTC', at(now)))).toBe(next)
  })

  it('supports weekdays, lists, ranges and time zones', () => {
    expect(iso(nextRun('0 9 * * 1-5', 'UTC', at('2026-01-02T09:00:00Z')))).toBe('2026-01-05T09:00:00.000Z')
    expect(iso(nextRun('0 0 * * 0', 'UTC', at('2026-01-01T00:00:00Z')))).toBe('2026-01-04T00:00:00.000Z')
    expect(iso(nextRun('5,35 3 * * *', 'UTC', at('2026-01-01T03:05:00Z')))).toBe('2026-01-01T03:35:00.000Z')
    expect(iso(nextRun('0 9 * * *', 'Europe/Berlin', at('2026-01-01T00:00:00Z')))).toBe('2026-01-01T08:00:00.000Z')
  })

  it('keeps the local hour across clock changes', () => {
    const next = (now: string) => iso(nextRun('30 9 * * *', 'Europe/Berlin', at(now)))
    expect(next('2026-03-28T09:00:00Z')).toBe('2026-03-29T07:30:00.000Z')
    expect(next('2026-10-24T09:00:00Z')).toBe('2026-10-25T08:30:00.000Z')
    // 02:30 does not exist on that night, and exists twice on the other; the job runs once in both.
    expect(iso(nextRun('30 2 * * *', 'Europe/Berlin', at('2026-03-28T12:00:00Z')))).toBe('2026-03-29T01:00:00.000Z')
    const twice = nextRun('30 2 * * *', 'Europe/Berlin', at('2026-10-24T12:00:00Z'))
    expect(iso(twice)).toBe('2026-10-25T00:30:00.000Z')
    expect(iso(nextRun('30 2 * * *', 'Europe/Berlin', twice))).toBe('2026-10-26T01:30:00.000Z')
  })

  it('in New York runs at the end of a skipped hour, and once in a repeated one', () => {
    expect(iso(nextRun('30 2 * * *', 'America/New_York', at('2027-03-14T05:00:00Z')))).toBe('2027-03-14T07:00:00.000Z')
    const twice = nextRun('30 1 * * *', 'America/New_York', at('2026-11-01T04:00:00Z'))
    expect(iso(twice)).toBe('2026-11-01T05:30:00.000Z')
    expect(iso(nextRun('30 1 * * *', 'America/New_York', twice))).toBe('2026-11-02T06:30:00.000Z')
  })

  it('counts the runs between two moments', () => {
    expect(skippedRuns('* * * * *', 'UTC', at('2026-01-01T00:00:00Z'), at('2026-01-01T03:00:00Z'))).toBe(180)
    expect(skippedRuns('0 9 * * *', 'America/New_York', at('2026-01-05T13:59:00Z'), at('2026-01-08T14:00:00Z'))).toBe(4)
    expect(skippedRuns('0 9 * * *', 'Asia/Kolkata', at('2026-01-05T03:31:00Z'), at('2026-01-08T03:29:00Z'))).toBe(2)
    expect(skippedRuns('0 9 * * 1', 'UTC', at('2026-01-05T09:00:00Z'), at('2026-01-12T08:59:00Z'))).toBe(0)
    expect(skippedRuns('* * * * *', 'UTC', at('2020-01-01T00:00:00Z'), at('2026-01-01T00:00:00Z'))).toBe(10_080)
  })

  it('that never matches says so, and an invalid one says which part', () => {
    for (const [cron, why] of [
      ['0 0 31 2,4,6,9,11 *', "'0 0 31 2,4,6,9,11 *' never comes."],
      ['0 0 30 2 *', "'0 0 30 2 *' never comes."],
      ['60 * * * *', "'60 * * * *' in UTC is not a valid schedule: Invalid value for minute: 60"],
      ['* * * * * *', "A cron expression has five fields; '* * * * * *' has 6."],
    ] as const)
      expect(() => nextRun(cron, 'UTC', at('2026-01-01T00:00:00Z'))).toThrow(expect.objectContaining({ message: why }))
  })

  it('is rejected with six fields, nonsense, or impossible days', () => {
    const why = (cron: string, zone = 'UTC') => {
      try {
        nextRun(cron, zone, at('2026-01-01T00:00:00Z'))
      } catch (error) {
        return (error as { code: string }).code
      }
      return 'taken'
    }
    expect(why('0 * * * * *')).toBe('E_SCHEDULE_INVALID')
    for (const cron of ['60 * * * *', 'a b c', '', '* * * * * *']) expect(why(cron)).toBe('E_SCHEDULE_INVALID')
    expect(why('61 * * * *')).toBe('E_SCHEDULE_INVALID')
    expect(why('0 0 31 2 *')).toBe('E_SCHEDULE_INVALID')
    expect(why('0 0 * * *', 'Atlantis/Capital')).toBe('E_SCHEDULE_INVALID')
  })
})
