import type { Secrets, TokenStore } from './upstream/oauth/store.ts'

/** A server renews its token every hour or so: of those that ended, the latest are still looked for. */
const MAX_KEPT = 200

/** Secrets that no configuration has: tokens of servers, which whoever holds them may tell in an answer or an error. */
export function createLearnt(onNew: (secrets: readonly string[]) => void) {
  const known = new Set<string>()

  function learn(grant: Secrets): void {
    const fresh = secretsIn(grant).filter((one) => !known.has(one))
    if (fresh.length === 0) return
    for (const secret of fresh) known.add(secret)
    for (const one of known) if (known.size > MAX_KEPT) known.delete(one)
    onNew([...known])
  }

  return {
    secrets: (): readonly string[] => [...known],
    /** The same store, whose grants are learnt. */
    from: ({ read, write }: TokenStore): Pick<TokenStore, 'read' | 'write'> => ({
      async read(key) {
        const grant = await read(key)
        if (grant) learn(grant)
        return grant
      },
      write(key, grant) {
        learn(grant)
        return write(key, grant)
      },
    }),
  }
}

const secretsIn = ({ tokens, clients = {} }: Secrets): readonly string[] =>
  [
    tokens?.access_token,
    tokens?.refresh_token,
    tokens?.id_token,
    ...Object.values(clients).map(({ client_secret: secret }) => secret),
  ].filter((one) => one !== undefined)
