import { checkItemCount } from '../core/argument-limits.ts'
import { PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import { valueResult } from '../core/tool-result.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { outcomeOf } from '../exec/outcome.ts'
import { type Action, runParallel } from '../exec/parallel.ts'
import { addOutput, FINDERS, readCall } from './execute_tool.ts'
import { fitPart, fitParts } from './fit-result.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'
import { ANY_ARGUMENTS, createInputError, inputSchema, RUNS, TEXT } from './meta-input.ts'

const MAX_ACTIONS = 50
/** Characters of an error that is kept because it is long. */
const MAX_ERROR = 400

export const runParallelTool = (host: MetaHost, isMeta: (name: string) => boolean): MetaTool => ({
  name: 'run_parallel',
  title: 'Run in parallel',
  description: () => 'Run up to 50 tools at once; results in order, one failing stops no other.',
  inputSchema: inputSchema(
    {
      actions: {
        type: 'array',
        maxItems: MAX_ACTIONS,
        items: inputSchema({ name: TEXT, params: ANY_ARGUMENTS }, 'name'),
      },
    },
    'actions',
  ),
  hints: RUNS,
  async run(input, request) {
    const actions = readActions(input['actions'])
    const view = host.view(request.caller)
    const labelOf = (name: string): string => {
      const found = view.resolve(name)
      if (found.kind !== 'found') return `Calling ${name}`
      const { id, title, untitled } = found.tool.tool
      return title === '' || untitled ? `Calling ${id}` : title
    }
    const most = host.view(request.caller).maxResultTokens()
    const { value, output } = await runParallel(
      actions,
      { ...request, finders: FINDERS },
      async (call) => {
        if (isMeta(call.name)) throw new PegboardError('E_LOOP_DETECTED', `run_parallel cannot run ${call.name}.`)
        const result = await host.call(call)
        // What does not fit even alone is kept now, so that it does not stay in memory until the last call ends.
        const { outcome, files } = outcomeOf(result)
        if (!outcome.success) return result
        const fitted = await fitPart(host, request.caller, call.name, outcome.data, most)
        return valueResult(fitted, files, outcome.warnings)
      },
      labelOf,
      host.now,
      (requests) => host.combineApprovals(requests.filter(({ name }) => !isMeta(name))),
    )
    const parts = value.results.map((one) => ({ title: one.name, data: one.success ? one.data : one.error }))
    const fitted = await fitParts(host, request.caller, parts)
    const results = value.results.map((one, at) => {
      if (one.success) return { ...one, data: fitted[at] }
      const error = fitted[at]
      return typeof error === 'string'
        ? { ...one, error }
        : { ...one, error: one.error.slice(0, MAX_ERROR), details: error }
    })
    return addOutput(host, request.caller, { ...value, results }, output)
  },
})

/** @throws PegboardError E_VALIDATION */
function readActions(raw: unknown): readonly Action[] {
  let actions = raw
  if (typeof actions === 'string') {
    checkItemCount(actions)
    actions = tryParseJson(actions)
    if (actions === undefined) throw createInputError('run_parallel', 'actions: a list of {name, params} is required')
  }
  if (!Array.isArray(actions) || actions.length === 0 || actions.length > MAX_ACTIONS)
    throw createInputError('run_parallel', `actions: a list of 1 to ${MAX_ACTIONS} {name, params} is required`)
  return actions.map((one) => {
    if (!isRecord(one)) throw createInputError('run_parallel', 'actions: each is {name, params}')
    return readCall(one, 'run_parallel')
  })
}
