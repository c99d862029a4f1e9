import type { Secrets, TokenStore } from '../upstream/oauth/token-store.ts'

/** Servers renew tokens about every hour. Expired ones still count as secrets, up to this number. */
const MAX_KEPT = 200

/** Secrets that no configuration contains: tokens of servers, which a server may repeat in an answer or an error. */
export function createLearnedSecrets(onNew: (secrets: readonly string[]) => void) {
  const learnedSecrets = new Set<string>()

  function learn(grant: Secrets): void {
    const fresh = secretsIn(grant).filter((one) => !learnedSecrets.has(one))
    if (fresh.length === 0) return
    for (const secret of fresh) learnedSecrets.add(secret)
    for (const one of learnedSecrets) if (learnedSecrets.size > MAX_KEPT) learnedSecrets.delete(one)
    onNew([...learnedSecrets])
  }

  return {
    secrets: (): readonly string[] => [...learnedSecrets],
    /** Wraps a store: records the secrets that are read from it or written to it. */
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
