// Loaded into the server before its own code, and queried over the channel of its parent. Collects garbage first.
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
  // Nothing else lists these handles.
  const emitters = [process, ...process._getActiveHandles()].filter((one) => one instanceof EventEmitter)
  const listeners = emitters.reduce((sum, emitter) => sum + listenersOf(emitter), 0)
  return { ...process.memoryUsage(), timers, listeners, warnings }
}

/** Since the last request. */
function lag() {
  const since = { p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 }
  delay.reset()
  return since
}

process.on('message', (what) => process.send(what === 'lag' ? lag() : sample()))
process.channel?.unref()
