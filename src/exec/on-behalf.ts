import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import type { ToolResult } from '../core/result.ts'
import type { CallRequest } from './call.ts'
import { failureOf, type Outcome, outcomeOf } from './outcome.ts'
import { callerNow, type RightsNow, type StoredCaller } from './stored-caller.ts'

/** Whether a tool is not there for somebody who is not here. */
export type Lacks = (who: StoredCaller, name: string) => boolean

/** Makes a call for somebody who is not here, with the rights it has now. Never rejects: nobody is there to be told. */
export const onBehalf =
  (call: (request: CallRequest) => Promise<ToolResult>, rightsNow: RightsNow) =>
  async (who: StoredCaller, name: string, input: unknown, callId?: string): Promise<Outcome> => {
    try {
      return outcomeOf(await call({ name, input, callId, caller: callerNow(who, rightsNow) })).outcome
    } catch (error) {
      return failureOf(isPegboardError(error) ? error : new PegboardError('E_INTERNAL', messageOf(error)))
    }
  }
