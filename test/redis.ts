import { connect } from 'node:net'

const URL_GIVEN = process.env['PEGBOARD_TEST_REDIS'] ?? 'redis://127.0.0.1:6379'

/** The Redis for tests, if one is reachable. In CI a missing one is a failure. */
export const redisUrl: string | undefined = await answers(new URL(URL_GIVEN)).then((there) => {
  if (there) return URL_GIVEN
  if (process.env['CI'] === 'true') throw new Error(`Redis does not answer at ${URL_GIVEN}; these tests need it`)
  process.stderr.write(`No Redis at ${URL_GIVEN}: what several machines share is not tested here.\n`)
  return undefined
})

function answers({ hostname, port }: URL): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port || 6379), timeout: 1_000 })
    const end = (there: boolean): void => {
      socket.destroy()
      resolve(there)
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
    socket.once('timeout', () => end(false))
  })
}
