import { ProtocolFailure } from './failure.ts'
import type { Relay } from './tool.ts'

/** What a server may ask of whoever called it, and the capability a client declares to be asked. */
export type Ask = 'elicitation' | 'sampling' | 'roots'

export const ASK_METHODS: Readonly<Record<string, Ask>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
}

/** Whether a client with these capabilities takes this request. Plain `elicitation: {}` means forms. */
export function takesAsk(capabilities: Readonly<Record<string, unknown>>, method: string, params: unknown): boolean {
  const ask = Object.hasOwn(ASK_METHODS, method) ? ASK_METHODS[method] : undefined
  const declared = ask && capabilities[ask]
  if (typeof declared !== 'object' || declared === null) return false
  if (ask !== 'elicitation') return true
  if ((params as { mode?: unknown } | undefined)?.mode === 'url') return 'url' in declared
  return 'form' in declared || !('url' in declared)
}

/** What a 2025-era server asks, as the newer revision says it: a page to open has no id there. */
export function newerAsk(method: string, params: unknown): { readonly method: string; readonly params: unknown } {
  if (method !== 'elicitation/create') return { method, params }
  const { elicitationId: _id, ...rest } = params as Readonly<Record<string, unknown>>
  return { method, params: rest }
}

/** How an ask ends that nobody is asked: a question is cancelled, anything else refused. */
export function refusedAsk(method: string, why: string): Promise<{ readonly action: 'cancel' }> {
  if (method === 'elicitation/create') return Promise.resolve({ action: 'cancel' })
  return Promise.reject(new ProtocolFailure(-32603, `${method} was not passed on: ${why}`))
}

/** A way to ask that has each question looked at before it is put. @param look throws for one that is not to be put */
export const askInspected =
  (send: NonNullable<Relay['request']>, look: (params: unknown) => unknown): NonNullable<Relay['request']> =>
  (method, params, signal) => {
    let question: unknown
    try {
      question = look(params)
    } catch {
      return refusedAsk(method, 'it has a field that looks like a credential')
    }
    return send(method, question, signal)
  }
