import { isReachable } from './is-reachable.ts'

const URL_GIVEN = process.env['PEGBOARD_TEST_REDIS'] ?? 'redis://127.0.0.1:6379'

/** The Redis for tests, if one is reachable. In CI a missing one is a failure. */
export const redisUrl: string | undefined = await isReachable(new URL(URL_GIVEN), 6379).then((reachable) => {
  if (reachable) return URL_GIVEN
  if (process.env['CI'] === 'true') throw new Error(`Redis does not answer at ${URL_GIVEN}; these tests need it`)
  process.stderr.write(`No Redis at ${URL_GIVEN}: what several machines share is not tested here.\n`)
  return undefined
})
