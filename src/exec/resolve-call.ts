import { checkArguments } from '../core/argument-limits.ts'
import { digestOf } from '../core/canonical.ts'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import type { Tool } from '../core/tool.ts'
import type { ApprovalRule, Policy } from '../policy/policy.ts'
import type { View, ViewTool } from '../view/view.ts'
import type { Views } from '../view/views.ts'
import { createHiddenError, createUnavailableError } from '../view/visibility.ts'
import type { ApprovalGate } from './approval-gate.ts'
import { createInvalidArgumentsError, createNotFoundError, createNotOfferedError } from './refusals.ts'
import type { CallRequest } from './tool-calls.ts'

/** A call with its tool, arguments, and the policy that allowed it. */
export interface ResolvedCall {
  readonly entry: ViewTool
  /** The arguments as the tool's schema parsed them: defaults are filled in. */
  readonly input: unknown
  /** Characters of text in the arguments. */
  readonly size: number
  /** `undefined` for `setup` steps. */
  readonly policy: Policy | undefined
  /** The approval that the call needs. */
  readonly approvalRule: ApprovalRule | undefined
}

export interface ResolverOptions {
  readonly views: Views
  readonly gate: ApprovalGate
  /** Any tool, visible or not, for `setup` steps. */
  readonly anyTool: (id: string) => Tool | undefined
  /** Called with an unknown name. Waits for servers; true if a tool may have this name now. */
  readonly awaitTool: (name: string, request: CallRequest) => Promise<boolean>
}

const MISSING_CODES: ReadonlySet<string> = new Set(['E_NOT_FOUND', 'E_UPSTREAM_UNAVAILABLE'])

export function createCallResolver({ views, gate, anyTool, awaitTool }: ResolverOptions) {
  /** As `resolve`, but resolves an unknown name again after its server was read. */
  function resolveOrAwait(request: CallRequest): ResolvedCall | Promise<ResolvedCall> {
    try {
      return resolve(request)
    } catch (error) {
      const mayAppear =
        isPegboardError(error) && MISSING_CODES.has(error.code) && request.origin !== 'setup' && !request.waited
      if (!mayAppear) throw error
      return awaitTool(request.name, request).then((mayExist) => {
        if (!mayExist) throw error
        return resolve(request)
      })
    }
  }

  /** Finds the tool, and checks policy and arguments. @throws PegboardError */
  function resolve(request: CallRequest): ResolvedCall {
    const view = request.origin === 'setup' ? undefined : views.viewFor(request.caller)
    const entry = view ? visibleTool(request, view) : setupTool(request.name)
    const rawInput = request.input ?? {}
    const size = checkArguments(rawInput)
    if (request.readOnly && entry.tool.effect !== 'read')
      throw new PegboardError('E_READ_ONLY_CONTRACT', `A read-only tool may not call ${entry.tool.id}.`)
    const input = parseInput(entry, rawInput)
    const policy = view?.policy
    const approvalRule = policy && gate.check({ tool: entry.tool, input, caller: request.caller, policy })
    return { entry, input, size, policy, approvalRule }
  }

  function setupTool(name: string): ViewTool {
    const tool = anyTool(name)
    if (!tool) throw new PegboardError('E_NOT_FOUND', `Tool '${name}' not found.`)
    return { tool, description: tool.description, input: tool.input }
  }

  return { resolve, resolveOrAwait }
}

function visibleTool(request: CallRequest, view: View): ViewTool {
  const inner = request.origin === 'module' ? view.findInternal(request.name) : undefined
  if (inner) return inner
  const found = view.resolve(request.name)
  if (found.kind === 'found') return found.tool
  if (found.kind === 'hidden') throw createHiddenError(found)
  if (found.kind === 'unknown' && found.down) throw createUnavailableError(found.down, request.name)
  const missing =
    found.kind === 'ambiguous'
      ? new PegboardError('E_NOT_FOUND', `'${request.name}' could be ${found.candidates.join(' or ')}.`, {
          hint: 'Use one of these full names.',
        })
      : createNotFoundError(
          request.name,
          found,
          request.finders ?? [],
          view.tools.map((entry) => entry.tool.id),
        )
  missing.unknownTool = request.name
  throw missing
}

/**
 * Arguments must fit the schema that the caller saw, then that of the tool: a client with an old schema gets an error,
 * and `run` gets what its types say.
 */
function parseInput(entry: ViewTool, input: unknown): unknown {
  const { tool } = entry
  if (entry.input !== tool.input) {
    const listedInput = entry.input.parse(input)
    if (!listedInput.ok)
      throw tool.parse(input).ok
        ? createNotOfferedError(entry, input, listedInput.issues)
        : createInvalidArgumentsError(entry, listedInput.issues)
  }
  const parsed = tool.parse(input)
  if (!parsed.ok) throw createInvalidArgumentsError(entry, parsed.issues)
  return parsed.value
}

/**
 * Call this after a person approved a call: the tool may have changed meanwhile.
 * @throws PegboardError E_CONFIRMATION_REQUIRED if something else was approved
 */
export function checkUnchanged(approved: ResolvedCall, current: ResolvedCall): void {
  if (current.entry.tool === approved.entry.tool) return
  const [before, after] = [approved, current].map(({ entry: { tool }, input }) =>
    digestOf([tool.id, tool.effect, input]),
  )
  if (before === after) return
  const { id } = approved.entry.tool
  throw new PegboardError('E_CONFIRMATION_REQUIRED', `${id} changed after a person approved the call.`, {
    hint: 'Call it again to ask for approval of the current version.',
  })
}
