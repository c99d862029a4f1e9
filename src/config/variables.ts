import { looksSecret } from '../core/credentials.ts'
import type { Environment } from './places.ts'

/** A `${…}` that nothing fills, and where it stands. Its value is never known here, so it cannot leak. */
export interface Unset {
  readonly path: readonly string[]
  /** What has to be set: an environment variable. */
  readonly variable: string
}

export interface Filled {
  readonly value: unknown
  /** What variables gave where credentials are, or by names of such, and what is written there itself: nobody else is to read it. */
  readonly secrets: readonly string[]
  readonly unset: readonly Unset[]
  /** Dotted paths of strings that were one reference as a whole: they may have to become numbers or booleans. */
  readonly whole: ReadonlySet<string>
}

export interface Sources {
  readonly env: Environment
  /** VS Code's `inputs`, for their defaults. */
  readonly inputs: ReadonlyMap<string, string | undefined>
  /** What `${workspaceFolder}` and `${userHome}` mean. */
  readonly folders: Readonly<Record<string, string>>
}

const REFERENCE = /(\$?)\$\{(?:(env|input):)?([A-Za-z_][\w.-]*)(?::-((?:[^{}]|\$\{[^{}]*\})*))?\}/g

/**
 * Fills `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `${input:id}`, `${workspaceFolder}` and `${userHome}` in every
 * string below `value`; keys stay as they are. `$${NAME}` stands for the text `${NAME}`. Other `${…}` are left alone.
 * An empty variable counts as unset where a default is given, and as empty otherwise. A default may be another reference;
 * what a variable holds is text, whatever it looks like, so that no two can go in a circle.
 */
export function fillVariables(value: unknown, sources: Sources, path: readonly string[] = []): Filled {
  const unset: Unset[] = []
  const secrets = new Set<string>()
  const whole = new Set<string>()

  const text = (raw: string, at: readonly string[]): string =>
    raw.replace(REFERENCE, (all, escaped: string, kind: string | undefined, name: string, fallback?: string) => {
      if (escaped) return all.slice(1)
      if (all === raw) whole.add(at.join('.'))
      const [found, variable] = lookUp(kind, name, sources)
      const usable = found === '' && fallback !== undefined ? undefined : found
      if (usable !== undefined) {
        if (kind !== undefined || !Object.hasOwn(sources.folders, name))
          if (looksSecret(variable) || at.some(isSecretPlace)) secrets.add(usable)
        return usable
      }
      if (fallback !== undefined) return text(fallback, at)
      unset.push({ path: at, variable })
      return all
    })

  const fill = (item: unknown, at: readonly string[]): unknown => {
    if (typeof item === 'string') {
      const filled = text(item, at)
      for (const secret of secretsWritten(filled, at)) secrets.add(secret)
      return filled
    }
    if (Array.isArray(item)) return item.map((one, index) => fill(one, [...at, String(index)]))
    if (typeof item !== 'object' || item === null) return item
    return Object.fromEntries(Object.entries(item).map(([key, one]) => [key, fill(one, [...at, key])]))
  }

  return { value: fill(value, path), unset, whole, secrets: [...secrets] }
}

const isSecretPlace = (step: string): boolean => step === 'headers' || looksSecret(step)

/** A scheme of HTTP, and what stands behind it. */
const SCHEME = /^(?:bearer|basic|token|apikey)\s+(\S+)$/i
const LOGIN = /:\/\/[^\s/:@]*:([^\s/@]+)@/g
/** No secret, whatever the setting is called: an address, a path, a variable that is not filled. */
const HARMLESS = /^(?:[a-z][a-z0-9+.-]*:\/\/|[./~]|[A-Za-z]:\\)|\$\{/

/** Settings that say where the credential is: `password_env`, `idTokenFile`. */
const ELSEWHERE = /(?:env|file)$/i

/** Of a text as it stands in the file: the value of a setting that is a credential by its name, and passwords of addresses. */
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

/** The value and the name of the environment variable that would set it. */
function lookUp(kind: string | undefined, name: string, sources: Sources): [string | undefined, string] {
  if (kind === 'input') {
    const variable = inputVariable(name)
    return [sources.env[variable] ?? sources.inputs.get(name), variable]
  }
  if (kind === undefined && Object.hasOwn(sources.folders, name)) return [sources.folders[name], name]
  return [sources.env[name], name]
}

/** The environment variable that answers `${input:id}`: `github-token` is PEGBOARD_INPUT_GITHUB_TOKEN. */
const inputVariable = (id: string): string => `PEGBOARD_INPUT_${id.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}`
