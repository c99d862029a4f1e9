/** Milliseconds from a `Retry-After` header, which has seconds or a date; undefined if it asks for no wait. */
export function parseRetryAfter(header: string | null | undefined, now: number): number | undefined {
  if (header === null || header === undefined) return undefined
  const ms = /^\d+(\.\d+)?$/.test(header.trim()) ? Number(header) * 1_000 : Date.parse(header) - now
  return ms > 0 ? ms : undefined
}
