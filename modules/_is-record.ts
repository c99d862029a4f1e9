/** An object whose members may have any type, such as a parsed JSON object. */
export type Json = Readonly<Record<string, unknown>>

/** True for an object that is not an array. */
export const isRecord = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The value if it is an object that is not an array; otherwise an empty one. */
export const asRecord = (value: unknown): Json => (isRecord(value) ? value : {})
