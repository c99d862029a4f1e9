import { parentPort, workerData } from 'node:worker_threads'
import variant from '@jitl/quickjs-singlefile-cjs-release-sync'
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSContext,
  type QuickJSHandle,
} from 'quickjs-emscripten-core'
import type { Json } from '../core/is-record.ts'
import { lowerThreadPriority } from '../core/thread-priority.ts'
import { truncate } from '../core/truncate.ts'
import { stripTypes } from '../loader/strip-types.ts'

/** What the thread is started with. */
export interface ScriptRequest {
  /** The body of an async function in JavaScript or TypeScript. */
  readonly source: string
  readonly maxCalls: number
}

/** How long a script may compute. Waiting for calls does not count. */
const COMPUTE_MS = 10_000
const MEMORY_BYTES = 80 * 1024 * 1024
/**
 * Maximum length of the returned JSON, of everything that is printed, of an error, of the name of a tool, and of the
 * arguments of all calls that have not been answered.
 */
const MAX_CHARS = { result: 16 * 1024 * 1024, printed: 100_000, error: 2_000, name: 300, params: 16 * 1024 * 1024 }

/** What the thread sends. Values are JSON. */
export type ScriptMessage =
  | { readonly kind: 'call'; readonly id: number; readonly name: string; readonly params: string }
  | { readonly kind: 'print'; readonly text: string }
  | { readonly kind: 'returned'; readonly value: string }
  | { readonly kind: 'failed'; readonly message: string; readonly line: number }

/** What the thread receives: the result of a call as JSON, or its error. */
export type ScriptAnswer =
  | { readonly id: number; readonly value: string }
  | { readonly id: number; readonly error: { readonly code: string; readonly message: string } }

/** The same line as the first of the script, so that errors name the script's own lines. */
const BEFORE = '(async () => { '
const AFTER = '\n})'
const STACK_BYTES = 256 * 1024
const PAGE_BYTES = 64 * 1024
/** What QuickJS was compiled to begin with. */
const FIRST_BYTES = 16 * 1024 * 1024
/** The part of the WebAssembly API used here; Node's types do not include it. */
interface WebAssemblyApi {
  readonly Memory: new (pages: {
    readonly initial: number
    readonly maximum: number
  }) => NonNullable<Parameters<typeof newVariant>[1]['wasmMemory']>
}

/**
 * Runs first in every sandbox. A name that code reads from `tools` is looked up only when it is called, so that the
 * tools need not be known here.
 */
const PRELUDE = `((send, print, returned, failed) => {
  const { parse, stringify } = JSON
  const waiting = new Map()
  let last = 0
  const errorOf = (code, message, stack) => Object.assign(new Error(message), { name: 'ToolError', code, stack })
  const call = (name, params = {}) => {
    const text = stringify(params)
    const { stack } = new Error()
    return new Promise((resolve, reject) => {
      const refused = send(last + 1, name, text === undefined ? '{}' : text)
      if (refused === undefined) waiting.set(++last, { resolve, reject, stack })
      else reject(errorOf(refused.slice(0, refused.indexOf(':')), refused, stack))
    })
  }
  const isName = (name) => typeof name === 'string' && name !== 'then' && name !== 'toJSON'
  const named = (get) => new Proxy(Object.freeze(Object.create(null)), { get: (_, name) => (isName(name) ? get(name) : undefined) })
  const show = (value) => {
    if (typeof value === 'string') return value
    if (value instanceof Error) return String(value)
    try { return stringify(value) ?? String(value) } catch { return String(value) }
  }
  const log = (...values) => print(values.map(show).join(' '))
  const define = (name, value) => Object.defineProperty(globalThis, name, { value })
  define('tools', named((owner) => named((tool) => (params) => call(owner + '.' + tool, params))))
  define('search', async (query, options) => (await call('search', { query, ...options, format: 'json' })).tools)
  define('console', Object.freeze({ log, info: log, warn: log, error: log, debug: log }))
  return {
    answer(id, value, code, message) {
      const { resolve, reject, stack } = waiting.get(id)
      waiting.delete(id)
      if (code === undefined) resolve(parse(value))
      else reject(errorOf(code, message, stack))
    },
    run(main) {
      main().then((value) => {
        const text = stringify(value)
        returned(text === undefined ? 'null' : text)
      }).catch((error) => {
        const isError = error instanceof Error
        failed(isError ? String(error) : 'threw ' + show(error), isError ? String(error.stack) : '')
      })
    },
  }
})`

// Runs only as a thread; importing its types elsewhere must not start it.
if (parentPort) void serve(parentPort, workerData as ScriptRequest)

async function serve(port: NonNullable<typeof parentPort>, { source: body, maxCalls }: ScriptRequest): Promise<void> {
  const post = (message: ScriptMessage): void => port.postMessage(message)
  let receive = (_: ScriptAnswer): void => undefined
  // Keeps the thread until it is terminated, because a message sent just before its end may be lost.
  port.on('message', (answer: ScriptAnswer) => receive(answer))
  let source: string
  try {
    source = await stripTypes(BEFORE + body + AFTER)
  } catch (error) {
    const { message, line = 0 } = error as { readonly message: string; readonly line?: number }
    return post({ kind: 'failed', message: `SyntaxError: ${message}`, line })
  }
  lowerThreadPriority()
  // The memory limit of QuickJS counts nothing here, because WebAssembly cannot tell it the size of an allocation.
  const { Memory } = (globalThis as unknown as { readonly WebAssembly: WebAssemblyApi }).WebAssembly
  const wasmMemory = new Memory({ initial: FIRST_BYTES / PAGE_BYTES, maximum: MEMORY_BYTES / PAGE_BYTES })
  const quickjs = await newQuickJSWASMModuleFromVariant(newVariant(variant.default, { wasmMemory }))
  const runtime = quickjs.newRuntime({ maxStackSizeBytes: STACK_BYTES })
  const vm = runtime.newContext()
  let computed = 0
  let since = performance.now()
  let interrupted = false
  runtime.setInterruptHandler(() => {
    interrupted ||= computed + performance.now() - since > COMPUTE_MS
    return interrupted
  })

  /** Length of the arguments of each call that has not been answered. */
  const open = new Map<number, number>()
  let calls = 0
  let over = false
  let printed = 0
  const end = (message: ScriptMessage): void => {
    if (over) return
    over = true
    post(message)
  }
  const fail = (message: string, line = 0): void => {
    const why = interrupted ? `it computed longer than ${COMPUTE_MS} ms` : truncate(message, MAX_CHARS.error)
    end({ kind: 'failed', line, message: why })
  }
  /** Lets the script compute until it waits for calls or has ended. */
  const compute = (work: () => ReturnType<QuickJSContext['evalCode']>): void => {
    since = performance.now()
    const failed = [work().error, runtime.executePendingJobs().error]
    computed += performance.now() - since
    for (const error of failed) {
      if (!error) continue
      const { name, message, stack } = errorOf(vm, error)
      fail(`${name}: ${message}`, lineOf(stack))
    }
    if (open.size === 0 && !over) fail('it waits for something that cannot happen')
  }

  /** Why a call is not made: its code, and what is wrong. */
  function refusalOf({ name, params }: { readonly name: string; readonly params: string }): string | undefined {
    if (++calls > maxCalls) return `E_LOOP_LIMIT: A script can make ${maxCalls} calls.`
    if (name.length > MAX_CHARS.name) return `E_NOT_FOUND: Tool '${name.slice(0, 80)}…' not found.`
    const length = [...open.values()].reduce((sum, one) => sum + one, params.length)
    return length > MAX_CHARS.params
      ? `E_TOO_LARGE: The arguments of the calls that run have ${length} characters; at most ${MAX_CHARS.params} are allowed.`
      : undefined
  }

  const text = (handle: QuickJSHandle | undefined): string => (handle === undefined ? '' : vm.getString(handle))
  const functions = {
    send: vm.newFunction('send', (idHandle, name, params) => {
      const call = { id: vm.getNumber(idHandle), name: text(name), params: text(params) }
      const refused = refusalOf(call)
      if (refused !== undefined) return vm.newString(refused)
      open.set(call.id, call.params.length)
      post({ kind: 'call', ...call })
      return vm.undefined
    }),
    print: vm.newFunction('print', (line) => {
      const { printed: most } = MAX_CHARS
      if (printed > most) return
      const shown = text(line)
      const cut = shown.slice(0, most - printed)
      printed += shown.length + 1
      post({ kind: 'print', text: printed > most ? `${cut}… (more was printed than is kept)` : cut })
    }),
    returned: vm.newFunction('returned', (value) => {
      const json = text(value)
      const most = MAX_CHARS.result
      if (json.length > most) fail(`it returned ${json.length} characters of JSON; return at most ${most}`)
      else end({ kind: 'returned', value: json })
    }),
    failed: vm.newFunction('failed', (message, stack) => fail(text(message), lineOf(text(stack)))),
  }
  const prelude = vm.unwrapResult(vm.evalCode(PRELUDE, 'pegboard'))
  const { send, print, returned, failed } = functions
  const inside = vm.unwrapResult(vm.callFunction(prelude, vm.undefined, send, print, returned, failed))
  const answer = vm.getProp(inside, 'answer')
  const run = vm.getProp(inside, 'run')

  receive = (given) => {
    open.delete(given.id)
    const failure = 'error' in given ? given.error : undefined
    const values = [
      vm.newNumber(given.id),
      'value' in given ? vm.newString(given.value) : vm.undefined,
      failure ? vm.newString(failure.code) : vm.undefined,
      failure ? vm.newString(failure.message) : vm.undefined,
    ]
    compute(() => vm.callFunction(answer, vm.undefined, ...values))
    for (const value of values) value.dispose()
  }
  compute(() => {
    const main = vm.evalCode(source, 'script')
    return main.error ? main : vm.callFunction(run, vm.undefined, main.value)
  })
}

function errorOf(vm: QuickJSContext, handle: QuickJSHandle): { name: string; message: string; stack: string } {
  const dumped: unknown = vm.dump(handle)
  // Without memory, there is none for an error.
  if (dumped === null) return { name: 'InternalError', message: 'out of memory', stack: '' }
  if (typeof dumped !== 'object') return { name: 'Error', message: String(dumped), stack: '' }
  const { name = 'Error', message = '', stack = '' } = dumped as Json
  return { name: String(name), message: String(message), stack: String(stack) }
}

/** The line of the script where it failed, 0 if unknown. */
const lineOf = (stack: string): number => Number(/\bscript:(\d{1,6})\b/.exec(stack)?.[1] ?? 0)
