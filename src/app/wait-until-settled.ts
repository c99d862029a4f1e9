import type { Catalog } from '../catalog/catalog.ts'
import type { Clock } from '../core/clock.ts'
import type { Apis } from '../openapi/apis.ts'
import type { UpstreamStatus } from '../upstream/upstream.ts'
import type { Upstreams } from '../upstream/upstreams.ts'

export interface SettledOptions {
  readonly catalog: Pick<Catalog, 'onChange'>
  readonly clock: Clock
  readonly upstreams: Pick<Upstreams, 'status'>
  readonly apis: Pick<Apis, 'status'>
}

/** See `App.settled`. */
export function waitUntilSettled(
  { catalog, clock, upstreams, apis }: SettledOptions,
  timeoutMs: number,
  awaited: (server: Pick<UpstreamStatus, 'id' | 'module' | 'tools'>) => boolean = () => true,
): Promise<void> {
  const isSettled = (): boolean =>
    !upstreams.status().some((server) => server.pending && awaited(server)) &&
    !apis.status().some((api) => (api.state === 'connecting' || api.state === 'known') && awaited(api))
  return new Promise((resolve) => {
    const done = (): void => {
      cancel()
      stop()
      resolve()
    }
    const cancel = clock.after(timeoutMs, done)
    const stop = catalog.onChange(() => isSettled() && done())
    if (isSettled()) done()
  })
}
