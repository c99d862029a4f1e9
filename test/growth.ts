/** How much longer work takes with eight times the input; 8 where it grows with the length, 64 with its square. */
export function growth(work: (length: number) => unknown): number {
  const took = (length: number): number => {
    let least = Number.POSITIVE_INFINITY
    for (let round = 0; round < 3; round++) {
      const startedAt = performance.now()
      work(length)
      least = Math.min(least, performance.now() - startedAt)
    }
    return least
  }
  const small = took(64 * 1024)
  // What takes a moment says nothing about its growth.
  return took(512 * 1024) / Math.max(small, 20)
}
