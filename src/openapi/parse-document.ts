/** A document that takes more time or memory is malicious. */
const MAX_MS = 30_000
const MAX_MEMORY_MB = 1_024
/** Shorter JSON is parsed directly; its content cannot make that slow. */
const SMALL_LENGTH = 64 * 1024
const MAX_CHARACTERS = 64 * 1024 * 1024

/**
 * Parses JSON or YAML. Long texts and YAML are parsed in a thread, because a malicious one may take minutes.
 * @throws Error if the text is invalid, too long, or takes too long to parse
 */
export async function parseDocument(text: string, maxMs = MAX_MS): Promise<unknown> {
  const content = text.replace(/^\uFEFF/, '')
  if (content.length < SMALL_LENGTH && /^\s*[{[]/.test(content)) {
    try {
      return JSON.parse(content)
    } catch {
      // It may be YAML.
    }
  }
  return JSON.parse(await parseInThread(content, maxMs))
}

/** The same as JSON. */
function parseInThread(text: string, maxMs: number): Promise<string> {
  const { Worker } = process.getBuiltinModule('node:worker_threads')
  const worker = new Worker(new URL('./parse-thread.cjs', import.meta.url), {
    workerData: text,
    // The thread gets no environment, and the output of the package is dropped.
    env: {},
    execArgv: [],
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: MAX_MEMORY_MB },
  })
  return new Promise<string>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`it takes longer than ${maxMs / 1_000} s to read`)), maxMs)
    worker.on('message', ({ json, fault }: { readonly json?: string; readonly fault?: string }) => {
      if (json === undefined) reject(new Error(fault))
      else if (json.length > MAX_CHARACTERS) reject(new Error('it is larger than 64 MiB'))
      else resolve(json)
    })
    worker.on('error', () => reject(new Error('it takes too much memory to read')))
    worker.on('exit', () => {
      clearTimeout(timer)
      reject(new Error('it cannot be read'))
    })
  }).finally(() => worker.terminate())
}
