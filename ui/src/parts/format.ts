const numbers = new Intl.NumberFormat('en')

export const count = (value: number): string => numbers.format(value)
export const percent = (share: number): string => `${Math.round(share * 100)} %`
export const plural = (value: number, one: string, many = `${one}s`): string =>
  `${count(value)} ${value === 1 ? one : many}`

export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`
}

export function size(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
export const time = (at: number): string => clock.format(at)
export const date = (at: number): string => day.format(at)

/** Time until then: `in 5 min`. */
export function until(at: number, now = Date.now()): string {
  const ms = at - now
  if (ms <= 0) return 'now'
  if (ms < 60_000) return `in ${Math.ceil(ms / 1_000)} s`
  if (ms < 3_600_000) return `in ${Math.round(ms / 60_000)} min`
  return date(at)
}
