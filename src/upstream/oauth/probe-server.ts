import { omitUndefined } from '../../core/omit-undefined.ts'
import { pegboardCause } from '../error-reasons.ts'
import { mergeScopes, readChallenge } from './auth-challenge.ts'
import type { Site } from './auth-site.ts'
import type { AuthRequirement } from './token-store.ts'

/**
 * Connects without a token to find out what authorization a server requires. Adds what it required earlier.
 * @param before what it required earlier
 * @returns an empty object if it has never required anything, or did not tell
 * @throws PegboardError E_SSRF_BLOCKED, E_REDIRECT_BLOCKED
 */
export async function probeServer(
  site: Site,
  kind: 'http' | 'sse',
  before: AuthRequirement | undefined,
): Promise<AuthRequirement> {
  const { Client, SSEClientTransport, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
  let challenge: AuthRequirement | undefined
  const options = {
    fetch: site.fetch,
    authProvider: {
      token: async () => undefined,
      async onUnauthorized({ response }: { readonly response: Response }) {
        challenge = await readChallenge(response)
        throw new Error('a login is wanted')
      },
    },
  }
  const transport =
    kind === 'sse' ? new SSEClientTransport(site.url, options) : new StreamableHTTPClientTransport(site.url, options)
  const client = new Client({ name: 'pegboard', version: '0' }, { versionNegotiation: { mode: 'auto' } })
  try {
    await client.connect(transport, { timeout: PROBE_MS })
  } catch (error) {
    const refusal = pegboardCause(error)
    if (refusal) throw refusal
    // The reason is reported when the login is used.
  } finally {
    await client.close()
  }
  const scope = mergeScopes(challenge?.scope, before?.scope)
  return { ...before, ...challenge, ...omitUndefined({ scope }) }
}

const PROBE_MS = 10_000
