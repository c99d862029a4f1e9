/** A document that takes more time or memory is malicious. */
const MOST_MS = 30_000
const MOST_MEMORY_MB = 1_024
/** Shorter JSON is parsed directly; its content cannot make that slow. */
const SMALL = 64 * 1024
const MAX_CHARACTERS = 64 * 1024 * 1024

/**
 * Parses JSON or YAML. Long texts and YAML are parsed in a thread, because a malicious one may take minutes.
 * @throws Error if the text is invalid, too long, or takes too long to parse
 */
export async function parseDocument(text: string, mostMs = MOST_MS): Promise<unknown> {
  const clean = text.replace(/^\uFEFF/, '')
  if (clean.length < SMALL && /^\s*[{[]/.test(clean)) {
    try {
      return JSON.parse(clean)
    } catch {
      // It may be YAML.
    }
  }
  return JSON.parse(await inThread(clean, mostMs))
}

/** The same as JSON. */
function inThread(text: string, mostMs: number): Promise<string> {
  const { Worker } = process.getBuiltinModule('node:worker_threads')
  const worker = new Worker(new URL('./parse-thread.cjs', import.meta.url), {
    workerData: text,
    // The thread gets no environment, and the output of the package is dropped.
    env: {},
    execArgv: [],
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: MOST_MEMORY_MB },
  })
  return new Promise<string>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`it takes longer than ${mostMs / 1_000} s to read`)), mostMs)
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
