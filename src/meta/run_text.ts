import type { Caller } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { runInOrder } from '../exec/parallel.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import { addOutput, bareName, FINDERS, readCall } from './execute_tool.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'
import { createInputError, inputSchema, RUNS, readText, TEXT } from './meta-input.ts'

/** Finds the calls in a text that a model wrote, and returns the rest of the text. */
export type CallParser = (
  text: string,
  caller: Caller,
) => {
  readonly calls: readonly { readonly name: string; readonly arguments: Json }[]
  readonly text: string
}

const MAX_CHARACTERS = 200_000
const MAX_CALLS = 50

/** @param start runs any tool by its name, as if the client had called it */
export const runText = (
  host: MetaHost,
  isMeta: (name: string) => boolean,
  parseCalls: CallParser,
  start: (request: CallRequest) => Promise<ToolResult>,
): MetaTool => ({
  name: 'run_text',
  title: 'Run the calls in a text',
  description: () => 'Run the tool calls in a text that a model wrote, in order; returns results and the rest.',
  inputSchema: inputSchema({ text: TEXT }, 'text'),
  hints: RUNS,
  async run(input, request) {
    const { calls, text } = parseCalls(readText(input, 'text', 'run_text', MAX_CHARACTERS), request.caller)
    if (calls.length > MAX_CALLS)
      throw createInputError('run_text', `text: at most ${MAX_CALLS} calls (${calls.length})`)
    const { outcomes, output } = await runInOrder(
      calls.map(({ name, arguments: params }) => ({ name, params })),
      { ...request, finders: FINDERS },
      async (call) => {
        if (runsText(call))
          throw new PegboardError('E_LOOP_DETECTED', 'run_text cannot run itself.', {
            hint: 'Write the calls themselves into the text.',
          })
        return await start(call)
      },
      (requests) => host.combineApprovals(requests.filter(({ name }) => !isMeta(name))),
    )
    const results = calls.map((call, index) => ({ ...call, result: outcomes[index] }))
    return addOutput(host, request.caller, { calls: results, text }, output)
  },
})

function runsText({ name, input }: CallRequest): boolean {
  const metaName = bareName(name)
  if (metaName !== 'execute_tool') return metaName === 'run_text'
  return bareName(readCall(input as Json).name) === 'run_text'
}
