import { Cron } from 'croner'
import { messageOf, PegboardError } from '../core/errors.ts'

/** The first letter of the unit is a key of `UNITS`. */
const RELATIVE = /^(?:in\s+)?(\d{1,6})\s*([smhd]|sec(?:ond)?s?|min(?:ute)?s?|hours?|days?)$/i
/** A time further ahead is more likely a mistake than a plan. */
const MAX_YEARS = 5
const MAX_AHEAD_MS = MAX_YEARS * 366 * 24 * 60 * 60_000

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const FORMATS = 'Use "in 30s", "in 10 minutes", "in 2h", "in 1d", or an ISO 8601 time such as 2030-01-31T09:00:00Z.'

/** True if a time is given as a span, such as `in 5m`. */
export const isRelative = (when: string): boolean => RELATIVE.test(when.trim())

/**
 * Parses `in 5m` or an ISO 8601 time to milliseconds since the epoch. @throws PegboardError E_SCHEDULE_INVALID for
 * other formats, the past, and more than five years ahead
 */
export function parseScheduleTime(when: string, now: number): number {
  const relative = RELATIVE.exec(when.trim())
  const iso = /^(\d{4})-(\d{2})-(\d{2})T\d{2}:\d{2}/.exec(when.trim())
  const at = relative
    ? now + Number(relative[1]) * (UNITS[(relative[2] as string).charAt(0).toLowerCase()] as number)
    : iso
      ? Date.parse(when.trim())
      : Number.NaN
  if (Number.isNaN(at))
    throw new PegboardError('E_SCHEDULE_INVALID', `Invalid when: '${when.slice(0, 80)}'.`, { hint: FORMATS })
  if (iso && !isDay(...(iso.slice(1, 4).map(Number) as [number, number, number])))
    throw new PegboardError('E_SCHEDULE_INVALID', `'${when.slice(0, 10)}' is not a day of the calendar.`, {
      hint: FORMATS,
    })
  if (at - now > MAX_AHEAD_MS)
    throw new PegboardError('E_SCHEDULE_INVALID', `'${when}' is more than ${MAX_YEARS} years ahead.`, { hint: FORMATS })
  if (at < now) throw new PegboardError('E_SCHEDULE_INVALID', `'${when}' is in the past.`, { hint: FORMATS })
  return at
}

/** `Date.parse` reads 30 February as 2 March. */
const isDay = (year: number, month: number, day: number): boolean =>
  new Date(Date.UTC(year, month - 1, day)).getUTCDate() === day

/**
 * The next time after `now` of a cron expression with five fields.
 * @throws PegboardError E_SCHEDULE_INVALID if the expression or the time zone is invalid, or if no time matches
 */
export function nextRun(cron: string, timezone: string, now: number): number {
  const fields = cron.trim().split(/\s+/).filter(Boolean)
  if (fields.length !== 5)
    throw new PegboardError(
      'E_SCHEDULE_INVALID',
      `A cron expression has five fields; '${cron.slice(0, 80)}' has ${fields.length}.`,
      { hint: 'minute hour day month weekday, such as "0 9 * * 1" for Mondays at nine.' },
    )
  let next: Date | null
  try {
    // UTC needs no time zone rules, and is ten times as fast.
    const zone = timezone === 'UTC' ? { utcOffset: 0 } : { timezone }
    next = new Cron(fields.join(' '), zone).nextRun(new Date(now))
  } catch (error) {
    // croner recurses to the next day, and overflows the stack if no month has such a day.
    if (error instanceof RangeError && /call stack/.test(error.message)) throw createNeverError(cron)
    throw new PegboardError(
      'E_SCHEDULE_INVALID',
      `'${cron.slice(0, 80)}' in ${timezone} is not a valid schedule: ${reasonOf(error)}`,
      { hint: 'Five fields with *, lists, ranges and steps; time zones such as Europe/Berlin.' },
    )
  }
  if (!next) throw createNeverError(cron)
  return next.getTime()
}

/** Removes the library's name. */
const reasonOf = (error: unknown): string => messageOf(error).replace(/^CronPattern: /, '')

const createNeverError = (cron: string): PegboardError =>
  new PegboardError('E_SCHEDULE_INVALID', `'${cron.slice(0, 80)}' never comes.`, {
    hint: 'Choose a day that one of its months has.',
  })

/** Maximum that `skippedRuns` counts: a week of minutes. */
const MAX_SKIPPED = 10_080
const STEP = 500

/** Number of runs after `from`, up to `now`. Ignores changes to and from summer time. */
export function skippedRuns(cron: string, timezone: string, from: number, now: number): number {
  // Cron has no shorter interval than a minute.
  if (now - from < 60_000) return 0
  const times = new Cron(cron, { utcOffset: offsetOf(timezone, from) })
  let count = 0
  let after = new Date(from)
  while (count < MAX_SKIPPED) {
    const next = times.nextRuns(STEP, after)
    const passed = next.findIndex((time) => time.getTime() > now)
    count += passed === -1 ? next.length : passed
    if (passed !== -1 || next.length < STEP) break
    after = next.at(-1) as Date
  }
  return Math.min(count, MAX_SKIPPED)
}

/** Minutes that a time zone is ahead of UTC. */
function offsetOf(timezone: string, at: number): number {
  if (timezone === 'UTC') return 0
  const local = new Intl.DateTimeFormat('en-US', { timeZone: timezone, timeZoneName: 'longOffset' })
  const [, sign = '+', hours = '0', minutes = '0'] =
    /GMT([+-])(\d{2}):(\d{2})/.exec(local.formatToParts(at).find(({ type }) => type === 'timeZoneName')?.value ?? '') ??
    []
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes))
}
