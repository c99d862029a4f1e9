import { PegboardError } from '../core/errors.ts'
import { checkText } from '../core/guard.ts'
import { isRecord } from '../core/record.ts'
import { valueResult } from '../core/result.ts'
import { notInjectable } from '../exec/output.ts'
import { type Action, runParallel } from '../exec/parallel.ts'
import { readCall } from './execute_tool.ts'
import type { Host, MetaTool } from './host.ts'
import { ANY_ARGUMENTS, invalid, onlyKeys } from './input.ts'

const MAX_ACTIONS = 50

export const runParallelTool = (host: Host, isMeta: (name: string) => boolean): MetaTool => ({
  name: 'run_parallel',
  title: 'Run in parallel',
  description: () => 'Run up to 50 tools at once; results in order, one failing stops no other.',
  inputSchema: {
    type: 'object',
    properties: {
      actions: {
        type: 'array',
        maxItems: MAX_ACTIONS,
        items: {
          type: 'object',
          properties: { name: { type: 'string' }, params: ANY_ARGUMENTS },
          required: ['name'],
        },
      },
    },
    required: ['actions'],
  },
  hints: { readOnlyHint: false, destructiveHint: true, openWorldHint: true },
  async run(input, request) {
    onlyKeys(input, ['actions'], 'run_parallel')
    const actions = readActions(input['actions'])
    const view = host.view(request.caller)
    const labelOf = (name: string): string => {
      const found = view.resolve(name)
      if (found.kind !== 'found') return `Calling ${name}`
      const { id, title, untitled } = found.tool.tool
      return title === '' || untitled ? `Calling ${id}` : title
    }
    const { value, output } = await runParallel(
      actions,
      { ...request, finders: ['search_tools', 'list_categories'] },
      async (one) => {
        if (isMeta(one.name))
          throw new PegboardError('E_LOOP_DETECTED', `run_parallel cannot run ${one.name}; call it directly.`)
        return host.call(one)
      },
      labelOf,
      host.now,
      (requests) => host.together(requests.filter(({ name }) => !isMeta(name))),
    )
    const { files, injected } = output
    const { unknown } = injected.length > 0 ? host.context.inject(request.caller, injected) : { unknown: [] }
    return valueResult(value, files, unknown.map(notInjectable))
  },
})

/** @throws PegboardError E_VALIDATION */
function readActions(raw: unknown): readonly Action[] {
  let given = raw
  if (typeof given === 'string') {
    checkText(given)
    try {
      given = JSON.parse(given)
    } catch {
      throw invalid('run_parallel', 'actions: a list of {name, params} is required')
    }
  }
  if (!Array.isArray(given) || given.length === 0 || given.length > MAX_ACTIONS)
    throw invalid('run_parallel', `actions: a list of 1 to ${MAX_ACTIONS} {name, params} is required`)
  return given.map((one) => {
    if (!isRecord(one)) throw invalid('run_parallel', 'actions: each is {name, params}')
    return readCall(one, 'run_parallel')
  })
}
