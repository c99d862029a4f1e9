// Calls servers that are well, and takes the time, in a process that does nothing else: what keeps the driver of the soak
// busy is not in its figures. Asked over the channel that its parent holds.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { openHttp } from '../../bench/client.mjs'
import { createLedger, latencies } from './ledger.mjs'
import { TOKEN } from './pegboard.mjs'
import { leave } from './rage.mjs'

const WIDTH = 4
const [url] = process.argv.slice(2)
const lag = monitorEventLoopDelay({ resolution: 10 })
lag.enable()
const peers = Array.from({ length: WIDTH }, () => openHttp({ url, token: TOKEN }))
for (const peer of peers) await peer.connect()
let isMeasuring = false
// Between windows nobody calls, and sessions without requests end. Each client has one connection all the time.
setInterval(() => {
  if (!isMeasuring) for (const peer of peers) peer.request('ping').catch(() => undefined)
}, 2_000).unref()

const work = {
  async measure({ tools, ms }) {
    const ledger = createLedger()
    lag.reset()
    isMeasuring = true
    const window = await latencies(ledger, peers, tools, ms)
    isMeasuring = false
    for (const peer of peers) ledger.left(peer)
    return { window, late: lag.percentile(99) / 1e6, figures: ledger.figures, notes: [...ledger.notes] }
  },
  async leave() {
    for (const peer of peers) await leave({ url }, peer)
  },
}
process.on('message', async ({ what, given }) => process.send((await work[what](given)) ?? null))
process.on('disconnect', () => process.exit())
process.send('ready')
