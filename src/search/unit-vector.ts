/** A copy of the vector with length 1; zeros stay zeros. */
export function unitVector(vector: Float32Array): Float32Array {
  let squares = 0
  for (const value of vector) squares += value * value
  const factor = squares > 0 ? 1 / Math.sqrt(squares) : 0
  return vector.map((value) => value * factor)
}
