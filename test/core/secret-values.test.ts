import { expect, it } from 'vitest'
import { mayHoldSecret, redactSecrets, secretSpans } from '../../src/core/secret-values.ts'
import { costMs } from '../measure-growth.ts'

/** Concatenated, so that secret scanners do not report it. */
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
])('finds a secret anywhere and reports its kind: %s', (name, secret) => {
  const text = name === 'login-in-address' ? 'see redis://:hunter2@db:6379/0' : `see (${secret}), please`
  expect(secretSpans(text).map((span) => span.name)).toEqual([name])
  expect(redactSecrets(text)).toBe(
    name === 'login-in-address' ? 'see redis://:[redacted]@db:6379/0' : 'see ([redacted]), please',
  )
})

it.each(
  'AKIA|ASIA|ABIA|ACCA|gho_|ghp_|ghu_|ghs_|ghr_|github_pat_|glpat-|glptt-|glrt-|gldt-|glsoat-|glcbt-|glimt-|glagent-|xoxa-|xoxb-|xoxc-|xoxe-|xoxo-|xoxp-|xoxr-|xoxs-|xapp-1-|hooks.slack.com/services/|sk_live_|sk_test_|sk_prod_|rk_live_|rk_test_|rk_prod_|sk-|AIza|GOCSPX-|ya29.|npm_|pypi-AgE|hf_|doo_v1_|dop_v1_|dor_v1_|hvs.|hvb.|dapi|shpat_|shpca_|shppa_|shpss_|lin_api_|glc_|glsa_|AGE-SECRET-KEY-1'.split(
    '|',
  ),
)('finds a secret that begins with %s at the start of any word, in text and in JSON', (begin) => {
  const rest = /^(?:do|dapi|sh)/.test(begin)
    ? 'a1b2'
    : /^A[A-Z]/.test(begin)
      ? 'A1B2'
      : begin === 'hf_'
        ? 'aBcD'
        : 'aB3d'
  const lengths: Readonly<Record<string, number>> = {
    AI: 35,
    GO: 28,
    hf: 34,
    do: 64,
    da: 32,
    sh: 32,
    AG: 58,
    li: 40,
    AK: 16,
    AS: 16,
    AB: 16,
    AC: 16,
  }
  const secret = made(begin, rest, lengths[begin.slice(0, 2)] ?? 60)
  for (const before of ['', ' ', '"', '\n', '\t', '\r\n', '=', '東', '😀', 'é', '/', '.'])
    for (const text of [before + secret, `${'word '.repeat(300)}${before}${secret} `]) {
      expect([before, secretSpans(text).length, mayHoldSecret(text)]).toEqual([before, 1, true])
      const json = JSON.stringify({ [text]: text })
      for (const form of [json, json.replaceAll('/', '\\/'), Buffer.from(json).toString('latin1')])
        expect([before, mayHoldSecret(form)]).toEqual([before, true])
    }
  for (const word of [`x${secret}`, `_${secret}`, `-${secret}`, `9${secret}`])
    expect([word, mayHoldSecret(word), secretSpans(word)]).toEqual([word, false, []])
})

it.each([
  // The id of a task of a 2025-era server.
  'eyJpbm5lciI6WyJtY3BfdCIsInNsb3ctMCJdfQ.lVnKbMdSQ8WVbeuBt4O0HraxwJ3UntLxPBo9jTx4R_o',
  'task-1234567890123456789012 and disk-abcdefghijklmnopqrstu',
  'postgres://user:${PASSWORD}@db and mysql://user:<password>@db',
  'mail ann@example.com or https://example.com:8080/@ann',
  'AKIA and ghp_ are how keys begin',
  '-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----',
  'a git commit 0123456789abcdef0123456789abcdef01234567',
])('keeps text without secrets unchanged: %s', (text) => expect(redactSecrets(text)).toBe(text))

it('half a mebibyte takes linear time, whatever it repeats', async () => {
  const ms = await costMs(() => {
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
  })
  expect(ms).toBeLessThan(10_000)
})

it('finds long tokens whole: 20,000 characters in each part of a JWT, and 150,000 in a private key', () => {
  const part = 'aB3-'.repeat(5_000)
  expect(redactSecrets(`x eyJ${part}.eyJ${part}.${part} y`)).toBe('x [redacted] y')
  const key = 'aB3/\n'.repeat(30_000)
  expect(redactSecrets(`x -----BEGIN PRIVATE KEY-----\n${key}-----END PRIVATE KEY----- y`)).toBe('x [redacted] y')
})
