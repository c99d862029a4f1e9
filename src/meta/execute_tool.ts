import { PegboardError } from '../core/errors.ts'
import { checkText } from '../core/guard.ts'
import { type ToolResult, valueResult } from '../core/result.ts'
import { signatureOf } from '../core/signature.ts'
import type { CallRequest } from '../exec/call.ts'
import type { ViewTool } from '../view/view.ts'
import type { Host, MetaTool } from './host.ts'
import { ANY_ARGUMENTS, invalid } from './input.ts'
import type { Unlisted } from './unlisted.ts'
import { startUnseen } from './unseen.ts'

const FINDERS = ['search_tools', 'list_categories']
const NAME_KEYS = ['name', 'tool_name', 'tool'] as const
const PARAM_KEYS = ['params', 'arguments', 'args', 'tool_params', 'parameters'] as const

/** The name of a tool about tools, which may be called as one of the module `context_builder`. */
export const bareName = (name: string): string =>
  name.startsWith('context_builder') ? name.replace(/^context_builder(?:__|[.:])/, '') : name

/** @param start runs any tool by its name */
export const executeTool = (
  host: Host,
  isMeta: (name: string) => boolean,
  start: (request: CallRequest) => Promise<ToolResult>,
  unlisted: Unlisted,
): MetaTool => ({
  name: 'execute_tool',
  title: 'Execute tool',
  step: 'execute',
  description: () => 'Run a tool found by search_tools, e.g. name "category.tool", params {"path": "a.txt"}.',
  inputSchema: {
    type: 'object',
    properties: { name: { type: 'string' }, params: ANY_ARGUMENTS },
    required: ['name'],
  },
  // It can reach any tool, so it is as bad as the worst of them.
  hints: { readOnlyHint: false, destructiveHint: true, openWorldHint: true },
  async run(raw, request) {
    const { name, params } = readCall(raw)
    const own = bareName(name)
    const isUnlisted = unlisted.of(request.caller).has(own)
    if (isMeta(own) && !isUnlisted)
      throw new PegboardError(
        'E_LOOP_DETECTED',
        `${own === 'execute_tool' ? 'execute_tool cannot execute itself' : `execute_tool cannot run ${own}; call it directly`}.`,
      )
    let found = host.view(request.caller).resolve(name)
    if (found.kind === 'unknown' && !isUnlisted) {
      await startUnseen(host, name, request)
      found = host.view(request.caller).resolve(name)
    }
    const entry = found.kind === 'found' ? found.tool : undefined
    const result = await start({
      ...request,
      name,
      input: entry ? unwrapped(params, entry) : params,
      finders: FINDERS,
    })
    return wrap(result, entry)
  },
})

/** A module's value gets the envelope; what an upstream says is relayed, with a reminder of the signature when it refused. */
function wrap(result: ToolResult, entry: ViewTool | undefined): ToolResult {
  if (result.kind === 'value')
    return valueResult({ success: true, data: result.value ?? null }, result.files, result.warnings)
  if (result.kind === 'mcp' && result.result.isError === true && entry && looksLikeWrongArguments(result)) {
    const note = { type: 'text', text: `Signature: ${entry.tool.id}(${signatureOf(entry.input.json)})` }
    return { kind: 'mcp', result: { ...result.result, content: [...(result.result.content ?? []), note] } }
  }
  return result
}

function looksLikeWrongArguments(result: Extract<ToolResult, { kind: 'mcp' }>): boolean {
  const first = result.result.content?.[0]
  return /invalid|required|expected|argument|validation|-32602/i.test(String(first?.text ?? ''))
}

/**
 * Models malform this call in a few known ways: other key names, arguments as a JSON string, flat beside the name, the
 * whole call one level too deep. All of them mean the same.
 * @throws PegboardError E_VALIDATION
 */
export function readCall(
  raw: Readonly<Record<string, unknown>>,
  tool = 'execute_tool',
): {
  readonly name: string
  readonly params: Readonly<Record<string, unknown>>
} {
  const nameKey = NAME_KEYS.find((key) => typeof raw[key] === 'string')
  const paramsKey = PARAM_KEYS.find((key) => raw[key] !== undefined && raw[key] !== null)
  if (nameKey === undefined) {
    const inner = paramsKey && asObject(raw[paramsKey])
    if (inner && NAME_KEYS.some((key) => typeof inner[key] === 'string')) return readCall(inner, tool)
    throw invalid(tool, 'name: the name of a tool is required, such as "category.tool"')
  }
  const name = raw[nameKey] as string
  if (paramsKey === undefined) {
    const rest = Object.entries(raw).filter(
      ([key]) => key !== nameKey && !(PARAM_KEYS as readonly string[]).includes(key),
    )
    return { name, params: Object.fromEntries(rest) }
  }
  const params = asObject(raw[paramsKey])
  if (!params) throw invalid(tool, `${paramsKey}: an object of arguments is required`)
  return { name, params }
}

function asObject(value: unknown): Readonly<Record<string, unknown>> | undefined {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  if (typeof value !== 'string') return undefined
  if (value.trim() === '') return {}
  checkText(value)
  try {
    const parsed: unknown = JSON.parse(value)
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)
      ? (parsed as Record<string, unknown>)
      : undefined
  } catch (error) {
    throw new PegboardError(
      'E_VALIDATION',
      `Invalid params for execute_tool: the arguments are a string that is not JSON (${(error as Error).message}).`,
      { hint: 'Send params as an object.' },
    )
  }
}

/** `{params: {arguments: {...}}}`: unwrapped only when the tool itself has no parameter of that name. */
function unwrapped(params: Readonly<Record<string, unknown>>, entry: ViewTool): Readonly<Record<string, unknown>> {
  const keys = Object.keys(params)
  const [only] = keys
  if (keys.length !== 1 || only === undefined || !(PARAM_KEYS as readonly string[]).includes(only)) return params
  const properties = entry.input.json.properties
  if (typeof properties === 'object' && properties !== null && only in properties) return params
  return asObject(params[only]) ?? params
}
