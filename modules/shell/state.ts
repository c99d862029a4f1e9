import { type CallContext, type Log, type Processes, ToolError } from 'pegboard'
import { createStarter, type Starter } from './command.ts'
import type { Settings } from './config.ts'
import { createJobs, type Jobs } from './jobs.ts'

export interface ShellState {
  readonly starter: Starter
  readonly jobs: Jobs
}

// One process may run several gateways, but this module is imported once.
const states = new WeakMap<Processes, ShellState>()

/** Starts; commands of an earlier start are ended. */
export function startShell(processes: Processes, log: Log): ShellState {
  const state = { starter: createStarter(processes, log), jobs: createJobs() }
  states.set(processes, state)
  return state
}

/** Background commands belong to a principal in a profile. */
export const ownerOf = ({ caller }: Pick<CallContext<Settings>, 'caller'>): string =>
  JSON.stringify([caller.profile, caller.principal])

/** @throws ToolError if the host starts no programs */
export function stateOf({
  services,
}: Pick<CallContext<Settings>, 'services'>): ShellState & { readonly processes: Processes } {
  const { processes } = services
  const state = processes && states.get(processes)
  if (!processes || !state) throw new ToolError('Programs cannot be started here.', { hint: 'Use another tool.' })
  return { ...state, processes }
}
