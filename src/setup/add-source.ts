import { SERVER_NAME } from './registry-server.ts'

/** Kinds of packages in the registry. Pegboard says how to run those that it cannot run itself. */
export type PackageType = 'npm' | 'pypi' | 'oci' | 'mcpb' | 'nuget' | 'cargo' | 'go'

/** What the words after `pegboard add` mean. */
export type AddSource =
  | { readonly kind: 'url'; readonly url: string }
  /** An entry of the registry. */
  | { readonly kind: 'registry'; readonly name: string; readonly version?: string }
  | {
      readonly kind: 'package'
      readonly type: PackageType
      readonly name: string
      readonly version?: string
      readonly args: readonly string[]
    }
  | { readonly kind: 'command'; readonly id?: string; readonly command: string; readonly args: readonly string[] }
  /** A word that may occur in a name of the registry. */
  | { readonly kind: 'word'; readonly word: string }

/**
 * @param isProgram true for a word that can be started: a program on PATH, or a path
 * @returns undefined without words
 */
export function readSource(words: readonly string[], isProgram: (word: string) => boolean): AddSource | undefined {
  const [first, second, ...rest] = words
  if (first === undefined) return undefined
  const more = words.slice(1)
  if (/^https?:\/\//i.test(first) && second === undefined) return { kind: 'url', url: first }
  const typed = /^(npm|pypi|oci|mcpb|nuget|cargo|go):(.+)$/.exec(first)
  if (typed) return packageOf(typed[1] as PackageType, typed[2] ?? '', more)
  if (/^@[\w.~-]+\/[\w.~-]+(?:@[^@/]+)?$/.test(first)) return packageOf('npm', first, more)
  const [, name = '', version] = /^([^@]+)(?:@([^@]+))?$/.exec(first) ?? []
  // A path such as ./server/start has a slash, too.
  if (second === undefined && SERVER_NAME.test(name) && name.split('/')[0]?.includes('.') && !first.startsWith('.'))
    return { kind: 'registry', name, ...(version === undefined ? {} : { version }) }
  if (isProgram(first)) return { kind: 'command', command: first, args: more }
  if (second !== undefined) return { kind: 'command', id: first, command: second, args: rest }
  return { kind: 'word', word: first }
}

function packageOf(type: PackageType, spec: string, args: readonly string[]): AddSource {
  // The version is a part of the name of an image, and of the address of a bundle.
  if (type === 'oci' || type === 'mcpb') return { kind: 'package', type, name: spec, args }
  const at = type === 'pypi' ? spec.indexOf('==') : spec.lastIndexOf('@')
  if (at <= 0) return { kind: 'package', type, name: spec, args }
  const version = spec.slice(at + (type === 'pypi' ? 2 : 1))
  return { kind: 'package', type, name: spec.slice(0, at), version, args }
}
