/** A module that says how long the loop of its process stood still since it was asked the last time. */
export const LAG = `import { monitorEventLoopDelay } from 'node:perf_hooks'
const delay = monitorEventLoopDelay({ resolution: 1 })
delay.enable()
export default {
  name: 'loop', description: 'Looks at the loop of its process.',
  tools: {
    lag: { description: 'Milliseconds it stood still at most.', effect: 'read', run: () => { const { max } = delay; delay.reset(); return String(max / 1e6) } },
    block: { description: 'Lets it stand still.', effect: 'read', run: () => { for (const end = performance.now() + 150; performance.now() < end; ); return 'blocked' } },
  },
}`

/**
 * The least that something took, which is tried until it is less than the limit: who shares the machine only ever adds to it.
 * Use for what takes the same each time.
 */
export async function least(limit: number, measure: () => Promise<number>, tries = 10): Promise<number> {
  let found = Number.POSITIVE_INFINITY
  for (let one = 0; one < tries && found >= limit; one++) found = Math.min(found, await measure())
  return found
}
