/** First message to the child process. */
export interface LoadRequest {
  /** File URLs of the packages to try, in order. */
  readonly packages: readonly string[]
  readonly model: string
  /** Folder that contains the folder `model`; undefined for a model from the hub. */
  readonly folder: string | undefined
  readonly download: boolean
  readonly cacheDir: string
  readonly dtype: string
  readonly pooling: string
  readonly threads: number
}

/** Messages from the child process. `id` is that of the request. */
export type ChildMessage =
  | { readonly kind: 'progress'; readonly file: string; readonly loaded: number; readonly total: number | undefined }
  | { readonly kind: 'ready'; readonly dims: number }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'vectors'; readonly id: number; readonly values: Float32Array }
  | { readonly kind: 'error'; readonly id: number; readonly message: string }

/**
 * Program of the child process that runs the model, started with `node --input-type=module --eval`. It is a separate
 * process because the runtime blocks the event loop, cannot be stopped while it waits for a hub, and its older
 * version can be loaded only once per process. It is a string so that it works wherever a bundler puts this file.
 */
export const CHILD = `
import { join } from 'node:path'

const say = (message) => process.connected && process.send(message)
const describeError = (error) => [error?.message ?? error, error?.cause?.message].filter(Boolean).join(': ')
let extract, pooling

async function load(order) {
  let library, wrong
  for (const url of order.packages) {
    try {
      library = await import(url)
      break
    } catch (error) {
      wrong ??= error
    }
  }
  if (!library) throw wrong
  const { env, pipeline } = library.pipeline ? library : library.default
  const { folder } = order
  let { model } = order
  env.allowLocalModels = true
  env.allowRemoteModels = folder === undefined && order.download
  env.localModelPath = folder ?? order.cacheDir
  env.useFSCache = folder === undefined
  env.cacheDir = order.cacheDir
  // The current package would read a name that is not a valid hub name as a path.
  if (folder !== undefined && !/^[\\w.-]+$/.test(model) && !env.version?.startsWith('2.')) {
    env.localModelPath = ''
    model = join(folder, model)
  }
  pooling = order.pooling
  extract = await pipeline('feature-extraction', model, {
    quantized: order.dtype !== 'fp32',
    dtype: order.dtype,
    device: 'cpu',
    session_options: { intraOpNumThreads: order.threads },
    progress_callback: ({ file, loaded, total, status }) => {
      if (file !== undefined && status !== 'done') say({ kind: 'progress', file, loaded: loaded ?? 0, total })
    },
  })
  say({ kind: 'ready', dims: (await embed(['tool'])).length })
}

async function embed(texts) {
  const { data, dims } = await extract(texts, { pooling, normalize: true })
  if (dims.length !== 2 || dims[0] !== texts.length) throw new Error('the model gives a tensor of ' + dims.join(' x '))
  return Float32Array.from(data)
}

let line = Promise.resolve()
// Ctrl-C reaches the whole process group; the parent decides when this process ends.
process.on('SIGINT', () => undefined)
process.on('disconnect', () => process.exit())
process.on('message', (message) => {
  if (message.order) load(message.order).catch((error) => say({ kind: 'failed', message: describeError(error) }))
  else line = line.then(() => embed(message.texts)).then(
    (values) => say({ kind: 'vectors', id: message.id, values }),
    (error) => say({ kind: 'error', id: message.id, message: describeError(error) }),
  )
})
`
