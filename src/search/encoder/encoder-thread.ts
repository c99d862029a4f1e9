import { readFileSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { unitVector } from '../unit-vector.ts'
import { openEncoder } from './encoder.ts'
import { queryInput, type ToolText, toolInput } from './encoder-text.ts'
import { createWordPieceTokenizer } from './word-piece-tokenizer.ts'

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
  let isWorking = false

  function vectorOf(text: string, kind: EncoderRequest['kind']): Float32Array {
    if (kind === 'query') return encoder.encode(queryInput(text, tokenizer), 'query')
    const tool = JSON.parse(text) as ToolText
    const definitionVector = encoder.encode(toolInput(tool, tokenizer), 'tool')
    const { requests = [] } = tool
    if (requests.length === 0) return definitionVector
    // Requests count twice, as in the atlas, where English requests and all requests are added to the definition.
    const requestVector = unitVector(
      sumOf(requests.map((request) => encoder.encode(queryInput(request, tokenizer), 'query'))),
    )
    return unitVector(sumOf([definitionVector, requestVector, requestVector]))
  }

  async function answerRequest({ id, kind, texts }: EncoderRequest): Promise<void> {
    const vectors = new Float32Array(texts.length * dims)
    for (const [index, text] of texts.entries()) {
      vectors.set(vectorOf(text, kind), index * dims)
      // Answers queries between two tools, because a person waits for them.
      if (kind === 'document') {
        await setImmediate()
        for (let query = queries.shift(); query; query = queries.shift()) await answerRequest(query)
      }
    }
    port.postMessage({ id, vectors } satisfies EncoderAnswer, [vectors.buffer as ArrayBuffer])
  }

  async function processQueue(): Promise<void> {
    if (isWorking) return
    isWorking = true
    for (let request = queries.shift() ?? documents.shift(); request; request = queries.shift() ?? documents.shift())
      await answerRequest(request)
    isWorking = false
  }

  port.on('message', (request: EncoderRequest) => {
    ;(request.kind === 'query' ? queries : documents).push(request)
    void processQueue()
  })
  port.postMessage({ id, dims, fusion })
}
