/** The id of the request that an oversized message answers, from its first and last kilobyte. */
export function answeredId(head: Buffer, tail: Buffer): string | undefined {
  const ends = `${tail.subarray(-ENDS).toString('latin1')}\n${head.subarray(0, ENDS).toString('latin1')}`
  return /"id"\s*:\s*"(p:\d+)"/.exec(ends)?.[1]
}

const ENDS = 1_024
