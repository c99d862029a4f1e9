import { once } from './once.ts'

export const REDACTED = '[redacted]'

interface SecretRule {
  /** Name in the audit log. */
  readonly name: string
  /** Where a match can begin. Its one group is the first character, which is rare in most texts. */
  readonly place: string
  /** Looks at each character a bounded number of times, because the text may be hostile. */
  readonly pattern: RegExp
}

const escapeDots = (text: string): string => text.replaceAll('.', '\\.')

/** The start of a word; in JSON an escape may precede it. */
const START = '(?:(?<![\\w-])|(?<=\\\\(?:[nrt]|u[\\dA-Fa-f]{4})))'
/** JSON may escape it, several times in nested JSON. */
const SLASH = '\\\\{0,31}/'

/** More characters than a secret has. Without a limit, a text of some megabytes overflows the stack of the search. */
const MAX_SECRET = 100_000
const limitRepetitions = (pattern: string): string => pattern.replaceAll(',}', `,${MAX_SECRET}}`)

/**
 * @param heads prefixes separated by `|`. All of them end with the same character, which is rare in most texts
 */
function rule(name: string, heads: string, unlimited: string): SecretRule {
  const rest = limitRepetitions(unlimited)
  const head = `${START}(?:${escapeDots(heads)})`
  return {
    name,
    place: `(${escapeDots(heads.slice(-1))})(?<=${head})${rest}`,
    pattern: new RegExp(`${head}${rest}(?![\\w-])`, 'g'),
  }
}

/**
 * Based on the rules of gitleaks (github.com/gitleaks/gitleaks, config/gitleaks.toml): only secrets with an
 * unmistakable prefix, none that need a keyword nearby.
 */
const rules = once((): readonly SecretRule[] => [
  {
    name: 'private-key',
    place: '(N)(?<=-----BEGIN) (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY',
    pattern:
      /-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\s{0,99}(?:Proc-Type|DEK-Info|Version|Comment):[^\n]{0,999}){0,99}(?:[A-Za-z0-9+/=\s]|\\[nrt]){0,200000}(?:-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?/g,
  },
  // The second part of a signed token is JSON too; an encrypted one has five parts. Pegboard's sealed ids are
  // neither.
  {
    name: 'jwt',
    place: `(J)(?<=${START}eyJ)[\\w-]{8}`,
    pattern: new RegExp(
      limitRepetitions(`${START}eyJ[\\w-]{8,}\\.(?:eyJ[\\w-]{8,}(?:\\.[\\w-]{0,})?|[\\w-]{0,}(?:\\.[\\w-]{1,}){3})`),
      'g',
    ),
  },
  rule('aws-access-key', 'AKIA|ASIA|ABIA|ACCA', '[A-Z0-9]{16}'),
  rule('github-token', 'gho_|ghp_|ghu_|ghs_|ghr_', '[A-Za-z0-9]{30,}'),
  rule('github-token', 'github_pat_', '\\w{40,}'),
  rule('gitlab-token', 'glpat-|glptt-|glrt-|gldt-|glsoat-|glcbt-|glimt-|glagent-', '[\\w-]{20,}'),
  rule('slack-token', 'xoxa-|xoxb-|xoxc-|xoxe-|xoxo-|xoxp-|xoxr-|xoxs-', '[\\w-]{10,}'),
  rule('slack-token', 'xapp-', '\\d-[\\w-]{20,}'),
  rule('slack-webhook', 'hooks.slack.', `com${SLASH}(?:services|workflows)${SLASH}(?:[\\w+-]|${SLASH}){30,80}`),
  rule('stripe-key', 'sk_live_|sk_test_|sk_prod_|rk_live_|rk_test_|rk_prod_', '[A-Za-z0-9]{10,}'),
  rule('ai-provider-key', 'sk-', '[\\w-]{20,}'),
  rule('google-api-key', 'AI', 'za[\\w-]{35}'),
  rule('google-oauth', 'GOCSPX-', '[\\w-]{28}'),
  rule('google-oauth', 'ya29.', '[\\w-]{20,}'),
  rule('npm-token', 'npm_', '[A-Za-z0-9]{36,}'),
  rule('pypi-token', 'pypi-', 'AgE[\\w-]{50,}'),
  rule('sendgrid-key', 'SG.', '[\\w-]{22}\\.[\\w-]{43}'),
  rule('hugging-face-token', 'hf_', '[A-Za-z]{34}'),
  rule('digitalocean-token', 'doo_v1_|dop_v1_|dor_v1_', '[a-f0-9]{64}'),
  rule('vault-token', 'hvs.|hvb.', '[\\w-]{24,}'),
  rule('databricks-token', 'dap', 'i[a-f0-9]{32}(?:-\\d)?'),
  rule('shopify-token', 'shpat_|shpca_|shppa_|shpss_', '[a-fA-F0-9]{32}'),
  rule('linear-key', 'lin_api_', '[A-Za-z0-9]{40}'),
  rule('grafana-token', 'glc_|glsa_', `(?:[A-Za-z0-9+=_]|${SLASH}){32,}`),
  rule('age-key', 'AGE-SECRET-KEY-', '1[0-9A-Z]{58}'),
  {
    name: 'login-in-address',
    place: `(:)${SLASH}${SLASH}[^\\s/:@"'<>]{0,256}:[^\\s/@"'<>]{1,256}@`,
    // Placeholders are not secrets.
    pattern: /(?<=:\\{0,31}\/\\{0,31}\/[^\s/:@"'<>]{0,256}:)(?![$%*{[])[^\s/@"'<>]{1,256}(?=@)/g,
  },
])

/** The longest match, a user and password in a URL, is shorter than this. */
export const MAX_PLACE = 1_024

/** One search for all first characters: searching for whole prefixes takes three times as long, 3 ms for 1 MiB. */
const places = once(
  () =>
    new RegExp(
      rules()
        .map(({ place }) => place)
        .join('|'),
      'g',
    ),
)

/** Quick test whether a text, JSON, or bytes in Latin-1 may contain a secret; most do not. */
export const mayHoldSecret = (text: string): boolean => text.search(places()) !== -1

/** The rules whose first characters occur. One combined expression would be a hundred times slower. */
function rulesFor(text: string): readonly SecretRule[] {
  if (!mayHoldSecret(text)) return []
  const found = new Set<number>()
  for (const [, ...groups] of text.matchAll(places())) found.add(groups.findIndex(Boolean))
  return rules().filter((_rule, at) => found.has(at))
}

/** Removes values that look like secrets by themselves. */
export function redactSecrets(text: string): string {
  let redacted = text
  for (const { pattern } of rulesFor(text)) redacted = redacted.replace(pattern, REDACTED)
  return redacted
}

export interface SecretSpan {
  readonly name: string
  readonly start: number
  /** Position after the last character. */
  readonly end: number
}

/** Positions of secrets in a text; they may overlap. */
export const secretSpans = (text: string): readonly SecretSpan[] =>
  rulesFor(text).flatMap(({ name, pattern }) =>
    [...text.matchAll(pattern)].map(({ index, 0: all }) => ({ name, start: index, end: index + all.length })),
  )
