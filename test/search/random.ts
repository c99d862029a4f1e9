import { randomFrom } from '../fuzz.ts'

/** Points on the unit sphere, evenly spread (Box and Muller 1958). */
export function unitVectors(count: number, dims: number, seed: number): Float32Array[] {
  const random = randomFrom(seed)
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
  return Array.from({ length: count }, () => unit(Array.from({ length: dims }, normal)))
}

export function unit(values: readonly number[]): Float32Array {
  const length = Math.hypot(...values)
  return Float32Array.from(values, (value) => value / length)
}
