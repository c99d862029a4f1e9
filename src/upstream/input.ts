import { ASK_METHODS, type Ask } from '../core/asks.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/failure.ts'
import { isRecord } from '../core/record.ts'
import { relayedAsk } from './relayed-ask.ts'

type Json = Readonly<Record<string, unknown>>

/** What a server may ask by an answer. */
export interface InputRules {
  readonly id: string
  /** Where the server stands in the file. */
  readonly where: string
  readonly era: 'legacy' | 'modern'
  /** `relay` of its settings. */
  readonly allowed: readonly Ask[]
}

/** A client shows each of them to a person. */
const MAX_ASKED = 16

/**
 * A result as it may travel on: what it asks of the client is attributed, as is what servers ask by requests. Any other
 * result is handed back untouched.
 * @throws PegboardError E_UPSTREAM_PROTOCOL for what `relay` does not allow, and for a question that its era does not have
 */
export function checkedInput(result: Json, rules: InputRules): Json {
  const asks = result['resultType'] === 'input_required'
  const requests = result['inputRequests']
  // The result of a task comes within the task: there is nobody left to answer.
  const nested = isRecord(result['result']) && result['result']['resultType'] === 'input_required'
  if (!asks && requests === undefined && !nested) return result
  if (nested || rules.era === 'legacy') throw wrong(rules, 'asks where it has nothing to ask')
  // State alone asks nobody: the call is made again with it.
  if (requests === undefined) return result
  if (!isRecord(requests)) throw wrong(rules, 'asks in a way nobody can read')
  const entries = Object.entries(requests)
  if (entries.length > MAX_ASKED) throw wrong(rules, `asks ${entries.length} things at once, more than ${MAX_ASKED}`)
  return { ...result, inputRequests: Object.fromEntries(entries.map(([key, one]) => [key, checked(one, rules)])) }
}

/** The error of a call that wants pages opened first (-32042), in the same way; any other error as it is. */
export function checkedFailure(error: unknown, rules: InputRules): unknown {
  if (!isProtocolFailure(error) || error.code !== -32042) return error
  const { elicitations } = isRecord(error.data) ? error.data : {}
  try {
    if (!Array.isArray(elicitations) || elicitations.length > MAX_ASKED)
      throw wrong(rules, 'asks in a way nobody can read')
    const pages = elicitations.map((params) => {
      const ask = checked({ method: 'elicitation/create', params: { ...(params as object), mode: 'url' } }, rules)
      const { mode: _ours, ...rest } = ask['params'] as Json
      return isRecord(params) && 'mode' in params ? ask['params'] : rest
    })
    return new ProtocolFailure(error.code, error.message, { ...(error.data as object), elicitations: pages })
  } catch (refusal) {
    return refusal
  }
}

function checked(request: unknown, rules: InputRules): Json {
  const { method, params, ...rest } = isRecord(request) ? request : {}
  const ask = typeof method === 'string' && Object.hasOwn(ASK_METHODS, method) ? ASK_METHODS[method] : undefined
  if (ask === undefined || (params !== undefined && !isRecord(params)))
    throw wrong(rules, 'asks what nobody understands')
  if (!rules.allowed.includes(ask)) throw wrong(rules, `asks for ${ask}, which ${rules.where}.relay does not allow`)
  try {
    return { ...rest, method, params: relayedAsk(String(method), params ?? {}, rules.id) }
  } catch (error) {
    throw wrong(rules, `asks what is not passed on: ${messageOf(error)}`)
  }
}

const wrong = ({ id }: InputRules, what: string): PegboardError =>
  new PegboardError('E_UPSTREAM_PROTOCOL', `${id} ${what}.`)
