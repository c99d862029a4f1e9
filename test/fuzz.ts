/** How tests choose random input; CONTRIBUTING.md says how to run more of it. */

/** Fixed, because a random seed would fail unrelated changes. */
export const FUZZ_SEED = Number(process.env['PEGBOARD_FUZZ_SEED'] ?? 20_261_122)

/**
 * Number of runs.
 * @param short number for each push, if PEGBOARD_FUZZ_RUNS is not set
 */
export const fuzzRuns = (short: number): number => Number(process.env['PEGBOARD_FUZZ_RUNS'] ?? short)

/** Settings of fast-check. @param short see `fuzzRuns` */
export const fuzz = (short: number): { numRuns: number; seed: number } => ({
  numRuns: fuzzRuns(short),
  seed: FUZZ_SEED,
})

/** Pseudo-random numbers from 0 to 1, reproducible by seed: the upper bits of a linear congruential generator. */
export function randomFrom(seed = FUZZ_SEED): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return (state >>> 8) / 2 ** 24
  }
}
