import type { Clock } from '../core/clock.ts'
import { type Caller, originOf, type ServiceUser } from '../core/context.ts'
import type { FactStore, Kv, Memory } from '../core/services.ts'
import { createGraph } from './graph.ts'
import { createThreadweave } from './threadweave.ts'

export interface MemoryOptions {
  facts(caller: Caller): FactStore
  /** A store for each profile and name. */
  readonly storeOf: (profile: string, name: string) => Kv
  isAdmin(caller: Caller): boolean
  readonly clock: Clock
}

/** What callers know for long. Facts and graph are those of a principal in its profile, threadweave is that of the profile. */
export const createMemory =
  ({ facts, storeOf, isAdmin, clock }: MemoryOptions) =>
  ({ caller, profile }: ServiceUser): Memory => ({
    facts: facts(caller),
    graph: createGraph(storeOf(caller.profile, `graph ${caller.principal}`)),
    threadweave: createThreadweave(storeOf(caller.profile, 'threadweave'), {
      isAdmin: isAdmin(caller),
      userId: originOf(caller, profile).userId || caller.principal,
      clock,
    }),
  })
