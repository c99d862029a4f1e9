import { checkItemCount } from '../core/argument-limits.ts'
import type { Caller } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { type ToolResult, valueResult } from '../core/tool-result.ts'
import { signatureOf } from '../core/tool-signature.ts'
import { type CallOutput, notInjectable } from '../exec/call-output.ts'
import { failureOfResult } from '../exec/explain-failure.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import type { ViewTool } from '../view/view.ts'
import { readMaxTokens } from './fit-answer.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'
import { ANY_ARGUMENTS, createInputError, inputSchema, RUNS, TEXT } from './meta-input.ts'
import type { UnlistedTools } from './unlisted-tools.ts'

/** The tools that an error for an unknown tool names. */
export const FINDERS = ['search_tools', 'list_categories']
const NAME_KEYS = ['name', 'tool_name', 'tool'] as const
const PARAM_KEYS = ['params', 'arguments', 'args', 'tool_params', 'parameters'] as const

/** The name of a meta-tool; callers may prefix it with `context_builder`. */
export const bareName = (name: string): string =>
  name.startsWith('context_builder') ? name.replace(/^context_builder(?:__|[.:])/, '') : name

/** @param start runs any tool by its name */
export const executeTool = (
  host: MetaHost,
  isMeta: (name: string) => boolean,
  start: (request: CallRequest) => Promise<ToolResult>,
  unlisted: UnlistedTools,
): MetaTool => ({
  name: 'execute_tool',
  title: 'Execute tool',
  step: 'execute',
  description: () => 'Run a tool, e.g. name "category.tool", params {"path": "a.txt"}.',
  inputSchema: inputSchema({ name: TEXT, params: ANY_ARGUMENTS, max_tokens: { type: 'integer' } }, 'name'),
  otherKeys: 'any',
  hints: RUNS,
  async run(raw, request) {
    const { name, params } = readCall(raw)
    const metaName = bareName(name)
    const isUnlisted = unlisted.of(request.caller).has(metaName)
    if (isMeta(metaName) && !isUnlisted)
      throw new PegboardError(
        'E_LOOP_DETECTED',
        `${metaName === 'execute_tool' ? 'execute_tool cannot execute itself' : `execute_tool cannot run ${metaName}`}.`,
      )
    let found = host.view(request.caller).resolve(name)
    if (found.kind === 'unknown' && !isUnlisted) {
      await awaitServerOf(host, name, request)
      found = host.view(request.caller).resolve(name)
    }
    const entry = found.kind === 'found' ? found.tool : undefined
    const args = withoutMaxTokens(raw, params, entry)
    const result = await start({
      ...request,
      name,
      input: entry ? unwrapParams(args, entry) : args,
      finders: FINDERS,
    })
    return wrap(result, entry)
  },
})

/**
 * The arguments without a `max_tokens` that the model sent beside them, unless the tool has a parameter of this name.
 * `fitResult` applies the limit.
 * @throws PegboardError E_VALIDATION
 */
function withoutMaxTokens(raw: Json, params: Json, entry: ViewTool | undefined): Json {
  if (raw['max_tokens'] === undefined || !entry) return params
  const { max_tokens: argument, ...rest } = params
  const isBeside =
    argument !== undefined && argument === raw['max_tokens'] && !PARAM_KEYS.some((key) => raw[key] != null)
  const properties = entry.input.json['properties']
  if (isBeside && isRecord(properties) && 'max_tokens' in properties) return params
  readMaxTokens(raw, 'execute_tool')
  return isBeside ? rest : params
}

/** The result of a tool that made several calls, with their files. Tools that these calls asked for are injected. */
export function addOutput(host: MetaHost, caller: Caller, value: unknown, { files, injected }: CallOutput) {
  const { unknown } = injected.length > 0 ? host.context.inject(caller, injected) : { unknown: [] }
  return valueResult(value, files, unknown.map(notInjectable))
}

/**
 * Wraps a module's value in the result envelope. The result of an upstream server is passed on, with the tool's
 * signature added if the server rejected the arguments.
 */
function wrap(result: ToolResult, entry: ViewTool | undefined): ToolResult {
  if (result.kind === 'value') {
    const { value, files, warnings } = result
    const wrapped = { kind: 'value', value: { success: true, data: value ?? null }, files, warnings } as const
    // A text stays as it is: within JSON, each of its quotes and line breaks would cost more.
    return typeof value === 'string' ? { ...wrapped, text: value } : wrapped
  }
  if (result.kind === 'mcp' && entry && failureOfResult(result.result) === 'argument') {
    const note = { type: 'text', text: `Signature: ${entry.tool.id}(${signatureOf(entry.input.json)})` }
    return { kind: 'mcp', result: { ...result.result, content: [...(result.result.content ?? []), note] } }
  }
  return result
}

/**
 * Accepts the ways in which models malform this call: other key names, arguments as a JSON string, arguments beside
 * the name, or the whole call nested one level too deep.
 * @throws PegboardError E_VALIDATION
 */
export function readCall(raw: Json, tool = 'execute_tool'): { readonly name: string; readonly params: Json } {
  const nameKey = NAME_KEYS.find((key) => typeof raw[key] === 'string')
  const paramsKey = PARAM_KEYS.find((key) => raw[key] !== undefined && raw[key] !== null)
  if (nameKey === undefined) {
    const inner = paramsKey && asObject(raw[paramsKey])
    if (inner && NAME_KEYS.some((key) => typeof inner[key] === 'string')) return readCall(inner, tool)
    throw createInputError(tool, 'name: the name of a tool is required, such as "category.tool"')
  }
  const name = raw[nameKey] as string
  if (paramsKey === undefined) {
    const rest = Object.entries(raw).filter(
      ([key]) => key !== nameKey && !(PARAM_KEYS as readonly string[]).includes(key),
    )
    return { name, params: Object.fromEntries(rest) }
  }
  const params = asObject(raw[paramsKey])
  if (!params) throw createInputError(tool, `${paramsKey}: an object of arguments is required`)
  return { name, params }
}

function asObject(value: unknown): Json | undefined {
  if (isRecord(value)) return value
  if (typeof value !== 'string') return undefined
  if (value.trim() === '') return {}
  checkItemCount(value)
  try {
    const parsed: unknown = JSON.parse(value)
    return isRecord(parsed) ? parsed : undefined
  } catch (error) {
    throw new PegboardError(
      'E_VALIDATION',
      `Invalid params for execute_tool: the arguments are a string that is not JSON (${(error as Error).message}).`,
      { hint: 'Send params as an object.' },
    )
  }
}

/** `{params: {arguments: {...}}}` is unwrapped only if the tool has no parameter of that name. */
function unwrapParams(params: Json, entry: ViewTool): Json {
  const keys = Object.keys(params)
  const [only] = keys
  if (keys.length !== 1 || only === undefined || !(PARAM_KEYS as readonly string[]).includes(only)) return params
  const properties = entry.input.json.properties
  if (isRecord(properties) && only in properties) return params
  return asObject(params[only]) ?? params
}

/** The name of the tool that a request runs, also through `execute_tool`. */
export function calledName(name: string, input: unknown): string {
  if (bareName(name) !== 'execute_tool' || !isRecord(input)) return name
  try {
    return readCall(input).name
  } catch {
    // The call itself reports the error.
    return name
  }
}

/**
 * If a name belongs to a server that was never seen, starts that server and waits for it. If it could belong to any
 * unread server, waits a moment.
 */
export async function awaitServerOf(host: MetaHost, name: string, request: CallRequest): Promise<void> {
  const found = host.view(request.caller).resolve(name)
  if (found.kind !== 'unknown') return
  if (!found.down && !found.ownerHasTools) await host.serversRead(request.caller)
  else if (found.down?.state === 'configured' || found.down?.state === 'connecting') await host.awaitTool(name, request)
}
