import type { Tripwire } from '../core/tool.ts'
import type { PolicySettings } from '../policy/policy.ts'
import type { Constraints } from '../policy/policy-options.ts'
import type { Config } from './load-config.ts'
import type { ToolSettings } from './tool-settings.ts'

/** The part of the configuration that decides what clients may run. */
export function policySettings(config: Config): PolicySettings {
  return {
    ...config.policy,
    ...toPolicySwitches(config.tools),
    constraints: constraintsOf(config.modules),
    tripwires: { ...tripwiresOf(config.modules), ...tripwiresOf(config.servers, 'mcp_') },
  }
}

export function toPolicySwitches(
  tools: Readonly<Record<string, Pick<ToolSettings, 'enabled' | 'rate_limit'>>>,
): Pick<PolicySettings, 'disabled' | 'enabled' | 'perMinute'> {
  const entries = Object.entries(tools)
  return {
    disabled: entries.flatMap(([name, { enabled }]) => (enabled === false ? [name] : [])),
    enabled: entries.flatMap(([name, { enabled }]) => (enabled === true ? [name] : [])),
    perMinute: Object.fromEntries(
      entries.flatMap(([name, { rate_limit }]) => (rate_limit ? [[name, rate_limit.per_minute]] : [])),
    ),
  }
}

export function tripwiresOf(
  owners: Readonly<Record<string, { readonly tripwire?: Tripwire | undefined }>>,
  before = '',
): Record<string, Tripwire> {
  return Object.fromEntries(
    Object.entries(owners).flatMap(([id, { tripwire }]) =>
      tripwire === undefined ? [] : [[`${before}${id}`, tripwire]],
    ),
  )
}

export const constraintsOf = (
  modules: Readonly<Record<string, { readonly constraints?: Constraints | undefined }>>,
): Record<string, Constraints> =>
  Object.fromEntries(
    Object.entries(modules).flatMap(([id, { constraints }]) => (constraints ? [[id, constraints]] : [])),
  )
