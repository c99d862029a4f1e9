import { once } from './once.ts'

/** What stands for a value that is not passed on. */
export const REDACTED = '[redacted]'

interface SecretRule {
  /** As the audit log says it. */
  readonly name: string
  /** A text has one of these, at the start of a word, or the pattern is not tried. */
  readonly begins: readonly string[]
  /** None looks at a character more often than a fixed number of times: whoever wrote the text may have made it costly. */
  readonly pattern: RegExp
}

const quoted = (text: string): string => text.replaceAll(/[.\\]/g, '\\$&')

/** @param begins with alternatives between bars */
function rule(name: string, begins: string, rest: string): SecretRule {
  const list = begins.split('|')
  return {
    name,
    begins: list,
    pattern: new RegExp(`(?<![\\w-])(?:${list.map(quoted).join('|')})${rest}(?![\\w-])`, 'g'),
  }
}

/**
 * Which services' secrets look like what follows the rules of gitleaks (github.com/gitleaks/gitleaks, config/gitleaks.toml),
 * without those that need a word near the value: only prefixes that little else begins with.
 */
const rules = once((): readonly SecretRule[] => [
  {
    name: 'private-key',
    begins: ['-----BEGIN '],
    pattern:
      /-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\s*(?:Proc-Type|DEK-Info|Version|Comment):[^\n]*)*(?:[A-Za-z0-9+/=\s]|\\[nrt])*(?:-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?/g,
  },
  // The second part of a signed one is JSON, too; an encrypted one has five parts. Our sealed ids are neither.
  {
    name: 'jwt',
    begins: ['eyJ'],
    pattern: /(?<![\w-])eyJ[\w-]{8,}\.(?:eyJ[\w-]{8,}(?:\.[\w-]*)?|[\w-]*(?:\.[\w-]+){3})/g,
  },
  rule('aws-access-key', 'AKIA|ASIA|ABIA|ACCA', '[A-Z0-9]{16}'),
  rule('github-token', 'gho_|ghp_|ghu_|ghs_|ghr_', '[A-Za-z0-9]{30,}'),
  rule('github-token', 'github_pat_', '\\w{40,}'),
  rule('gitlab-token', 'glpat-|glptt-|glrt-|gldt-|glsoat-|glcbt-|glimt-|glagent-', '[\\w-]{20,}'),
  rule('slack-token', 'xoxa-|xoxb-|xoxc-|xoxe-|xoxo-|xoxp-|xoxr-|xoxs-', '[\\w-]{10,}'),
  rule('slack-token', 'xapp-', '\\d-[\\w-]{20,}'),
  rule('slack-webhook', 'hooks.slack.com/', '(?:services|workflows)/[\\w+/-]{30,80}'),
  rule('stripe-key', 'sk_live_|sk_test_|sk_prod_|rk_live_|rk_test_|rk_prod_', '[A-Za-z0-9]{10,}'),
  rule('ai-provider-key', 'sk-', '[\\w-]{20,}'),
  rule('google-api-key', 'AIza', '[\\w-]{35}'),
  rule('google-oauth', 'GOCSPX-', '[\\w-]{28}'),
  rule('google-oauth', 'ya29.', '[\\w-]{20,}'),
  rule('npm-token', 'npm_', '[A-Za-z0-9]{36,}'),
  rule('pypi-token', 'pypi-AgE', '[\\w-]{50,}'),
  rule('sendgrid-key', 'SG.', '[\\w-]{22}\\.[\\w-]{43}'),
  rule('hugging-face-token', 'hf_', '[A-Za-z]{34}'),
  rule('digitalocean-token', 'doo_v1_|dop_v1_|dor_v1_', '[a-f0-9]{64}'),
  rule('vault-token', 'hvs.|hvb.', '[\\w-]{24,}'),
  rule('databricks-token', 'dapi', '[a-f0-9]{32}(?:-\\d)?'),
  rule('shopify-token', 'shpat_|shpca_|shppa_|shpss_', '[a-fA-F0-9]{32}'),
  rule('linear-key', 'lin_api_', '[A-Za-z0-9]{40}'),
  rule('grafana-token', 'glc_|glsa_', '[A-Za-z0-9+/=_]{32,}'),
  rule('age-key', 'AGE-SECRET-KEY-1', '[0-9A-Z]{58}'),
  {
    name: 'login-in-address',
    begins: [ADDRESS],
    // What is filled in later is none.
    pattern: /(?<=:\/\/[^\s/:@"'<>]{0,256}:)(?![$%*{[])[^\s/@"'<>]{1,256}(?=@)/g,
  },
])

const ADDRESS = '://'
const LOGIN = ':\\/\\/[^\\s/:@"\'<>]{0,256}:[^\\s/@"\'<>]{1,256}@'

const anywhere = once(
  () =>
    new RegExp(
      [LOGIN, ...rules().flatMap(({ begins }) => begins.filter((one) => one !== ADDRESS).map(quoted))].join('|'),
      'g',
    ),
)

/** Whether a text, or bytes as Latin-1, may hold a secret: nearly all do not, which is told at one look. */
export const mayHoldSecret = (text: string): boolean => text.search(anywhere()) !== -1

/** The rules whose beginnings a text has. All of them as one pattern would be a hundred times as slow. */
function rulesFor(text: string): readonly SecretRule[] {
  const found = new Set<string>()
  for (const [begin] of text.matchAll(anywhere())) found.add(begin.startsWith(ADDRESS) ? ADDRESS : begin)
  return found.size === 0 ? [] : rules().filter(({ begins }) => begins.some((one) => found.has(one)))
}

/** The text without values that look like secrets by themselves. */
export function redactSecrets(text: string): string {
  let kept = text
  for (const { pattern } of rulesFor(text)) kept = kept.replace(pattern, REDACTED)
  return kept
}

export interface SecretSpan {
  readonly name: string
  readonly start: number
  /** One after the last character. */
  readonly end: number
}

/** Where secrets are in a text; some may overlap. */
export const secretSpans = (text: string): readonly SecretSpan[] =>
  rulesFor(text).flatMap(({ name, pattern }) =>
    [...text.matchAll(pattern)].map(({ index, 0: all }) => ({ name, start: index, end: index + all.length })),
  )
