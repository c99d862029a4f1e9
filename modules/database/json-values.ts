/** A value as JSON: bytes as base64, exact integers, times as the database writes them. */
export function toJsonValue(value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value)
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString()
  if (ArrayBuffer.isView(value))
    return { base64: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64') }
  return Array.isArray(value) ? value.map(toJsonValue) : (value ?? null)
}

/** Integers that do not fit into a number stay text. */
export const exactInteger = (text: string): number | string =>
  Number.isSafeInteger(Number(text)) ? Number(text) : text
/** JSON with integers that do not fit into a number stays text. */
export const exactJson = (text: string): unknown => (/\d{16}/.test(text) ? text : JSON.parse(text))
