/**
 * A module that reports how long the event loop of its process was blocked since the last report. Waiting for a
 * processor does not count: each pause counts only as far as the process computed in it.
 */
export const LAG = `let [since, before, longest] = [performance.now(), process.cpuUsage(), 0]
const look = () => {
  const { user, system } = process.cpuUsage(before)
  longest = Math.max(longest, Math.min(performance.now() - since, (user + system) / 1_000))
  since = performance.now()
  before = process.cpuUsage()
}
setInterval(look, 1).unref()
export default {
  name: 'loop', description: 'Looks at the loop of its process.',
  tools: {
    lag: { description: 'Milliseconds it stood still at most.', effect: 'read', run: () => { look(); const told = String(longest); longest = 0; return told } },
    block: { description: 'Lets it stand still.', effect: 'read', run: () => { for (const end = process.cpuUsage().user + 150_000; process.cpuUsage().user < end; ); return 'blocked' } },
  },
}`

/** The minimum of several measurements, repeated until one is below the limit, because other load only adds to it. */
export async function least(limit: number, measure: () => Promise<number>, tries = 10): Promise<number> {
  let found = Number.POSITIVE_INFINITY
  for (let one = 0; one < tries && found >= limit; one++) found = Math.min(found, await measure())
  return found
}

/**
 * The same for a duration in milliseconds. If no attempt is below the limit and the machine is always busy, estimates
 * the time without other load; on an idle machine that is the same number.
 */
export async function soonest(limit: number, measure: () => Promise<number>, tries = 10): Promise<number> {
  let slowness = Number.POSITIVE_INFINITY
  const found = await least(
    limit,
    async () => {
      const took = await measure()
      if (took >= limit) slowness = Math.min(slowness, slownessNow())
      return took
    },
    tries,
  )
  return found < limit ? found : found / slowness
}

/** Ratio of elapsed time to computing time of a process. */
function slownessNow(): number {
  const [began, before] = [performance.now(), process.cpuUsage()]
  const computed = (): number => process.cpuUsage(before).user / 1_000
  while (computed() < 300);
  return Math.max(1, (performance.now() - began) / computed())
}
