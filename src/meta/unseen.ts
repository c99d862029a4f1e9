import type { CallRequest } from '../exec/call.ts'
import type { Host } from './host.ts'

/** Where a name says that it is of a server never seen: starts that one and waits for it. */
export async function startUnseen(host: Host, name: string, request: CallRequest): Promise<void> {
  const found = host.view(request.caller).resolve(name)
  if (found.kind !== 'unknown' || (found.down?.state !== 'configured' && found.down?.state !== 'connecting')) return
  await host.missed(name, request)
}
