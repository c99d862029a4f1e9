// Calls healthy servers and measures the time in a separate process, so that the load of the soak's driver does not
// count. Controlled over the channel of its parent.
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
// There are no calls between windows, and sessions without requests end. Each client keeps one connection.
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
