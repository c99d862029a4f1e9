import { z } from 'zod'
import { isRecord } from '../core/record.ts'

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

export type Constraints = z.infer<typeof constraintsOptions>

const words = z.array(z.string().min(1)).min(1)
const patterns = z.union([z.string().min(1), words])

const ruleShape = z
  .strictObject({
    tools: patterns.optional(),
    module: z.string().min(1).optional(),
    actions: patterns.optional(),
    effects: z.array(z.enum(['read', 'write', 'destructive'])).optional(),
    roles: words.optional(),
    profiles: words.optional(),
    reason: z.string().optional(),
  })
  .refine(({ reason: _why, ...what }) => Object.values(what).some((one) => one !== undefined))

/** Which tools, for whom: everything that is said has to fit. */
const ruleOptions = z.union([z.string().min(1), ruleShape], {
  error:
    'must be a pattern such as "*.delete_*", or an object of tools, module, actions, effects, roles, profiles and reason',
})

export type RuleSetting = z.infer<typeof ruleOptions>

const rateOptions = z.strictObject({
  tools: patterns.describe('Which tools, by id or any of their names; all that fit share the number.'),
  perMinute: z.number().positive().max(1_000_000).describe('How many calls a minute.'),
  burst: z.int().min(1).optional().describe('How many at once after a rest; default perMinute.'),
  per: z.enum(['principal', 'profile']).default('principal').describe('Whose calls are counted together.'),
})

export type RateSetting = z.infer<typeof rateOptions>

/** Of one tool. */
export const rateLimitOptions = z.strictObject({
  per_minute: z.number().positive().max(1_000_000).describe('Calls a minute for each principal.'),
})

export const tripwireOptions = z.enum(['off', 'warn', 'redact', 'throw'])

const shape = z.strictObject({
  default: z
    .enum(['auto', 'ask', 'block'])
    .default('auto')
    .describe('What becomes of tools that no list names: run, ask a person first, or not there.'),
  maxEffect: z
    .enum(['read', 'write', 'destructive'])
    .default('destructive')
    .describe('Tools that do worse than this do not exist for clients, whatever `allow` says.'),
  deny: z
    .array(ruleOptions)
    .default([])
    .describe('Tools that do not exist for clients, by id or any of their names, such as "*.delete_*".'),
  ask: z.array(ruleOptions).default([]).describe('Tools that run only when a person says yes to this very call.'),
  allow: z.array(ruleOptions).default([]).describe('Tools that run without a question, by id or wire name.'),
  hidden: z.array(ruleOptions).default([]).describe('Tools that do not exist for clients unless `allow` names them.'),
  approvalTimeoutMs: z
    .int()
    .min(30_000)
    .max(3_600_000)
    .default(300_000)
    .describe('How long a person may think about such a question.'),
  rateLimits: z.array(rateOptions).default([]).describe('How often tools may be called.'),
  tripwire: tripwireOptions
    .optional()
    .describe('At least this is done everywhere about fields of results that look like credentials.'),
})

/** What clients may run. Takes the keys of other tool servers, too: `default_policy`, `grant`, `approve` and the like. */
export const policyOptions = z.preprocess((given) => (isRecord(given) ? ownKeys(given) : given), shape)

type Json = Readonly<Record<string, unknown>>

const DEFAULTS: Json = { auto: 'auto', approve: 'ask', block: 'block' }
const EFFECTS: Json = { low: 'read', medium: 'write', high: 'destructive' }

/** What is said in both spellings is joined where it is a list; elsewhere ours counts. */
function ownKeys(given: Json): Json {
  const { default_policy, max_risk_level, grant, approve, hidden_modules, hidden_actions, approval_timeout, ...own } =
    given
  const made: Record<string, unknown> = { ...own }
  const put = (key: string, value: unknown): void => {
    if (value !== undefined && made[key] === undefined) made[key] = value
  }
  const join = (key: string, more: unknown): void => {
    if (more === undefined) return
    made[key] = Array.isArray(made[key]) && Array.isArray(more) ? [...made[key], ...more] : (made[key] ?? more)
  }
  put('default', translated(default_policy, DEFAULTS))
  put('maxEffect', translated(max_risk_level, EFFECTS))
  join('allow', grant)
  join('ask', approve)
  join('hidden', Array.isArray(hidden_modules) ? hidden_modules.map((module) => ({ module })) : hidden_modules)
  join('hidden', hidden_actions)
  put('approvalTimeoutMs', typeof approval_timeout === 'number' ? approval_timeout * 1_000 : approval_timeout)
  return made
}

/** A word that is none of theirs is left for the check to refuse. */
const translated = (word: unknown, known: Json): unknown =>
  typeof word === 'string' && Object.hasOwn(known, word) ? known[word] : word
