import type { App } from '../app/app.ts'
import type { Config } from '../config/load-config.ts'
import type { Caller } from '../core/caller.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { withoutClassName } from '../core/failure-class.ts'
import { toPrintableJson } from '../core/printable.ts'
import type { JsonSchema } from '../core/schema.ts'
import type { McpResult } from '../core/tool-result.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import { toErrorResult, toMcpResult } from '../server/mcp-results.ts'
import { isNamed } from '../upstream/unknown-tool-search.ts'
import type { Args } from './args.ts'
import { INTERRUPTED, type Io, UsageError, writeJson } from './io.ts'
import { type Session, withApp } from './open-app.ts'
import { promptOnTerminal } from './terminal-prompt.ts'

/** `pegboard call <tool>`: runs a tool or meta-tool as a local client. Exit code 1 if it fails. */
export async function run(args: Args, io: Io): Promise<number> {
  const [name, ...operands] = args.positionals
  if (name === undefined) throw new UsageError('call needs the name of a tool; pegboard list shows them')
  const parsed = readOperands(operands, (args.values['params'] ?? []) as readonly string[])
  const json = args.values['json'] === true
  return withApp(
    args,
    io,
    async (session) => {
      const input = typeof parsed === 'function' ? parsed(schemaOf(session, name)) : parsed
      let result: McpResult
      try {
        result = await callTool(session, { name, input }, io)
      } catch (error) {
        if (!isPegboardError(error)) throw error
        if (!json) return await printError(error, session, name, io)
        writeJson(io, toErrorResult(error, false))
        return isInterrupted(error, io) ? INTERRUPTED : 1
      }
      if (json) writeJson(io, result)
      else printResult(result, io)
      return result.isError === true ? 1 : 0
    },
    {
      shouldWaitFor: ({ id, module }, { app, caller, config }) =>
        // A recording holds the tools of every server.
        args.values['record'] !== undefined || (!isVisible(app, caller, name) && mayHave(name, id, module, config)),
    },
  )
}

async function callTool(
  { app, caller }: Session,
  { name, input }: Pick<CallRequest, 'name' | 'input'>,
  io: Io,
): Promise<McpResult> {
  const relay = promptOnTerminal(io)
  const request: CallRequest = {
    name,
    input,
    caller: relay ? { ...caller, supports: { ...caller.supports, elicitation: true } } : caller,
    signal: io.stop,
    waited: true,
    ...(relay && { relay }),
  }
  // Links to files would end with this process.
  const files = { ...app.server.files, inlineBytes: Number.POSITIVE_INFINITY }
  return toMcpResult(await app.surface.call(request), files, caller)
}

const isInterrupted = (error: PegboardError, io: Io): boolean => io.stop.aborted && error.code === 'E_CANCELLED'

/** Prints that the call was cancelled. @throws any other error, which the command line then prints */
async function printError(error: PegboardError, session: Session, name: string, io: Io): Promise<number> {
  if (isInterrupted(error, io)) {
    io.stderr('pegboard: the call was cancelled; the tool may have done part of its work\n')
    return INTERRUPTED
  }
  if (error.data !== undefined) io.stderr(`${toPrintableJson(JSON.stringify(error.data, null, 2))}\n`)
  throw error.code === 'E_NOT_FOUND' ? await explainForOperator(error, session, name) : error
}

/** Clients do not hear of hidden tools, but the operator may. */
async function explainForOperator(error: PegboardError, session: Session, name: string): Promise<PegboardError> {
  const { verdictOf } = await import('../app/explain-tool.ts')
  const found = session.app.view(session.caller).resolve(name)
  const isUnlike = found.kind === 'unknown' && [found.suggestions, found.similar, found.unread].flat().length === 0
  const { tool, visible, stage, rule } = verdictOf(session, name)
  // The hint for models names tools that find other tools.
  if (stage === 'unknown' && isUnlike)
    return new PegboardError('E_NOT_FOUND', `There is no tool ${JSON.stringify(name.slice(0, 80))}.`, {
      hint: 'Find its name with pegboard search or pegboard list.',
      cause: error,
    })
  if (visible || stage === 'unknown' || rule === undefined) return error
  return new PegboardError('E_NOT_FOUND', `${tool} is hidden: ${rule}.`, {
    hint: `pegboard why ${tool} explains what clients see.`,
    cause: error,
  })
}

const isVisible = (app: App, caller: Caller, name: string): boolean =>
  app.surface.metaNames.includes(name) || app.view(caller).resolve(name).kind === 'found'

/** True if a server may have the tool. A name without a category may belong to any server. */
export const mayHave = (name: string, id: string, module: string, { servers }: Config): boolean =>
  !/[.:/]|__/.test(name) || servers[id]?.prefix === '' || isNamed(name, [id, module, servers[id]?.prefix ?? id])

function schemaOf({ app, caller }: Session, name: string): JsonSchema {
  const resolved = app.view(caller).resolve(name)
  return resolved.kind === 'found' ? resolved.tool.input.json : {}
}

type Input = Readonly<Record<string, unknown>>

/** Parses arguments: one JSON object, or pairs whose types come from the tool's schema. */
function readOperands(operands: readonly string[], pairs: readonly string[]): Input | ((schema: JsonSchema) => Input) {
  const [first] = operands
  if (first?.trimStart().startsWith('{')) {
    if (operands.length + pairs.length > 1)
      throw new UsageError('give the arguments as one JSON object or as pairs, not both')
    try {
      return JSON.parse(first) as Input
    } catch (error) {
      throw new UsageError(`the arguments are not JSON: ${messageOf(error)}; write '{"key": "value"}' or key=value`)
    }
  }
  const entries = [...pairs, ...operands].map((pair) => {
    const index = pair.indexOf('=')
    if (index <= 0) throw new UsageError(`"${pair}" is neither a JSON object nor key=value`)
    return [pair.slice(0, index), pair.slice(index + 1)] as const
  })
  return (schema) => Object.fromEntries(entries.map(([key, value]) => [key, convertValue(value, schema, key)]))
}

function convertValue(value: string, schema: JsonSchema, key: string): unknown {
  const properties = schema['properties'] as Readonly<Record<string, JsonSchema | undefined>> | undefined
  if (properties?.[key]?.['type'] === 'string') return value
  const parsed = tryParseJson(value)
  return parsed === undefined ? value : parsed
}

function printResult(result: McpResult, io: Io): void {
  const [first, ...others] = result.content ?? []
  const structured = result.structuredContent
  // The text for models repeats the data, so only the data is shown, indented.
  const isRepeated = structured !== undefined && first?.['text'] === JSON.stringify(structured)
  const blocks = isRepeated
    ? [toPrintableJson(JSON.stringify(structured, null, 2)), ...others.map(formatBlock)]
    : (result.content ?? []).map(formatBlock)
  io[result.isError === true ? 'stderr' : 'stdout'](`${blocks.join('\n')}\n`)
}

function formatBlock(block: Readonly<Record<string, unknown>>): string {
  if (block['type'] === 'text') return withoutClassName(String(block['text']))
  const { data, ...rest } = block
  return JSON.stringify(typeof data === 'string' ? { ...rest, data: `${data.length} characters of base64` } : block)
}
