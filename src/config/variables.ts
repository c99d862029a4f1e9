import { looksSecret } from '../core/secret-names.ts'
import type { Environment } from './machine.ts'

/** A `${…}` without a value, and its path in the file. Its value is unknown, so it cannot leak. */
export interface UnsetVariable {
  readonly path: readonly string[]
  /** The environment variable or secret to set. */
  readonly variable: string
  readonly isSecret: boolean
}

/** What an unset variable needs, as the object of a sentence. */
export const describeUnset = ({ variable, isSecret }: UnsetVariable): string =>
  isSecret
    ? `the secret ${variable}, which is not set (pegboard secret set ${variable})`
    : `the environment variable ${variable}, which is not set`

export interface FilledValue {
  readonly value: unknown
  /** Values of variables and literal values in places of credentials. They must not be shown. */
  readonly secrets: readonly string[]
  readonly unset: readonly UnsetVariable[]
  /** Paths of strings that consist of one variable, which may become numbers or booleans. */
  readonly whole: ReadonlySet<string>
}

export interface VariableSources {
  readonly env: Environment
  /** Values of `${keyring:NAME}`. */
  readonly secrets: ReadonlyMap<string, string>
  /** Defaults of VS Code's `inputs`. */
  readonly inputs: ReadonlyMap<string, string | undefined>
  /** Values of `${workspaceFolder}` and `${userHome}`. */
  readonly folders: Readonly<Record<string, string>>
  /** Used for every variable that is not set and has no default. */
  readonly unset?: string | undefined
}

const REFERENCE = /(\$?)\$\{(?:(env|input|keyring):)?([A-Za-z_][\w.-]*)(?::-((?:[^{}]|\$\{[^{}]*\})*))?\}/g

/**
 * Replaces `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `${keyring:NAME}`, `${input:id}`, `${workspaceFolder}` and
 * `${userHome}` in every string below `value`, not in keys. `$${NAME}` is the text `${NAME}`. Other `${…}` are unchanged. With a default, an
 * empty variable counts as unset. A default may contain another variable; the value of a variable is not parsed, so
 * there are no cycles.
 */
export function fillVariables(value: unknown, sources: VariableSources, path: readonly string[] = []): FilledValue {
  const unset: UnsetVariable[] = []
  const secrets = new Set<string>()
  const whole = new Set<string>()

  const fillText = (text: string, at: readonly string[]): string =>
    text.replace(REFERENCE, (all, escaped: string, kind: string | undefined, name: string, fallback?: string) => {
      if (escaped) return all.slice(1)
      if (all === text) whole.add(at.join('.'))
      const { found, variable, isFolder } = lookUp(kind, name, sources)
      if (found !== undefined && (found !== '' || fallback === undefined)) {
        const isSecret = kind === 'keyring' || looksSecret(variable) || at.some(isSecretPlace)
        if (isSecret && !isFolder) secrets.add(found)
        return found
      }
      if (fallback !== undefined) return fillText(fallback, at)
      if (sources.unset !== undefined) return sources.unset
      unset.push({ path: at, variable, isSecret: kind === 'keyring' })
      return all
    })

  const filled = mapStrings(value, path, (text, at) => {
    const filledText = fillText(text, at)
    for (const secret of secretsWritten(filledText, at)) secrets.add(secret)
    return filledText
  })
  return { value: filled, unset, whole, secrets: [...secrets] }
}

/** A copy with other strings. Keys stay the same. */
function mapStrings(
  value: unknown,
  path: readonly string[],
  change: (text: string, path: readonly string[]) => string,
): unknown {
  if (typeof value === 'string') return change(value, path)
  if (Array.isArray(value)) return value.map((item, index) => mapStrings(item, [...path, String(index)], change))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, mapStrings(item, [...path, key], change)]))
}

/** Names in `${keyring:NAME}`, for reading their values before variables are replaced. `$${keyring:NAME}` is text. */
export const secretNames = (text: string): readonly string[] => [
  ...new Set([...text.matchAll(/(?<!\$)\$\{keyring:([A-Za-z_][\w.-]*)/g)].map(([, name = '']) => name)),
]

const isSecretPlace = (step: string): boolean => step === 'headers' || looksSecret(step)

/** An HTTP authentication scheme and its credentials. */
const SCHEME = /^(?:bearer|basic|token|apikey)\s+(\S+)$/i
const LOGIN = /:\/\/[^\s/:@]*:([^\s/@]+)@/g
/** Values that are never secrets: a URL, a path, a variable without a value. */
const HARMLESS = /^(?:[a-z][a-z0-9+.-]*:\/\/|[./~]|[A-Za-z]:\\)|\$\{/

/** Settings that say where a credential is: `password_env`, `idTokenFile`. */
const ELSEWHERE = /(?:env|file)$/i

/** Secrets written in the file: values of settings named like credentials, and passwords in URLs. */
function secretsWritten(text: string, at: readonly string[]): readonly string[] {
  const passwords = [...text.matchAll(LOGIN)].flatMap(([, password = '']) => [password, decoded(password)])
  const named = at.findLast((step) => !/^\d+$/.test(step)) ?? ''
  if (!looksSecret(named) || ELSEWHERE.test(named) || HARMLESS.test(text)) return passwords
  return [...passwords, text, ...(SCHEME.exec(text)?.slice(1) ?? [])]
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

interface LookedUp {
  readonly found: string | undefined
  /** The environment variable or secret that would set it. */
  readonly variable: string
  /** True for `${workspaceFolder}` and `${userHome}`. */
  readonly isFolder?: true
}

function lookUp(kind: string | undefined, name: string, sources: VariableSources): LookedUp {
  if (kind === 'keyring') return { found: sources.secrets.get(name), variable: name }
  if (kind === 'input') {
    const variable = inputVariable(name)
    return { found: sources.env[variable] ?? sources.inputs.get(name), variable }
  }
  if (kind === undefined && Object.hasOwn(sources.folders, name))
    return { found: sources.folders[name], variable: name, isFolder: true }
  return { found: sources.env[name], variable: name }
}

/** The environment variable for `${input:id}`: `github-token` is PEGBOARD_INPUT_GITHUB_TOKEN. */
const inputVariable = (id: string): string => `PEGBOARD_INPUT_${id.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}`
