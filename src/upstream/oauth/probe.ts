import { pegboardCause } from '../reasons.ts'
import { union, wantedBy } from './challenge.ts'
import type { Site } from './site.ts'
import type { Wanted } from './store.ts'

/**
 * Asks a server, without a token and just as a connection would, what it wants of us. Nothing where it lets us in, or
 * does not say.
 * @param before what it wanted earlier
 * @throws PegboardError E_SSRF_BLOCKED, E_REDIRECT_BLOCKED
 */
export async function probe(site: Site, kind: 'http' | 'sse', before: Wanted | undefined): Promise<Wanted> {
  const { Client, SSEClientTransport, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
  let challenge: Wanted | undefined
  const options = {
    fetch: site.fetch,
    authProvider: {
      token: async () => undefined,
      async onUnauthorized({ response }: { readonly response: Response }) {
        challenge = await wantedBy(response)
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
    // Why it does not answer is found out when the login is used.
  } finally {
    await client.close()
  }
  const scope = union(challenge?.scope, before?.scope)
  return { ...before, ...challenge, ...(scope === undefined ? {} : { scope }) }
}

const PROBE_MS = 10_000
