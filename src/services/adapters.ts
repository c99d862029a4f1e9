import type { Caller, SentFile } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import type { Adapters, PlatformAdapter } from '../core/service-types.ts'
import type { ClientRegistry } from './connected-clients.ts'

/** Connections to chat platforms: those of modules, and `mcp`, the connected clients. */
export interface AdapterRegistry {
  /**
   * The adapters as one caller may use them: `mcp` reaches only its own clients.
   * @param bringing the module that may add adapters; after a restart it adds them again before the old instance stops
   */
  for(caller: Caller, platform: string, bringing?: { readonly module: string; readonly until?: AbortSignal }): Adapters
}

/** @param keep makes a file readable for the caller's clients, and returns its URI */
export function createAdapters(
  clients: ClientRegistry,
  keep: (caller: Caller, file: SentFile) => string,
): AdapterRegistry {
  const added = new Map<string, PlatformAdapter>()
  const broughtBy = new WeakMap<PlatformAdapter, { readonly module: string; readonly until: AbortSignal | undefined }>()

  return {
    for(caller, platform, { module, until } = { module: '' }) {
      const mcp = mcpAdapter(caller, clients, keep)
      const get = (name: string): PlatformAdapter | undefined => (name === mcp.name ? mcp : added.get(name))
      return {
        list: () => [mcp, ...added.values()],
        get,
        get current() {
          return get(platform) ?? null
        },
        add(adapter) {
          const { name } = adapter
          const existing = get(name)
          const earlier = existing && broughtBy.get(existing)
          const isAnew = until && earlier?.module === module && earlier.until !== until
          if (existing && !isAnew)
            throw new PegboardError('E_NAME_TAKEN', `There is an adapter called "${name}" already.`)
          added.set(name, adapter)
          broughtBy.set(adapter, { module, until })
          const off = (): void => {
            if (added.get(name) === adapter) added.delete(name)
            until?.removeEventListener('abort', off)
          }
          until?.addEventListener('abort', off, { once: true })
          return off
        },
      }
    },
  }
}

/**
 * Sends notifications to connected clients. A channel is a session; `''` is the caller's own, or all of its sessions.
 */
function mcpAdapter(
  caller: Caller,
  clients: ClientRegistry,
  keep: (caller: Caller, file: SentFile) => string,
): PlatformAdapter {
  const notify = (channel: string, method: string, params: Readonly<Record<string, unknown>>): { told: number } => {
    const own = clients.of(caller)
    const session = channel === '' ? own.filter(({ isCaller }) => isCaller) : own.filter(({ id }) => id === channel)
    const recipients = channel === '' && session.length === 0 ? own : session
    if (recipients.length === 0)
      throw new PegboardError('E_NOT_FOUND', `There is no connected client '${channel.slice(0, 80)}'.`, {
        hint: 'list_active_servers lists the connected clients.',
      })
    for (const client of recipients) client.notify(method, params)
    return { told: recipients.length }
  }
  const say = (channel: string, data: unknown) =>
    notify(channel, 'notifications/message', { level: 'info', logger: 'pegboard', data })

  return {
    name: 'mcp',
    send: async (channel, text) => say(channel, text),
    async sendFile(channel, file) {
      const uri = keep(caller, file)
      return { ...say(channel, { type: 'file', uri, name: file.filename, mimeType: file.mimetype }), uri }
    },
    listServers: async () =>
      clients.of(caller).map(({ id, name, version, era, isCaller }) => ({ id, name, version, era, current: isCaller })),
    client: { notify },
  }
}
