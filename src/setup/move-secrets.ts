import { setIn } from './edit-json.ts'
import type { MergedServer } from './merge-servers.ts'
import { findPlainSecrets, type PlainSecret } from './plain-secrets.ts'

/** A secret that moves from a client's file to the secret store. */
export interface MovedSecret {
  readonly name: string
  readonly value: string
  /** The server that uses it. */
  readonly server: string
}

/**
 * Replaces plain-text secrets in servers by `${keyring:NAME}`. The name is that of the variable, header or option, with
 * the server in front if two servers have different secrets of that name.
 * @param taken secrets in the secret store; undefined: it cannot be read
 */
export function moveSecrets(
  servers: readonly MergedServer[],
  taken: ReadonlyMap<string, string | undefined>,
): { readonly servers: readonly MergedServer[]; readonly secrets: readonly MovedSecret[] } {
  const secrets: MovedSecret[] = []
  const moved = servers.map((server) => {
    if (server.isKnown) return server
    let { entry } = server
    for (const plain of findPlainSecrets(entry)) {
      const name = nameFor(plain, server, secrets, taken)
      if (!secrets.some((one) => one.name === name)) secrets.push({ name, value: plain.secret, server: server.name })
      const text = String(plain.path.reduce<unknown>((at, step) => (at as Record<typeof step, unknown>)[step], entry))
      const replaced = text.replace(plain.secret, () => `\${keyring:${name}}`)
      entry = setIn(entry, plain.path, replaced) as MergedServer['entry']
    }
    return { ...server, entry }
  })
  return { servers: moved, secrets }
}

function nameFor(
  { path, secret }: PlainSecret,
  { name, entry }: MergedServer,
  secrets: readonly MovedSecret[],
  taken: ReadonlyMap<string, string | undefined>,
): string {
  const plain = (text: string): string => text.replaceAll(/[^\w.-]+/g, '_').replace(/^(?![A-Za-z_])/, '_')
  const named = plain(keyOf(path, entry) ?? 'secret').slice(0, 60)
  const candidates = [named, `${plain(name).slice(0, 60)}.${named}`]
  for (let at = 2; ; at++) {
    const free = candidates.find((one) => {
      const other = secrets.find((moved) => moved.name === one)
      return other ? other.value === secret : !taken.has(one) || taken.get(one) === secret
    })
    if (free !== undefined) return free
    candidates.push(`${candidates[1]}.${at}`)
  }
}

/** The name of the variable or header, or of the option in a list of arguments. */
function keyOf(path: PlainSecret['path'], entry: MergedServer['entry']): string | undefined {
  const last = path.at(-1)
  if (typeof last === 'string') return last === 'url' ? 'url_token' : last
  const args = entry['args']
  if (!Array.isArray(args) || last === undefined) return undefined
  const option = [args[last], args[last - 1]].map((word) => /^--?([A-Za-z][\w.-]*)/.exec(String(word))?.[1])
  return option.find(Boolean)?.replaceAll('-', '_')
}
