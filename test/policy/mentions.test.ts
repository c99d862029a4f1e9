import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { configJsonSchema } from '../../src/config/config-schema.ts'

/** Each key of the policy is described and tested. This test lists the files that a new key still needs. */
const root = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(root, file), 'utf8')

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
}
const { properties: sections } = configJsonSchema() as Schema
const settings = sections?.['policy']?.properties ?? {}
const rule = settings['deny']?.items?.anyOf?.find(({ properties }) => properties)?.properties ?? {}
const rate = settings['rateLimits']?.items?.properties ?? {}

/** The files that mention each key of one kind, and the keys that a file need not mention. */
const KINDS: ReadonlyArray<{
  readonly kind: string
  readonly keys: readonly string[]
  readonly files: Readonly<Record<string, readonly string[]>>
}> = [
  {
    kind: 'setting of policy',
    keys: Object.keys(settings),
    files: {
      'docs/guides/policy.md': [],
      'src/policy/policy.ts': [],
      'test/policy/policy.test.ts': ['rateLimits'],
      // These do not change who sees a tool.
      'test/security/oracle.ts': ['approvalTimeoutMs', 'rateLimits', 'tripwire'],
      'test/security/tool-routes.slow.test.ts': ['approvalTimeoutMs', 'rateLimits', 'tripwire'],
    },
  },
  {
    kind: 'condition of a rule',
    keys: Object.keys(rule).filter((key) => key !== 'reason'),
    files: {
      'docs/guides/policy.md': [],
      'test/policy/policy.test.ts': [],
      'test/config/load-config.test.ts': [],
      'test/security/oracle.ts': [],
      'test/security/tool-routes.slow.test.ts': [],
      'test/app/unmatched-rules.slow.test.ts': ['effects'],
      'test/security/similar-tool-names.slow.test.ts': ['effects', 'roles'],
      'test/flows/denied.test.ts': ['effects', 'roles'],
    },
  },
  {
    kind: 'key of rateLimits',
    keys: Object.keys(rate),
    files: { 'docs/guides/policy.md': [], 'test/policy/rate-limiter.test.ts': [] },
  },
]

describe.each(KINDS)('a $kind', ({ kind, keys, files }) => {
  it.each(Object.entries(files))('is in %s', (file, others) => {
    expect(keys.length).toBeGreaterThan(3)
    const text = read(file)
    for (const key of keys.filter((one) => !others.includes(one)))
      expect(new RegExp(`\\b${key}\\b`).test(text), `the ${kind} "${key}" is missing in ${file}`).toBe(true)
  })
})
