// Loaded into the server before its own code, to be asked over the channel that its parent holds. Garbage is collected first.
import { EventEmitter } from 'node:events'
import { monitorEventLoopDelay } from 'node:perf_hooks'

const delay = monitorEventLoopDelay({ resolution: 10 })
delay.enable()
const warnings = []
process.on('warning', ({ name, message }) => warnings.push(`${name}: ${message}`))

const listenersOf = (emitter) => emitter.eventNames().reduce((sum, event) => sum + emitter.listenerCount(event), 0)

function sample() {
  globalThis.gc()
  const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  // The handles have nothing else that lists them.
  const emitters = [process, ...process._getActiveHandles()].filter((one) => one instanceof EventEmitter)
  const listeners = emitters.reduce((sum, emitter) => sum + listenersOf(emitter), 0)
  return { ...process.memoryUsage(), timers, listeners, warnings }
}

/** Since it was asked last. */
function lag() {
  const since = { p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 }
  delay.reset()
  return since
}

process.on('message', (what) => process.send(what === 'lag' ? lag() : sample()))
process.channel?.unref()
