import { randomUUID } from 'node:crypto'
import { quantile } from '../../bench/measure.mjs'

/** Every call, and whether it got exactly one answer, its own. */
export function createLedger() {
  const figures = { calls: 0, refused: 0, lost: 0, crossed: 0, doubled: 0, failedBeside: 0, leftAlone: 0 }
  const notes = new Map()
  const note = (what) => notes.set(what, (notes.get(what) ?? 0) + 1)

  /**
   * An answer of another call is worse than none.
   * @returns what is wrong with a failed call
   */
  async function settle(call, isOwn) {
    figures.calls++
    try {
      const result = await call
      const text = JSON.stringify(result)
      if (result.isError) {
        figures.refused++
        return text
      }
      if (isOwn(text)) return
      figures.crossed++
      note(`not its own answer: ${text.slice(0, 200)}`)
      return 'crossed'
    } catch ({ message }) {
      // A protocol error is an answer; silence and a broken connection are none.
      if (/no answer in|ECONN|EPIPE|hang up|it ended with/.test(message)) {
        figures.lost++
        note(`lost: ${message.slice(0, 200)}`)
      } else figures.refused++
      return message
    }
  }

  return {
    figures,
    notes,
    note,
    /** Counts of another process. */
    add(counted, noted) {
      for (const [what, times] of Object.entries(counted)) figures[what] += times
      for (const [what, times] of noted) notes.set(what, (notes.get(what) ?? 0) + times)
    },
    abandon: () => void figures.leftAlone++,
    /** A call of a failing server: it may fail, but not silently and not with the answer of another call. */
    bad: (peer, tool, args = {}) => settle(peer.call(tool, args), (text) => !text.includes('for somebody else')),
    async echo(peer, tool) {
      const nonce = randomUUID()
      const input = tool.startsWith('everything') ? { message: nonce } : { text: nonce }
      return settle(peer.call(tool, input), (text) => text.includes(nonce))
    },
    /** A call of a healthy server: anything but its echo is a failure. */
    async beside(peer, tool) {
      const before = performance.now()
      const wrong = await this.echo(peer, tool)
      if (wrong !== undefined) {
        figures.failedBeside++
        note(`failed beside: ${tool}: ${wrong.slice(0, 300)}`)
      }
      return performance.now() - before
    },
    /** A client that connects, lists and calls. */
    async comes(peer, tool) {
      try {
        await peer.connect()
        await peer.listTools()
      } catch ({ message }) {
        figures.failedBeside++
        note(`failed to come: ${message.slice(0, 300)}`)
      }
      await this.beside(peer, tool)
    },
    left(peer) {
      if (peer.strays() > 0) note('an answer that nobody waits for')
      figures.doubled += peer.strays()
    },
  }
}

/** Duration of a call while `width` clients call concurrently, with the servers in turn. */
export async function latencies(ledger, peers, tools, ms) {
  const took = new Map(tools.map((tool) => [tool, []]))
  const until = performance.now() + ms
  await Promise.all(
    peers.map(async (peer, at) => {
      for (let n = at; performance.now() < until; n++) {
        const tool = tools[n % tools.length]
        took.get(tool).push(await ledger.beside(peer, tool))
        await new Promise((done) => setTimeout(done, 10))
      }
    }),
  )
  return Object.fromEntries(
    [...took].map(([tool, all]) => [tool, { p50: quantile(all, 0.5), p95: quantile(all, 0.95), calls: all.length }]),
  )
}
