import { once } from 'node:events'
import type { Atlas } from '../atlas.ts'
import type { Embedder, EmbedderSource } from '../embedder.ts'
import { toolTextOf } from '../encoder/encoder-text.ts'
import type { EncoderAnswer, EncoderRequest, EncoderWorkerData } from '../encoder/encoder-thread.ts'
import type { FusionWeights } from '../fuse-rankings.ts'

export interface EncoderFiles {
  /** The compiled program of its thread. */
  readonly thread: string
  readonly model: string
  /** Has the vectors of known tools. */
  readonly atlas?: () => Atlas | undefined
}

/**
 * Encoded while no client waits, because V8 compiles the code during the first queries: on Node 20 the first one takes
 * 11 ms, and those after the eighth take 2 ms.
 */
const PRACTICE = 'send a message to somebody'
const PRACTICE_QUERIES = 8

/** The included encoder, in a thread, because a tool takes several milliseconds. */
export function createIncludedEncoder({ thread, model, atlas }: EncoderFiles): EmbedderSource {
  return {
    label: 'embedded',
    async load(signal) {
      const { Worker } = process.getBuiltinModule('node:worker_threads')
      const worker = new Worker(thread, { workerData: { model } satisfies EncoderWorkerData, env: {}, execArgv: [] })
      worker.unref()
      const pendingRequests = new Map<number, { resolve(vectors: Float32Array): void; reject(error: Error): void }>()
      let lastId = 0
      let closeError: Error | undefined
      const rejectAll = (error: Error): void => {
        closeError ??= error
        for (const { reject } of pendingRequests.values()) reject(closeError)
        pendingRequests.clear()
      }
      worker.on('error', rejectAll)
      worker.on('exit', () => rejectAll(new Error('the thread of the search encoder ended')))
      const [ready] = (await once(worker, 'message', { signal }).catch((error: unknown) => {
        void worker.terminate()
        throw error
      })) as [{ readonly id: string; readonly dims: number; readonly fusion?: FusionWeights }]
      worker.on('message', ({ id, vectors }: EncoderAnswer) => {
        pendingRequests.get(id)?.resolve(vectors)
        pendingRequests.delete(id)
        if (pendingRequests.size === 0) worker.unref()
      })
      const embedder: Embedder = {
        ...ready,
        textOf: (source) => JSON.stringify(toolTextOf(source)),
        vectorOf: (source) => atlas?.()?.vectorOf(source, ready.id),
        async embed(texts, kind) {
          if (closeError) throw closeError
          const id = ++lastId
          const vectors = await new Promise<Float32Array>((resolve, reject) => {
            pendingRequests.set(id, { resolve, reject })
            // The process stays alive while a request waits.
            worker.ref()
            worker.postMessage({ id, kind, texts } satisfies EncoderRequest)
          })
          return texts.map((_, at) => vectors.subarray(at * ready.dims, (at + 1) * ready.dims))
        },
        async close() {
          rejectAll(new Error('the search encoder was closed'))
          await worker.terminate()
        },
      }
      for (let query = 0; query < PRACTICE_QUERIES; query++) await embedder.embed([PRACTICE], 'query', signal)
      return embedder
    },
  }
}
