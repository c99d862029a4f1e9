import { describe, expect, it } from 'vitest'
import type { Json } from '../../src/core/is-record.ts'
import type { FoundServer } from '../../src/setup/find-clients.ts'
import { mergeServers } from '../../src/setup/merge-servers.ts'

const url = 'https://docs.example/mcp'
const headers = { Authorization: 'Bearer opaque' }
const found = (client: FoundServer['client'], entry: Json): FoundServer => ({ client, name: 'docs', entry, path: [] })

describe('two clients with a remote server of the same address', () => {
  it.each([
    ['first', [{ url, headers }, { url }]],
    ['second', [{ url }, { url, headers }]],
    ['first, disabled', [{ url, headers, disabled: true }, { url }]],
    ['second, disabled', [{ url }, { url, headers, disabled: true }]],
  ])('give one enabled server with the headers of the %s client', (_where, [first, second]) => {
    const servers = [found('cursor', first as Json), found('zed', second as Json)]
    expect(mergeServers(servers, {}, new Map()).map(({ entry }) => entry)).toEqual([{ url, headers }])
  })

  it('do not change a server that Pegboard has already', () => {
    const merged = mergeServers([found('cursor', { url, headers })], { docs: { url } }, new Map())
    expect(merged).toMatchObject([{ isKnown: true, entry: { url } }])
    expect(merged[0]?.entry).toEqual({ url })
  })
})
