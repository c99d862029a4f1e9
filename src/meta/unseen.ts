import type { CallRequest } from '../exec/call.ts'
import type { Host } from './host.ts'

/** Where a name says that it is of a server never seen, starts that one and waits for it; where it may be of any, waits a moment. */
export async function startUnseen(host: Host, name: string, request: CallRequest): Promise<void> {
  const found = host.view(request.caller).resolve(name)
  if (found.kind !== 'unknown') return
  if (!found.down && found.sameModule.length === 0) await host.serversRead(request.caller)
  else if (found.down?.state === 'configured' || found.down?.state === 'connecting') await host.missed(name, request)
}
