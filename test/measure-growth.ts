/** Milliseconds of processor time of this process for some work, so that other load does not count. */
export async function costMs(work: () => unknown): Promise<number> {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}

/** How much longer work takes with eight times the input: 8 for linear growth, 64 for quadratic. */
export async function growth(work: (length: number) => unknown): Promise<number> {
  const cost = async (length: number): Promise<number> => {
    let least = Number.POSITIVE_INFINITY
    for (let round = 0; round < 3; round++) least = Math.min(least, await costMs(() => work(length)))
    return least
  }
  const small = await cost(64 * 1024)
  // Very short work tells nothing about its growth.
  return (await cost(512 * 1024)) / Math.max(small, 20)
}
