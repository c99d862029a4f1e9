/** Numbers from 0 to 1, the same ones for the same seed: a linear congruential generator, of which the upper bits are used. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return (state >>> 8) / 2 ** 24
  }
}

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
