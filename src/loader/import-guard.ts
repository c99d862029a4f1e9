import { Worker } from 'node:worker_threads'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'

/** Stops code that runs without a pause while a file is imported: nothing else of the process runs until it is over. */
export interface ImportGuard {
  /** @throws what `late` makes when the code was stopped */
  watch<T>(work: () => Promise<T>, late: () => Error): Promise<T>
  close(): void
}

/** So long the thread may compute without a pause. Counted in processor time: on a busy machine a file has to wait. */
const MAX_BUSY_MS = 3_000
const BEAT_MS = 100
const [BEATS, WATCHING] = [0, 1]

/**
 * The watcher runs in a thread of its own, which is the only one that still does while the main one is busy. Through the
 * inspector, which opens no port, it has V8 end what runs; the event loop goes on after that.
 */
const WATCHER = `
const { parentPort, workerData } = require('node:worker_threads')
const state = new Int32Array(workerData.state)
const used = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1000 }
let beats = -1
let since = used()
let sinceAt = Date.now()
setInterval(() => {
  const now = Atomics.load(state, ${BEATS})
  if (now !== beats || Atomics.load(state, ${WATCHING}) === 0) {
    beats = now
    since = used()
    sinceAt = Date.now()
    return
  }
  if (used() - since < workerData.maxBusyMs && Date.now() - sinceAt < workerData.maxStillMs) return
  since = used()
  sinceAt = Date.now()
  try {
    const { Session } = require('node:inspector')
    const session = new Session()
    session.connectToMainThread()
    session.post('Runtime.terminateExecution', (error) => {
      session.disconnect()
      parentPort.postMessage(error ? { failed: error.message } : { stopped: true })
    })
  } catch (error) {
    parentPort.postMessage({ failed: error.message })
  }
}, ${BEAT_MS})
`

/** @param maxStillMs so long the thread may stand still without computing, as one that waits for a program does */
export function createImportGuard(maxStillMs: number, log: Log): ImportGuard {
  const shared = new SharedArrayBuffer(8)
  const state = new Int32Array(shared)
  let stop: (() => void) | undefined
  const worker = new Worker(WATCHER, {
    eval: true,
    workerData: { state: shared, maxBusyMs: MAX_BUSY_MS, maxStillMs },
    // Nothing of what this process was started with concerns it.
    execArgv: [],
    env: {},
    stdin: false,
  })
  worker.unref()
  worker.on('message', ({ failed }: { failed?: string }) => {
    if (failed !== undefined) log.warn('a file that runs without a pause could not be stopped', { error: failed })
    else stop?.()
  })
  worker.on('error', (error) => log.warn('files are imported unwatched', { error: messageOf(error) }))
  const beat = setInterval(() => Atomics.add(state, BEATS, 1), BEAT_MS)
  beat.unref()
  return {
    async watch(work, late) {
      Atomics.store(state, WATCHING, 1)
      try {
        return await Promise.race([
          work(),
          new Promise<never>((_resolve, reject) => {
            stop = () => reject(late())
          }),
        ])
      } finally {
        stop = undefined
        Atomics.store(state, WATCHING, 0)
      }
    },
    close() {
      clearInterval(beat)
      void worker.terminate()
    },
  }
}
