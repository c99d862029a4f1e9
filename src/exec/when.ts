import { Cron } from 'croner'
import { PegboardError } from '../core/errors.ts'

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const FORMATS = 'Use "in 30s", "in 5m", "in 2h", "in 1d", or an ISO 8601 time such as 2030-01-31T09:00:00Z.'

/** The moment that `in 5m` or an ISO 8601 time means. @throws PegboardError E_VALIDATION for anything else, and for the past */
export function momentOf(when: string, now: number): number {
  const relative = /^in\s+(\d{1,6})\s*([smhd])$/i.exec(when.trim())
  const iso = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/.test(when.trim())
  const at = relative
    ? now + Number(relative[1]) * (UNITS[(relative[2] as string).toLowerCase()] as number)
    : iso
      ? Date.parse(when.trim())
      : Number.NaN
  if (Number.isNaN(at))
    throw new PegboardError('E_VALIDATION', `Invalid when: '${when.slice(0, 80)}'.`, { hint: FORMATS })
  if (at < now) throw new PegboardError('E_VALIDATION', `'${when}' is in the past.`, { hint: FORMATS })
  return at
}

/**
 * The next time after `now` that five fields mean, in a time zone.
 * @throws PegboardError E_VALIDATION when the fields or the zone mean nothing, or no time ever
 */
export function nextOf(cron: string, timezone: string, now: number): number {
  const fields = cron.trim().split(/\s+/)
  if (fields.length !== 5)
    throw new PegboardError(
      'E_VALIDATION',
      `A cron expression has five fields; '${cron.slice(0, 80)}' has ${fields.length}.`,
      {
        hint: 'minute hour day month weekday, such as "0 9 * * 1" for Mondays at nine.',
      },
    )
  let next: Date | null
  try {
    next = new Cron(fields.join(' '), { timezone, legacyMode: true }).nextRun(new Date(now))
  } catch (error) {
    throw new PegboardError('E_VALIDATION', `'${cron}' in ${timezone} means no time: ${(error as Error).message}`, {
      hint: 'Five fields with *, lists, ranges and steps; time zones such as Europe/Berlin.',
    })
  }
  if (!next)
    throw new PegboardError('E_VALIDATION', `'${cron}' never comes.`, { hint: 'Choose fields that some day has.' })
  return next.getTime()
}

/** A week of minutes: what was down for longer has missed at least so many. */
const MAX_SKIPPED = 10_080

/** How many times came after `from`, up to `now`. */
export function skippedBy(cron: string, timezone: string, from: number, now: number): number {
  // Looked at only where one is so late that another may have come.
  if (now - from < 60_000) return 0
  const times = new Cron(cron, { timezone, legacyMode: true })
  let count = 0
  let next = times.nextRun(new Date(from))
  while (next && next.getTime() <= now && count < MAX_SKIPPED) {
    count++
    next = times.nextRun(next)
  }
  return count
}
