import type { CallRequest } from '../exec/tool-calls.ts'
import type { MetaHost } from './meta-host.ts'

/**
 * If a name belongs to a server that was never seen, starts that server and waits for it. If it could belong to any
 * unread server, waits a moment.
 */
export async function awaitServerOf(host: MetaHost, name: string, request: CallRequest): Promise<void> {
  const found = host.view(request.caller).resolve(name)
  if (found.kind !== 'unknown') return
  if (!found.down && found.sameModule.length === 0) await host.serversRead(request.caller)
  else if (found.down?.state === 'configured' || found.down?.state === 'connecting') await host.awaitTool(name, request)
}
