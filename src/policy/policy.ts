import { z } from 'zod'
import { isToolName } from '../core/names.ts'
import type { Effect, Tool } from '../core/tool.ts'
import { matcher } from './rules.ts'

/** What the operator allows of one module or upstream. Blocked beats allowed. */
export const constraintsOptions = z.strictObject({
  allowed_actions: z
    .array(z.string())
    .optional()
    .describe('Only these tools of the module exist for clients; `*` matches any characters.'),
  blocked_actions: z
    .array(z.string())
    .optional()
    .describe('These tools of the module do not exist for clients. Beats allowed_actions.'),
})

export const policyOptions = z.strictObject({
  maxEffect: z
    .enum(['read', 'write', 'destructive'])
    .default('destructive')
    .describe('Tools that do worse than this do not exist for clients.'),
  deny: z
    .array(z.string())
    .default([])
    .describe('Tools that do not exist for clients, by id or any of their names, such as "*.delete_*".'),
})

export type Constraints = z.infer<typeof constraintsOptions>

/** Hidden means: answer exactly as if it did not exist. Disabled may be told. */
export type Decision =
  /** `as`: allowed under one of its aliases only, and shown under that name. */
  | { readonly allow: true; readonly as?: string }
  | { readonly allow: false; readonly kind: 'denied' | 'disabled'; readonly reason: string }

export interface Policy {
  /** Asked for every listing, search and call. Pure; a policy that throws denies. */
  decide(tool: Tool): Decision
  /** Nothing forbids any tool of this owner, whatever it is called and does. */
  allowsAll(owner: string): boolean
  /** Constraint entries that name no tool of their module: probably typos. */
  unknownActions(tools: Iterable<Tool>): Array<{ readonly owner: string; readonly action: string }>
}

export interface PolicySettings {
  readonly maxEffect?: Effect
  readonly deny?: readonly string[]
  /** By catalogue owner: module id, or `mcp_<server>`. */
  readonly constraints?: Readonly<Record<string, Constraints>>
  /** Tool names or ids with `enabled: false`. */
  readonly disabled?: readonly string[]
}

const RANK: Readonly<Record<Effect, number>> = { read: 0, write: 1, destructive: 2 }
const ALLOWED: Decision = { allow: true }

export function createPolicy(settings: PolicySettings = {}): Policy {
  const denied = matcher((settings.deny ?? []).map(lower))
  const denies = (settings.deny ?? []).length > 0
  const disabled = new Set(settings.disabled ?? [])
  const max = RANK[settings.maxEffect ?? 'destructive']
  const rules = new Map(
    Object.entries(settings.constraints ?? {}).map(([owner, rule]) => [
      owner,
      {
        allowed: rule.allowed_actions && matcher(rule.allowed_actions),
        blocked: matcher((rule.blocked_actions ?? []).map(lower)),
      },
    ]),
  )
  // A tool answers to all of these; what forbids it may use any of them, in any case.
  const spellings = (tool: Tool): string[] =>
    [actionOf(tool), tool.id, tool.name, ...tool.aliases.flatMap((alias) => [alias, `${tool.module}.${alias}`])].map(
      lower,
    )

  return {
    decide(tool) {
      const rule = rules.get(tool.module)
      let as: string | undefined
      if (rule) {
        if (spellings(tool).some(rule.blocked))
          return {
            allow: false,
            kind: 'denied',
            reason: `blocked by modules.${tool.module}.constraints.blocked_actions`,
          }
        if (rule.allowed && !rule.allowed(actionOf(tool))) {
          as = tool.aliases.filter(isToolName).find(rule.allowed)
          if (as === undefined)
            return { allow: false, kind: 'denied', reason: `not in modules.${tool.module}.constraints.allowed_actions` }
        }
      }
      if (denies && spellings(tool).some(denied))
        return { allow: false, kind: 'denied', reason: 'matched by policy.deny' }
      if (RANK[tool.effect] > max)
        return {
          allow: false,
          kind: 'denied',
          reason: `its effect is "${tool.effect}" and policy.maxEffect is lower${tool.origin === 'upstream' ? '; if its server is to be believed, set trustHints there' : ''}`,
        }
      if (disabled.has(tool.id) || disabled.has(tool.name) || disabled.has(actionOf(tool)))
        return { allow: false, kind: 'disabled', reason: `${tool.id} tool is disabled` }
      return as === undefined ? ALLOWED : { allow: true, as }
    },
    allowsAll: (owner) => !denies && disabled.size === 0 && max === RANK.destructive && !rules.has(owner),
    unknownActions(tools) {
      if (rules.size === 0) return []
      const known = new Map<string, string[]>()
      for (const tool of tools) {
        if (!rules.has(tool.module)) continue
        const names = known.get(tool.module)
        if (names) names.push(...spellings(tool))
        else known.set(tool.module, spellings(tool))
      }
      return Object.entries(settings.constraints ?? {}).flatMap(([owner, rule]) => {
        const names = known.get(owner)
        if (!names) return []
        return [...(rule.allowed_actions ?? []), ...(rule.blocked_actions ?? [])]
          .filter((action) => !names.some(matcher([lower(action)])))
          .map((action) => ({ owner, action }))
      })
    },
  }
}

const lower = (name: string): string => name.toLowerCase()
const actionOf = (tool: Tool): string => tool.id.slice(tool.module.length + 1)
