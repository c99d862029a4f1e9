/**
 * A module that says how long the loop of its process stood still since it was asked the last time. How long the process waited
 * for a processor is not its doing: of each pause so much counts as it computed in.
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

/** The least of what was measured, which is done again until that is less than the limit: others on the machine only add to it. */
export async function least(limit: number, measure: () => Promise<number>, tries = 10): Promise<number> {
  let found = Number.POSITIVE_INFINITY
  for (let one = 0; one < tries && found >= limit; one++) found = Math.min(found, await measure())
  return found
}

/**
 * The same of milliseconds that something took. Where no try was below the limit, and others want the processors all the time,
 * what it would have taken without them: on a machine of its own that is the same number.
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

/** How many times as long as it computes a process takes to do so. */
function slownessNow(): number {
  const [began, before] = [performance.now(), process.cpuUsage()]
  const computed = (): number => process.cpuUsage(before).user / 1_000
  while (computed() < 300);
  return Math.max(1, (performance.now() - began) / computed())
}
