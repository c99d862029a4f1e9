import type { Catalog } from '../catalog/catalog.ts'
import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import type { Apis } from '../openapi/apis.ts'
import type { UpstreamStatus } from '../upstream/upstream.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import { unreadServers } from '../view/unread-servers.ts'
import type { View } from '../view/view.ts'

interface CatalogChanges {
  readonly catalog: Pick<Catalog, 'onChange'>
  readonly clock: Clock
}

/** Waits until `isDone`, which is evaluated after each change of the catalog. @returns false after `timeoutMs` */
function waitUntil(isDone: () => boolean, timeoutMs: number, { catalog, clock }: CatalogChanges): Promise<boolean> {
  return new Promise((resolve) => {
    const end = (inTime: boolean): void => {
      cancel()
      stop()
      resolve(inTime)
    }
    const cancel = clock.after(timeoutMs, () => end(false))
    const stop = catalog.onChange(() => isDone() && end(true))
    if (isDone()) end(true)
  })
}

/** See `App.settled`. */
export async function waitUntilSettled(
  parts: CatalogChanges & { readonly upstreams: Pick<Upstreams, 'status'>; readonly apis: Pick<Apis, 'status'> },
  timeoutMs: number,
  awaited: (server: Pick<UpstreamStatus, 'id' | 'module' | 'tools'>) => boolean = () => true,
): Promise<void> {
  const isSettled = (): boolean =>
    !parts.upstreams.status().some((server) => server.pending && awaited(server)) &&
    !parts.apis.status().some((api) => (api.state === 'connecting' || api.state === 'known') && awaited(api))
  await waitUntil(isSettled, timeoutMs, parts)
}

const LONGEST_WAIT_MS = 2_000

/**
 * Waits until the tools of all visible servers are known, two seconds at most. A slower server is waited for only once,
 * so that it does not delay every search.
 * @param parts.begin connects to waiting servers now
 */
export function createWaitForServers({
  view,
  begin,
  ...parts
}: CatalogChanges & { view(caller: Caller): View; begin(): void }): (caller: Caller) => Promise<void> {
  const slow = new Set<string>()
  return async (caller) => {
    const unread = unreadServers(view(caller))
    for (const id of slow) if (!unread.includes(id)) slow.delete(id)
    const awaited = (): string[] => unreadServers(view(caller)).filter((id) => !slow.has(id))
    if (unread.every((id) => slow.has(id))) return
    begin()
    if (!(await waitUntil(() => awaited().length === 0, LONGEST_WAIT_MS, parts)))
      for (const id of awaited()) slow.add(id)
  }
}
