/** A listener for chunks of bytes that hands on whole lines as strings. Joins a long line once, however many chunks it took. */
export function splitLines(onLine) {
  let held = []
  return (chunk) => {
    let from = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      const last = chunk.subarray(from, end)
      const line = held.length === 0 ? last : Buffer.concat([...held, last])
      held = []
      from = end + 1
      if (line.length > 0) onLine(line.toString('utf8'))
    }
    if (from < chunk.length) held.push(chunk.subarray(from))
  }
}
