import { readFileSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { unitVector } from '../unit-vector.ts'
import { openEncoder } from './encoder.ts'
import { queryInput, type ToolText, toolInput } from './encoder-text.ts'
import { createWordPieceTokenizer } from './word-piece-tokenizer.ts'

/** What the thread is started with. */
export interface EncoderWorkerData {
  /** Path of the model file. */
  readonly model: string
}

/** A request to the thread. Tools are JSON of `ToolText`. */
export interface EncoderRequest {
  readonly id: number
  readonly kind: 'document' | 'query'
  readonly texts: readonly string[]
}

/** The vectors of a request, one after the other. */
export interface EncoderAnswer {
  readonly id: number
  readonly vectors: Float32Array
}

// Runs only as a thread; importing its types elsewhere must not start it.
if (parentPort) serve(parentPort, workerData as EncoderWorkerData)

function sumOf(vectors: readonly Float32Array[]): Float32Array {
  const sum = new Float32Array(vectors[0]?.length ?? 0)
  for (const vector of vectors) for (let at = 0; at < sum.length; at++) sum[at] = (sum[at] ?? 0) + (vector[at] ?? 0)
  return sum
}

function serve(port: NonNullable<typeof parentPort>, { model }: EncoderWorkerData): void {
  const encoder = openEncoder(readFileSync(model))
  const tokenizer = createWordPieceTokenizer(encoder.pieces)
  const { id, dims, fusion } = encoder
  const queries: EncoderRequest[] = []
  const documents: EncoderRequest[] = []
  let working = false

  function vectorOf(text: string, kind: EncoderRequest['kind']): Float32Array {
    if (kind === 'query') return encoder.encode(queryInput(text, tokenizer), 'query')
    const tool = JSON.parse(text) as ToolText
    const own = encoder.encode(toolInput(tool, tokenizer), 'tool')
    const { requests = [] } = tool
    if (requests.length === 0) return own
    // As in the atlas, where the English requests and all requests each count as much as the definition.
    const requestVector = unitVector(sumOf(requests.map((one) => encoder.encode(queryInput(one, tokenizer), 'query'))))
    return unitVector(sumOf([own, requestVector, requestVector]))
  }

  async function answer({ id, kind, texts }: EncoderRequest): Promise<void> {
    const vectors = new Float32Array(texts.length * dims)
    for (const [at, text] of texts.entries()) {
      vectors.set(vectorOf(text, kind), at * dims)
      // Answers queries between two tools, because a person waits for them.
      if (kind === 'document') {
        await setImmediate()
        for (let query = queries.shift(); query; query = queries.shift()) await answer(query)
      }
    }
    port.postMessage({ id, vectors } satisfies EncoderAnswer, [vectors.buffer as ArrayBuffer])
  }

  async function work(): Promise<void> {
    if (working) return
    working = true
    for (let next = queries.shift() ?? documents.shift(); next; next = queries.shift() ?? documents.shift())
      await answer(next)
    working = false
  }

  port.on('message', (request: EncoderRequest) => {
    ;(request.kind === 'query' ? queries : documents).push(request)
    void work()
  })
  port.postMessage({ id, dims, fusion })
}
