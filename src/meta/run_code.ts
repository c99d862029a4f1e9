import { runScript, type ScriptResult } from '../code/run-script.ts'
import type { Clock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import { joinNames } from '../core/join-names.ts'
import { parseJsonText } from '../core/parse-json-text.ts'
import { sanitize, sanitizeText } from '../core/sanitize.ts'
import { createSemaphore } from '../core/semaphore.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { beginCalls } from '../exec/parallel.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import { addOutput } from './execute_tool.ts'
import { readMaxTokens } from './fit-answer.ts'
import { fitPart } from './fit-result.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'
import { inputSchema, RUNS, readInteger, readText } from './meta-input.ts'
import { READ_RESULT } from './read_result.ts'

const MAX_CHARACTERS = 100_000
const TIMEOUT_MS = { least: 100, most: 600_000, usual: 60_000 }
/** Each has a thread with memory of its own. */
const SCRIPTS = { maxConcurrent: 8, maxQueued: 64, setting: '' }
/** Characters of a tool's error that a script gets. It can read the rest. */
const ERROR_CHARS = 1_500
/** Tokens of the description of a result that is too large for a script. */
const KEPT_TOKENS = 2_000
/** Maximum number of calls and of printed characters that the error of a failed script contains. */
const MAX_IN_ERROR = { calls: 20, printed: 2_000 }

/**
 * Runs a script that calls tools.
 * @param sandbox path of the compiled thread, and the clock of the time limit
 * @param scriptTools what a script can call besides tools, by name
 */
export const runCode = (
  host: MetaHost,
  sandbox: { readonly thread: string; readonly clock: Clock },
  isMeta: (name: string) => boolean,
  scriptTools: Readonly<Record<string, (request: CallRequest) => Promise<ToolResult>>>,
  running = createSemaphore(SCRIPTS),
): MetaTool => ({
  name: 'run_code',
  title: 'Run code',
  step: 'execute',
  description: () =>
    'Run JavaScript or TypeScript that calls tools: `const file = await tools.filesystem.read({path: "a.txt"}); return file.content.length`. Find tools first, or inside with `await search("words")`. Only what you return or console.log comes back. No files, network, timers or imports.',
  inputSchema: inputSchema(
    {
      code: { type: 'string', description: 'Body of an async function.' },
      timeout_ms: { type: 'integer', default: TIMEOUT_MS.usual, maximum: TIMEOUT_MS.most },
      max_tokens: { type: 'integer' },
    },
    'code',
  ),
  hints: RUNS,
  async run(input, request) {
    // Only checks the value: `fitResult` applies the limit.
    readMaxTokens(input, 'run_code')
    const source = readText(input, 'code', 'run_code', MAX_CHARACTERS)
    const { least, most, usual } = TIMEOUT_MS
    const timeoutMs = readInteger(input, 'timeout_ms', 'run_code', least, most, usual)
    const ended = new AbortController()
    const { principal } = request.caller
    // Also held while a person is asked: the script keeps its memory.
    await running.acquire(request.signal ?? request.abort?.signal ?? ended.signal, principal)
    const calls = beginCalls({ ...request, outerSignal: ended.signal, finders: ['search_tools'] }, async (call) => {
      const scriptTool = Object.hasOwn(scriptTools, call.name) ? scriptTools[call.name] : undefined
      if (scriptTool) return await scriptTool(call)
      if (isMeta(call.name)) throw new PegboardError('E_LOOP_DETECTED', `A script cannot call ${call.name}.`)
      return await host.call(call)
    })
    try {
      const result = await runScript(
        sandbox.thread,
        {
          source,
          timeoutMs,
          signal: request.signal,
          async call(name, params, index, pause) {
            request.onProgress?.(index, undefined, `Calling ${name}`)
            const outcome = await calls.run({ name, params }, index, pause)
            if (!outcome.success)
              return { code: outcome.code, error: await fitError(host, request, name, outcome.error) }
            if (!Object.hasOwn(scriptTools, name)) host.scriptRead(request.caller, name, outcome.data)
            return { data: parseJsonText(outcome.data) }
          },
          // The script gets a description with a handle, and reads the result with it.
          keep: (name, data) => fitPart(host, request.caller, name, data, KEPT_TOKENS),
        },
        sandbox.clock,
      )
      if ('failure' in result) throw failureOf(result)
      const printed = result.printed.join('\n')
      const value = { result: result.value, ...(printed === '' ? {} : { printed }) }
      // A script can decode what its calls returned, such as JSON in a text.
      sanitize(value)
      const answer = addOutput(host, request.caller, value, calls.output)
      const { result: text } = value
      // A text alone is no JSON, where quotes and line breaks would be escaped.
      return typeof text === 'string' && printed === '' ? { ...answer, text } : answer
    } finally {
      ended.abort()
      calls.end()
      running.release(principal)
    }
  },
})

/** The text of an error as a script gets it. The script can read the rest of a long one. */
async function fitError(host: MetaHost, { caller }: CallRequest, title: string, error: string): Promise<string> {
  if (error.length <= ERROR_CHARS) return error
  const stored = await host.results.keep(caller, { data: error, mimeType: 'text/plain', title })
  const rest = stored ? ` [Not all of it. Read on with ${READ_RESULT} {"handle":"${stored.handle}"}.]` : ''
  return `${error.slice(0, ERROR_CHARS)}…${rest}`
}

function failureOf({ printed, calls, failure }: Extract<ScriptResult, { failure: unknown }>): PegboardError {
  const { message, line, late } = failure
  const done = calls.length > 0 ? ` Calls made before: ${namesOf(calls)}.` : ''
  const printedText = printed.join('\n').slice(-MAX_IN_ERROR.printed)
  const where = line > 0 ? `line ${line}: ` : ''
  const text = `The script failed: ${where}${message}${/[.!?]$/.test(message) ? '' : '.'}${done}`
  const shown = sanitizeText(printedText === '' ? text : `${text} Printed: ${printedText}`)
  return new PegboardError(late ? 'E_TIMEOUT' : 'E_SCRIPT_FAILED', shown, {
    ...(late && { hint: 'Do less in one script, or pass a larger timeout_ms.' }),
  })
}

/** Equal names once, with their number. */
function namesOf(calls: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const name of calls) counts.set(name, (counts.get(name) ?? 0) + 1)
  const names = [...counts].map(([name, count]) => (count > 1 ? `${name} (${count} times)` : name))
  return joinNames(names, MAX_IN_ERROR.calls)
}
