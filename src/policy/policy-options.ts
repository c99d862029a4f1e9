import { z } from 'zod'
import { isRecord, type Json } from '../core/is-record.ts'
import { EFFECTS } from '../core/tool.ts'

/** What the operator allows for one module or upstream server. Blocking wins over allowing. */
export const constraintsOptions = z.strictObject({
  allowed_actions: z
    .array(z.string())
    .optional()
    .describe('Allow only these tools of the module; `*` matches any characters.'),
  blocked_actions: z
    .array(z.string())
    .optional()
    .describe('Deny these tools of the module, even if allowed_actions has them.'),
})

export type Constraints = z.infer<typeof constraintsOptions>

const words = () => z.array(z.string().min(1)).min(1)
const patterns = () => z.union([z.string().min(1), words()])

/**
 * The lists of rules that match tools. Only `allow` permits. If a setting that is not such a list names tools, add it to
 * `entriesOf` below and to `withRenamedOwners`.
 *
 * `docs/guides/policy.md` ("match every spelling") and `docs/guides/trust.md` ("one of your rules names") list all settings
 * that name tools. `test/app/unmatched-rules.slow.test.ts` and `test/app/profile-rules.test.ts` test them.
 */
export const RULE_LISTS = ['deny', 'ask', 'allow', 'hidden'] as const

/** Which tools, for whom; all given conditions must match. */
const ruleOptions = z.lazy(() => {
  // All lists accept each condition. One that names tools also belongs in `listPatterns` (`policy-rules.ts`), so that
  // Pegboard notices when its tools are gone.
  const conditions = {
    tools: patterns().optional().describe('Ids or other names of tools; `*` matches any characters.'),
    module: z.string().min(1).optional().describe('Name of a module, server or API.'),
    actions: patterns()
      .optional()
      .describe('Names of tools without the module. deny, ask and hidden also match their other names.'),
    effects: z.array(z.enum(EFFECTS)).optional().describe('Only tools with one of these effects.'),
    roles: words().optional().describe('Only callers with one of these roles.'),
    profiles: words().optional().describe('Only callers in one of these profiles.'),
  }
  const reason = z
    .string()
    .optional()
    .describe('Shown by pegboard why, in questions and in the audit log; it is no condition.')
  const names = new Intl.ListFormat('en-GB', { type: 'disjunction' }).format(Object.keys(conditions))
  const rule = z
    .strictObject({ ...conditions, reason })
    .refine(({ reason: _why, ...what }) => Object.values(what).some((one) => one !== undefined), {
      error: `must have a condition: ${names}`,
    })
  return z.union([z.string().min(1), rule], {
    error: ({ input }) =>
      isRecord(input) ? undefined : `must be a pattern such as "*.delete_*", or an object with ${names}`,
  })
})

export type RuleSetting = z.infer<typeof ruleOptions>

/** `guardsOf` in `src/app/explain-tool.ts` shows limits in `pegboard why`. */
const rateOptions = z.lazy(() =>
  z.strictObject({
    tools: patterns().describe('Tools to limit, by id or any of their names. All matching tools share one limit.'),
    perMinute: z.number().positive().max(1_000_000).describe('Calls per minute.'),
    burst: z.int().min(1).optional().describe('Maximum burst of calls (default perMinute).'),
    per: z
      .enum(['principal', 'profile'])
      .default('principal')
      .describe('Count calls for each principal, or for all callers of a profile together.'),
  }),
)

export type RateSetting = z.infer<typeof rateOptions>

/** Rate limit of one tool. */
export const rateLimitOptions = z.strictObject({
  per_minute: z.number().positive().max(1_000_000).describe('Calls per minute for each principal.'),
})

export const tripwireOptions = z.enum(['off', 'warn', 'redact', 'throw'])

/** The settings of `policy`. A setting that names tools also belongs in the places that `RULE_LISTS` describes. */
const shape = z.lazy(() =>
  z.strictObject({
    default: z
      .enum(['auto', 'ask', 'block'])
      .default('auto')
      .describe(
        'What to do with tools that no list names: run them (auto), ask a person first (ask), or deny them (block).',
      ),
    maxEffect: z
      .enum(EFFECTS)
      .default('destructive')
      .describe('Maximum effect of a tool. Tools with a worse effect are denied, even if `allow` names them.'),
    deny: z
      .array(ruleOptions)
      .default([])
      .describe('Tools to deny, by id or any of their names, such as "*.delete_*".'),
    ask: z.array(ruleOptions).default([]).describe('Tools that need the approval of a person for each call.'),
    allow: z.array(ruleOptions).default([]).describe('Tools that run without approval, by id or listed name.'),
    hidden: z.array(ruleOptions).default([]).describe('Tools to deny unless `allow` names them.'),
    approvalTimeoutMs: z
      .int()
      .min(30_000)
      .max(3_600_000)
      .default(300_000)
      .describe('Maximum time to wait for an approval.'),
    rateLimits: z.array(rateOptions).default([]).describe('How often tools may be called.'),
    tripwire: tripwireOptions
      .optional()
      .describe('Minimum tripwire (what to do with credentials in results) of all modules and servers.'),
  }),
)

type PolicyOptions = z.infer<typeof shape>

/** The entries of a policy that name tools, with the setting of each and rules that match the same tools. */
export function entriesOf(policy: Pick<PolicyOptions, (typeof RULE_LISTS)[number] | 'rateLimits'>) {
  return [
    ...RULE_LISTS.flatMap((list) =>
      policy[list].map((rule) => ({
        setting: `policy.${list}`,
        configured: rule,
        rules: [rule],
        permits: list === 'allow',
      })),
    ),
    ...policy.rateLimits.map(({ tools }) => ({
      setting: 'policy.rateLimits',
      configured: tools,
      rules: typeof tools === 'string' ? [tools] : tools,
      permits: false,
    })),
  ]
}

/**
 * What clients may run. Also accepts the keys of other tool servers: `default_policy`, `grant`, `approve` and so on.
 */
export const policyOptions = z.preprocess((policy) => (isRecord(policy) ? toOwnKeys(policy) : policy), shape)

const DEFAULTS: Json = { auto: 'auto', approve: 'ask', block: 'block' }
const EFFECT_OF_RISK: Json = { low: 'read', medium: 'write', high: 'destructive' }

/** Joins lists that have both names. For other values, Pegboard's own key has precedence. */
function toOwnKeys(policy: Json): Json {
  const {
    default_policy,
    max_risk_level,
    grant,
    approve,
    hidden_modules,
    hidden_actions,
    approval_timeout,
    ...otherKeys
  } = policy
  const result: Record<string, unknown> = { ...otherKeys }
  const put = (key: string, value: unknown): void => {
    if (value !== undefined && result[key] === undefined) result[key] = value
  }
  const join = (key: string, more: unknown): void => {
    if (more === undefined) return
    result[key] = Array.isArray(result[key]) && Array.isArray(more) ? [...result[key], ...more] : (result[key] ?? more)
  }
  put('default', translateWord(default_policy, DEFAULTS))
  put('maxEffect', translateWord(max_risk_level, EFFECT_OF_RISK))
  join('allow', grant)
  join('ask', approve)
  join('hidden', Array.isArray(hidden_modules) ? hidden_modules.map((module) => ({ module })) : hidden_modules)
  join('hidden', hidden_actions)
  put('approvalTimeoutMs', typeof approval_timeout === 'number' ? approval_timeout * 1_000 : approval_timeout)
  return result
}

/** An unknown word is left for validation to reject. */
const translateWord = (word: unknown, translations: Json): unknown =>
  typeof word === 'string' && Object.hasOwn(translations, word) ? translations[word] : word
