import { type Caller, originOf, type ServiceUser } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import type { FactStore, Kv, Memory } from '../core/service-types.ts'
import { createGraph } from './knowledge-graph.ts'
import { createThreadweave } from './threadweave.ts'

export interface MemoryOptions {
  facts(caller: Caller): FactStore
  /** The store of a profile, by name. */
  readonly storeOf: (profile: string, name: string) => Kv
  isAdmin(caller: Caller): boolean
  readonly clock: Clock
}

/** Long-term memory. Facts and graph belong to a principal in its profile, threadweave to the profile. */
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
