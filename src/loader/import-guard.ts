import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'

/** Stops code that blocks the event loop while a file is imported. Meanwhile, the rest of the process cannot run. */
export interface ImportGuard {
  /** @throws the error of `createError` if the code was stopped */
  watch<T>(work: () => Promise<T>, createError: () => Error): Promise<T>
  close(): void
}

/** An import may compute without a pause for at least this time. */
const MIN_BUSY_LIMIT_MS = 3_000
/** Part of the import timeout that an import may compute without a pause. */
const BUSY_SHARE = 0.3
const BEAT_MS = 100
const [BEATS, WATCHING] = [0, 1]

/**
 * The watcher runs in its own thread, because the main thread is blocked. It uses the inspector, which opens no port:
 * it pauses the main thread, reads the stack, and makes V8 stop the running code. The event loop then continues.
 *
 * Callbacks of timers and `setImmediate` are not stopped, because Node.js then ends the process: its stack of async ids
 * is corrupted. Between these callbacks, where code continues after `await`, the stack is empty. Code inside
 * `AsyncResource`, and on Node 20 and 22 inside `AsyncLocalStorage`, can still end the process.
 */
const WATCHER = `
const { parentPort, workerData } = require('node:worker_threads')
const state = new Int32Array(workerData.state)
const cpuMs = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1000 }
let beats, cpuAtBeat, blockedMs, session
let isReported = false
function restart() {
  beats = Atomics.load(state, ${BEATS})
  cpuAtBeat = cpuMs()
  // Counts intervals of this thread, so that a pause of the whole machine does not count as a blocked event loop.
  blockedMs = 0
  session?.disconnect()
  session = undefined
}
restart()
setInterval(() => {
  if (Atomics.load(state, ${BEATS}) !== beats || Atomics.load(state, ${WATCHING}) === 0) {
    isReported = false
    return restart()
  }
  blockedMs += ${BEAT_MS}
  if (session || (cpuMs() - cpuAtBeat < workerData.maxBusyMs && blockedMs < workerData.maxBlockedMs)) return
  try {
    const { Session } = require('node:inspector')
    session = new Session()
    session.connectToMainThread()
    session.once('Debugger.paused', ({ params: { callFrames } }) => readAsyncId(callFrames.at(-1)?.functionName))
    session.post('Debugger.enable')
    session.post('Debugger.pause')
  } catch (error) {
    parentPort.postMessage({ failed: error.message })
  }
}, ${BEAT_MS})
const ASYNC_ID = "process.getBuiltinModule('node:async_hooks').executionAsyncId()"
function readAsyncId(outermost) {
  session?.post('Runtime.evaluate', { expression: ASYNC_ID }, (error, answer) => {
    const isTimer = outermost === 'processTimers' || outermost === 'processImmediate'
    resume(!isTimer || answer?.result.value === 0)
  })
}
function resume(canStop) {
  const isBlocked = Atomics.load(state, ${BEATS}) === beats
  if (isBlocked && canStop) session?.post('Runtime.terminateExecution')
  // Also resumes. Otherwise each statement debugger would pause again.
  session?.post('Debugger.disable', (error) => {
    restart()
    if (error) parentPort.postMessage({ failed: error.message })
    else if (isBlocked && canStop) parentPort.postMessage({ stopped: true })
    else if (isBlocked && !isReported) {
      isReported = true
      parentPort.postMessage({ failed: 'a callback of a timer or setImmediate cannot be stopped' })
    }
  })
}
`

/**
 * @param importTimeoutMs maximum time that the thread may be blocked without computing, for example while it waits for
 * a program. It may compute for 30 % of that, or 3 seconds if that is longer. This is measured as processor time,
 * because files wait longer on a busy machine
 */
export function createImportGuard(importTimeoutMs: number, log: Log): ImportGuard {
  const shared = new SharedArrayBuffer(8)
  const state = new Int32Array(shared)
  let stop: (() => void) | undefined
  const { Worker } = process.getBuiltinModule('node:worker_threads')
  const worker = new Worker(WATCHER, {
    eval: true,
    workerData: {
      state: shared,
      maxBusyMs: Math.max(MIN_BUSY_LIMIT_MS, BUSY_SHARE * importTimeoutMs),
      maxBlockedMs: importTimeoutMs,
    },
    // The thread must not inherit arguments of this process.
    execArgv: [],
    env: {},
    stdin: false,
  })
  worker.unref()
  worker.on('message', ({ failed }: { failed?: string }) => {
    if (failed !== undefined) log.warn('cannot stop a file that blocks the event loop', { error: failed })
    else stop?.()
  })
  worker.on('error', (error) =>
    log.warn('cannot watch imports: a file that blocks the event loop is not stopped', { error: messageOf(error) }),
  )
  const heartbeat = setInterval(() => Atomics.add(state, BEATS, 1), BEAT_MS)
  heartbeat.unref()
  return {
    async watch(work, createError) {
      Atomics.store(state, WATCHING, 1)
      try {
        return await Promise.race([
          work(),
          new Promise<never>((_resolve, reject) => {
            stop = () => reject(createError())
          }),
        ])
      } finally {
        stop = undefined
        Atomics.store(state, WATCHING, 0)
      }
    },
    close() {
      clearInterval(heartbeat)
      void worker.terminate()
    },
  }
}
