import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

type Json = Readonly<Record<string, unknown>>

export interface Published {
  readonly server: Json
  readonly _meta?: Json
}

const OFFICIAL = 'io.modelcontextprotocol.registry/official'

/** An entry as the official registry publishes it. */
export const published = (server: Json, official: Json = {}): Published => ({
  server: { description: 'A server.', version: '1.0.0', ...server },
  _meta: { [OFFICIAL]: { status: 'active', isLatest: true, publishedAt: '2026-01-01T00:00:00Z', ...official } },
})

/**
 * A registry on this machine with the read operations of the published OpenAPI document (2025-12-01): list with cursor,
 * limit, search, updated_since, version and include_deleted; versions; one version. Refuses what that document does
 * not allow. test/fixtures/registry/answers.schema.json has the shape of its answers.
 * @param options.api `/v0` for a registry that does not have the newer version of the API
 */
export async function startRegistry(
  all: readonly Published[],
  options: {
    readonly api?: '/v0' | '/v0.1'
    answer?(request: IncomingMessage, response: ServerResponse): boolean
  } = {},
): Promise<{ readonly url: string; readonly requests: readonly string[] }> {
  const { api = '/v0.1' } = options
  const requests: string[] = []
  const server = createServer((request, response) => {
    requests.push(request.url ?? '')
    if (options.answer?.(request, response)) return
    const url = new URL(request.url ?? '', 'http://registry')
    const send = (status: number, body: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify(body))
    }
    if (request.method !== 'GET') return send(405, { error: 'Method not allowed' })
    if (!url.pathname.startsWith(`${api}/`))
      return send(404, { title: 'Not Found', status: 404, detail: 'Endpoint not found' })
    const route = url.pathname.slice(api.length).split('/').slice(1).map(decodeURIComponent)
    const isStrict = (allowed: readonly string[]): boolean =>
      [...url.searchParams.keys()].every((name) => allowed.includes(name))
    const isShown = (entry: Published): boolean => {
      const official = entry._meta?.[OFFICIAL] as { status?: string } | undefined
      return official?.status !== 'deleted' || url.searchParams.get('include_deleted') === 'true'
    }
    if (route.length === 1 && route[0] === 'servers') {
      if (!isStrict(['cursor', 'limit', 'search', 'updated_since', 'version', 'include_deleted']))
        return send(422, { title: 'Unprocessable Entity', status: 422, detail: 'unknown parameter' })
      const limit = Number(url.searchParams.get('limit') ?? 30)
      if (!Number.isInteger(limit) || limit < 1 || limit > 100)
        return send(422, { title: 'Unprocessable Entity', status: 422, detail: 'limit must be 1 to 100' })
      const wanted = (url.searchParams.get('search') ?? '').toLowerCase()
      const found = all.filter(
        (entry) =>
          isShown(entry) &&
          String(entry.server['name']).toLowerCase().includes(wanted) &&
          (url.searchParams.get('version') !== 'latest' ||
            (entry._meta?.[OFFICIAL] as { isLatest?: boolean } | undefined)?.isLatest !== false),
      )
      const cursor = url.searchParams.get('cursor')
      const at = cursor === null ? 0 : Number(Buffer.from(cursor, 'base64url').toString())
      if (!Number.isInteger(at)) return send(400, { error: 'Invalid cursor' })
      const servers = found.slice(at, at + limit)
      const isMore = at + limit < found.length
      return send(200, {
        servers,
        metadata: {
          count: servers.length,
          ...(isMore ? { nextCursor: Buffer.from(String(at + limit)).toString('base64url') } : {}),
        },
      })
    }
    const [, name, versions, version] = route
    const ofServer = all.filter((entry) => entry.server['name'] === name && isShown(entry))
    if (versions !== 'versions' || ofServer.length === 0) return send(404, { error: 'Server not found' })
    if (version === undefined) return send(200, { servers: ofServer, metadata: { count: ofServer.length } })
    const one = version === 'latest' ? ofServer[0] : ofServer.find((entry) => entry.server['version'] === version)
    return one ? send(200, one) : send(404, { error: 'Server not found' })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests }
}
