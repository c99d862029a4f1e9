/** An object whose members may have any type, such as a parsed JSON object. Not any JSON value. */
export type Json = Readonly<Record<string, unknown>>

/** True for an object that is not an array. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
