import { expect, it } from 'vitest'
import { redactSecrets, secretSpans } from '../../src/core/secret-values.ts'

/** Put together here, so that no scanner takes one for real. */
const made = (begin: string, rest: string, length: number): string => begin + rest.repeat(length).slice(0, length)

it.each([
  ['aws-access-key', made('ASIA', 'ABCD2345', 16)],
  ['github-token', made('github_pat_', 'aB3_', 82)],
  ['gitlab-token', made('glpat-', 'aB3-', 20)],
  ['slack-token', made('xapp-1-', 'A1B2', 30)],
  ['slack-webhook', made('hooks.slack.com/services/', 'T0A1/', 44)],
  ['stripe-key', made('sk_live_', 'aB3d', 24)],
  ['ai-provider-key', made('sk-', 'ant-aB3', 40)],
  ['google-api-key', made('AIza', 'aB3-', 35)],
  ['google-oauth', made('GOCSPX-', 'aB3_', 28)],
  ['npm-token', made('npm_', 'aB3d', 36)],
  ['pypi-token', made('pypi-AgEIcHlwaS5vcmc', 'aB3-', 60)],
  ['sendgrid-key', `${made('SG.', 'aB3-', 22)}${made('.', 'aB3_', 43)}`],
  ['hugging-face-token', made('hf_', 'aBcD', 34)],
  ['digitalocean-token', made('dop_v1_', 'a1b2', 64)],
  ['vault-token', made('hvs.', 'aB3_', 30)],
  ['databricks-token', made('dapi', 'a1b2', 32)],
  ['shopify-token', made('shpat_', 'a1b2', 32)],
  ['linear-key', made('lin_api_', 'aB3d', 40)],
  ['grafana-token', made('glsa_', 'aB3d', 40)],
  ['jwt', 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N'],
  ['jwt', `eyJhbGciOiJkaXIifQ${made('.', 'aB3-', 12).repeat(4)}`],
  ['age-key', made('AGE-SECRET-KEY-1', 'A1B2', 58)],
  ['login-in-address', 'hunter2@x'],
])('a secret is found wherever it stands, and its kind is told: %s', (name, secret) => {
  const text = name === 'login-in-address' ? 'see redis://:hunter2@db:6379/0' : `see (${secret}), please`
  expect(secretSpans(text).map((span) => span.name)).toEqual([name])
  expect(redactSecrets(text)).toBe(
    name === 'login-in-address' ? 'see redis://:[redacted]@db:6379/0' : 'see ([redacted]), please',
  )
})

it.each([
  // The id of a task that a server of 2025 runs.
  'eyJpbm5lciI6WyJtY3BfdCIsInNsb3ctMCJdfQ.lVnKbMdSQ8WVbeuBt4O0HraxwJ3UntLxPBo9jTx4R_o',
  'task-1234567890123456789012 and disk-abcdefghijklmnopqrstu',
  'postgres://user:${PASSWORD}@db and mysql://user:<password>@db',
  'mail ann@example.com or https://example.com:8080/@ann',
  'AKIA and ghp_ are how keys begin',
  '-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----',
  'a git commit 0123456789abcdef0123456789abcdef01234567',
])('text without secrets stays: %s', (text) => expect(redactSecrets(text)).toBe(text))

it('half a mebibyte takes no longer than its length explains, whatever it repeats', () => {
  const beganAt = performance.now()
  for (const piece of [
    'eyJ',
    'eyJ.',
    'sk-',
    '://a:',
    '://a:b@',
    '-----BEGIN PRIVATE KEY-----',
    '-----BEGIN ',
    'AKIA',
    'SG.',
    '\\n',
    'glpat-',
  ])
    redactSecrets(piece.repeat(2 ** 19 / piece.length))
  expect(performance.now() - beganAt).toBeLessThan(10_000)
})
