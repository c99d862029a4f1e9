import type { ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism, homedir } from 'node:os'
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { PegboardError } from '../../core/errors.ts'
import { batchesOf, checkDims, type Embedder, type EmbedderSource } from '../embedder.ts'
import type { EmbedderSettings } from '../search-options.ts'
import { CHILD, type ChildMessage, type LoadRequest } from './embedder-child.ts'

/** The package under its current and its former name. */
export const PACKAGES = ['@huggingface/transformers', '@xenova/transformers'] as const

const BATCH_SIZE = 16
const MAX_THREADS = 4
const INSTALL = 'ONNXRUNTIME_NODE_INSTALL=skip npm install @huggingface/transformers'

export interface TransformersPlaces {
  /** Folder that relative model folders start from. */
  readonly baseDir: string
  /** Folder for downloaded models. */
  readonly cacheDir: string
  /** Returns the file of a package, or undefined if it is not installed. Default: resolved from Pegboard itself. */
  readonly locate?: (name: string) => string | undefined
}

/**
 * Runs a model from the hub, or from a local folder with the same layout, with `@huggingface/transformers` or
 * `@xenova/transformers` in a child process. The package is an optional peer dependency and is looked up when the
 * model is loaded.
 * @param model `org/name` for the hub; a folder if it starts with `.`, `~` or is an absolute path
 */
export function createTransformersEmbedder(
  model: string,
  settings: EmbedderSettings,
  { baseDir, cacheDir, locate = locatePackage }: TransformersPlaces,
): EmbedderSource {
  const label = `transformers:${model}`
  const folder = folderOf(model, baseDir)
  const size = settings.batchSize ?? BATCH_SIZE
  return {
    label,
    async load(signal, onProgress) {
      signal.throwIfAborted()
      const packages = PACKAGES.map(locate).filter((file) => file !== undefined)
      if (packages.length === 0)
        throw new PegboardError(
          'E_CONFIG_INVALID',
          `search.embedder "${label}" needs a package that is not installed.`,
          {
            hint: `Run: ${INSTALL} (the variable keeps it from fetching GPU libraries).`,
          },
        )
      if (folder !== undefined && !isFolder(folder))
        throw new PegboardError('E_CONFIG_INVALID', `search.embedder: there is no folder ${folder}.`)
      const child = startChild(label)
      try {
        const dims = await child.load(
          {
            packages: packages.map((file) => pathToFileURL(file).href),
            model: folder === undefined ? model : basename(folder),
            folder: folder === undefined ? undefined : dirname(folder),
            download: settings.download,
            cacheDir,
            dtype: settings.dtype,
            pooling: settings.pooling,
            threads: Math.max(1, Math.min(MAX_THREADS, Math.floor(availableParallelism() / 2))),
          },
          settings.loadTimeoutMs,
          signal,
          onProgress,
        )
        checkDims(label, dims, settings.dims)
        const { dtype, pooling, documentPrefix } = settings
        const version = folder === undefined ? '' : stampOf(folder)
        return {
          id: JSON.stringify(['transformers', folder ?? model, version, dtype, pooling, dims, documentPrefix]),
          dims,
          async embed(texts, kind, outer) {
            const prefix = kind === 'query' ? settings.queryPrefix : settings.documentPrefix
            const vectors: Float32Array[] = []
            for (const batch of batchesOf(texts, size)) {
              const texts = batch.map((text) => prefix + text)
              const values = await child.embed(texts, settings.requestTimeoutMs, outer)
              for (let at = 0; at < values.length; at += dims) vectors.push(values.subarray(at, at + dims))
            }
            return vectors
          },
          close: () => child.stop(),
        } satisfies Embedder
      } catch (error) {
        await child.stop()
        throw error
      }
    },
  }
}

const LOAD = 0

/** One child process that handles requests in order. When it ends or a request times out, all open requests fail. */
function startChild(label: string) {
  const { spawn } = process.getBuiltinModule('node:child_process')
  const child = spawn(process.execPath, ['--input-type=module', '--eval', CHILD], {
    // Its stdout must not be inherited: stdout belongs to the MCP protocol.
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    serialization: 'advanced',
    windowsHide: true,
  })
  setRef(child, false)
  const closed = once(child, 'close').catch(() => undefined)
  const pendingRequests = new Map<number, { resolve(message: ChildMessage): void; reject(error: Error): void }>()
  let lastId = LOAD
  let closeError: Error | undefined
  let stderrTail = ''
  let onMessage: ((answer: ChildMessage) => void) | undefined

  function fail(error: Error): void {
    closeError ??= error
    child.kill('SIGKILL')
    for (const { reject } of pendingRequests.values()) reject(closeError)
    pendingRequests.clear()
  }

  child.stderr?.on('data', (chunk: Buffer) => {
    stderrTail = `${stderrTail}${chunk}`.slice(-500)
  })
  child.on('error', (error) => fail(error))
  child.on('exit', (code, signal) => {
    const lastLine = stderrTail.trim().split('\n').at(-1) ?? ''
    fail(new Error(`${label}: its process ended (${signal ?? code})${lastLine ? `: ${lastLine}` : ''}`))
  })
  child.on('message', (answer: ChildMessage) => {
    onMessage?.(answer)
    if (answer.kind === 'progress') return
    const id = 'id' in answer ? answer.id : LOAD
    pendingRequests.get(id)?.resolve(answer)
    pendingRequests.delete(id)
  })

  /**
   * Sends a request and waits. After `timeoutMs` of silence, or on abort, the child is killed, because it cannot be
   * stopped otherwise.
   */
  async function sendRequest(
    id: number,
    message: object,
    timeoutMs: number,
    timeoutMessage: string,
    signal: AbortSignal,
  ) {
    signal.throwIfAborted()
    if (closeError) throw closeError
    const timer = setTimeout(() => fail(new Error(timeoutMessage)), timeoutMs)
    if (id === LOAD) onMessage = () => timer.refresh()
    const abort = (): void => fail(new Error(`${label} was stopped`))
    signal.addEventListener('abort', abort, { once: true })
    setRef(child, true)
    try {
      return await new Promise<ChildMessage>((resolve, reject) => {
        pendingRequests.set(id, { resolve, reject })
        child.send(message, (error) => {
          if (error) fail(error)
        })
      })
    } finally {
      clearTimeout(timer)
      // Refreshing a cleared timer would start it again.
      if (id === LOAD) onMessage = undefined
      signal.removeEventListener('abort', abort)
      if (pendingRequests.size === 0) setRef(child, false)
    }
  }

  return {
    async load(
      order: LoadRequest,
      timeoutMs: number,
      signal: AbortSignal,
      onProgress: (progress: { file: string; loaded: number; total: number | undefined }) => void,
    ): Promise<number> {
      child.on('message', (answer: ChildMessage) => {
        if (answer.kind === 'progress') onProgress({ file: answer.file, loaded: answer.loaded, total: answer.total })
      })
      const timeoutMessage = `${label}: no progress for ${timeoutMs} ms while loading (search.embedderOptions.loadTimeoutMs). Check the connection to the hub, or use a local folder`
      const answer = await sendRequest(LOAD, { order }, timeoutMs, timeoutMessage, signal)
      if (answer.kind === 'ready') return answer.dims
      throw loadError(label, answer.kind === 'failed' ? answer.message : 'it sent an unexpected message', order)
    },
    async embed(texts: readonly string[], timeoutMs: number, signal: AbortSignal): Promise<Float32Array> {
      const id = ++lastId
      const timeoutMessage = `${label}: no vectors within ${timeoutMs} ms (search.embedderOptions.requestTimeoutMs)`
      const answer = await sendRequest(id, { id, texts }, timeoutMs, timeoutMessage, signal)
      if (answer.kind === 'vectors') return answer.values
      throw new Error(`${label}: ${answer.kind === 'error' ? answer.message : 'it sent an unexpected message'}`)
    },
    async stop(): Promise<void> {
      // Keeps this process alive; with nothing else to do it would end before its child.
      setRef(child, true)
      fail(new Error(`${label} was stopped`))
      await closed
    },
  }
}

/** Sets whether the child keeps this process alive. An idle child does not; it ends when the channel closes. */
function setRef(child: ChildProcess, isReferenced: boolean): void {
  for (const handle of [child, child.channel, child.stderr as { ref?(): void; unref?(): void } | null])
    if (isReferenced) handle?.ref?.()
    else handle?.unref?.()
}

/** Only the operator can fix a missing file. Other errors, such as an unreachable hub, may be temporary. */
function loadError(label: string, message: string, { folder, download }: LoadRequest): Error {
  const missingFile = /file was not found locally at "([^"]+)"/.exec(message)?.[1]
  if (missingFile === undefined) return new Error(`${label}: ${message}`)
  if (folder !== undefined)
    return new PegboardError('E_CONFIG_INVALID', `search.embedder: the model lacks the file ${missingFile}.`)
  const hint = download ? '' : ' and search.embedderOptions.download is false'
  return new PegboardError(
    'E_CONFIG_INVALID',
    `search.embedder: ${basename(missingFile)} of ${label} is not on disk${hint}.`,
  )
}

function folderOf(model: string, baseDir: string): string | undefined {
  if (/^~[\\/]/.test(model)) return join(homedir(), model.slice(2))
  if (/^\.{1,2}([\\/]|$)/.test(model) || isAbsolute(model)) return resolve(baseDir, model)
  return undefined
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}

/** Changes when the files of a model change. */
function stampOf(folder: string): string {
  const hash = createHash('sha256')
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()) {
    const stat = statSync(join(folder, file), { throwIfNoEntry: false })
    if (stat?.isFile()) hash.update(`${file}\0${stat.size}\0${stat.mtimeMs}\n`)
  }
  return hash.digest('hex').slice(0, 16)
}

function locatePackage(name: string): string | undefined {
  try {
    return createRequire(import.meta.url).resolve(name)
  } catch {
    return undefined
  }
}
