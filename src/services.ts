import { join } from 'node:path'
import type { Catalog } from './catalog/catalog.ts'
import type { Config } from './config/load.ts'
import type { Clock } from './core/clock.ts'
import { type Caller, originOf, type SentFile, type ServicesFor, type ServiceUser } from './core/context.ts'
import { messageOf, PegboardError } from './core/errors.ts'
import type { Fetch } from './core/fetch.ts'
import type { Log } from './core/log.ts'
import { once } from './core/once.ts'
import type { Profile } from './core/profile.ts'
import { scrub } from './core/scrub.ts'
import type { FactStore, Injection, Processes, Registry, Reloaded, Servers, TaskState } from './core/services.ts'
import { sessionOwner } from './exec/owner.ts'
import type { Report } from './loader/load.ts'
import { createFetch } from './policy/fetch.ts'
import type { EmbeddingTable } from './search/table.ts'
import type { FileOutlet } from './server/host.ts'
import { createAdapters } from './services/adapters.ts'
import { type Clients, createClients } from './services/clients.ts'
import { createConversations, isConversation } from './services/conversations.ts'
import { createEndpoint } from './services/endpoint.ts'
import { createIncoming } from './services/incoming.ts'
import { createKv, isKvDocument } from './services/kv.ts'
import { createMemory } from './services/memory.ts'
import { createMessages, isMessages, type Likeness } from './services/messages.ts'
import { createSentFiles } from './services/sent-files.ts'
import { createServices } from './services/services.ts'
import { createDocuments, type Documents, keyOf } from './state/documents.ts'
import type { Store } from './state/store.ts'
import { createStoreDocuments } from './state/store-documents.ts'
import type { Injected } from './view/injected.ts'
import type { View, ViewTool } from './view/view.ts'

/** Everything tools may use beyond their arguments, and what belongs to it. */
export interface Offer {
  readonly servicesFor: ServicesFor
  /** How modules reach addresses; nothing is loaded for it before it is used. */
  readonly fetch: Fetch
  readonly clients: Clients
  readonly files: FileOutlet
  inject(caller: Caller, names: readonly string[]): Injection
  isAdmin(caller: Caller): boolean
  close(): Promise<void>
}

export interface OfferOptions {
  readonly config: Config
  readonly catalog: Catalog
  readonly clock: Clock
  readonly log: Log
  /** The servers that a caller may know of. */
  servers(user: ServiceUser): Servers
  readonly injected: Injected
  readonly table: (() => EmbeddingTable) | undefined
  view(caller: Caller): View
  profileOf(caller: Caller): Profile
  reload(name?: string): Promise<Report>
  processes(): Processes
  /** Used where `state.url` names one. */
  store(): Store
  facts(caller: Caller): FactStore
  /** `null` for one that is not the owner's. */
  task(owner: string, id: string): Promise<TaskState | null>
}

/** Channels whose messages and conversations are kept, of each profile. */
const MAX_CHANNELS = 2_000
/** Where there is no such bound: how long those are kept that nobody uses. */
const CHANNEL_MS = 90 * 24 * 60 * 60_000

export function createOffer(options: OfferOptions): Offer {
  const { config, clock, log, injected } = options
  const settings = config.services
  const onBroken = (file: string, aside: string): void =>
    log.error('a file in the state folder is damaged; it was put aside and a new one begun', { file, aside })
  // Several machines share the store that the operator names; on one, a file is a document, so that none takes others along.
  const documentsOf = <Value>(
    isValue: (value: unknown) => boolean,
    maxKeys: number | undefined,
    ...path: readonly string[]
  ): Documents<Value> =>
    config.state.url === undefined
      ? createDocuments({ dir: join(config.dirs.state, ...path), isValue, onBroken, ...(maxKeys && { maxKeys }) })
      : createStoreDocuments(
          () => options.store().table<Value>(String(path[0])),
          path.join('/'),
          () => (maxKeys === undefined ? undefined : clock.now() + CHANNEL_MS),
        )
  const byProfile = <Value>(kind: string, isValue: (value: unknown) => boolean) => {
    const known = new Map<string, Documents<Value>>()
    return (profile: string): Documents<Value> => {
      const found = known.get(profile) ?? documentsOf<Value>(isValue, MAX_CHANNELS, kind, keyOf(profile))
      known.set(profile, found)
      return found
    }
  }

  const conversations = settings.conversations
    ? createConversations({ documents: byProfile('conversations', isConversation), clock })
    : null
  const likeness = options.table && likenessBy(options.table, log)
  const sent = createSentFiles({ clock, ...settings.files })
  const keep = (caller: Caller, file: SentFile): string | undefined => {
    const uri = sent.keep(caller, file)
    if (uri !== undefined) noteIn(caller, file, uri)
    return uri
  }
  const clients = createClients()
  const { allowPrivate, userAgent } = settings.fetch
  const fetch = createFetch({ allowPrivate, setting: 'services.fetch.allowPrivate', userAgent })
  const endpoint = settings.llm ? createEndpoint(settings.llm) : null

  /** Later turns of the channel find it there. */
  function noteIn(caller: Caller, { filename, mimetype }: SentFile, uri: string): void {
    const origin = originOf(caller, options.profileOf(caller))
    if (!conversations || origin.channelId === '') return
    conversations(caller, origin)
      .append(origin.channelId, {
        role: 'tool',
        content: `Sent ${filename} (${mimetype}).`,
        files: [{ filename, mimetype, uri }],
      })
      .catch((error: unknown) => log.warn('a sent file was not noted in its conversation', { error: messageOf(error) }))
  }

  function inject(caller: Caller, names: readonly string[]): Injection {
    const view = options.view(caller)
    const found = names.map((name) => {
      const resolved = view.resolve(name)
      return { name, id: resolved.kind === 'found' ? resolved.tool.tool.id : undefined }
    })
    const before = new Set(injected.of(caller))
    const known = [...new Set(found.flatMap(({ id }) => (id === undefined ? [] : [id])))]
    return {
      injected: injected.add(caller, known),
      unknown: found.filter(({ id }) => id === undefined).map(({ name }) => name.slice(0, 200)),
      already: known.filter((id) => before.has(id)),
    }
  }

  const isAdmin = (caller: Caller): boolean => {
    const { flags, permissions } = options.profileOf(caller)
    return caller.roles.includes('admin') || permissions.includes('admin') || flags['admin'] === true
  }

  const registryOf = (caller: Caller): Registry => ({
    list: () => options.view(caller).tools.map(entryOf),
    get(name) {
      const found = options.view(caller).resolve(name)
      if (found.kind !== 'found') return null
      const { tool, input } = found.tool
      return { ...entryOf(found.tool), parameters: input.json, tags: tool.tags, aliases: tool.aliases }
    },
    async reload(name) {
      if (!isAdmin(caller))
        throw new PegboardError('E_TOOL_HIDDEN', 'Tools are read again for admins only.', {
          hint: 'The operator sets the flag "admin" of the profile.',
        })
      return reloadedOf(await options.reload(name))
    },
    inject: (names) => inject(caller, names),
  })

  const services = createServices({
    servers: options.servers,
    kv: settings.kv
      ? createKv({
          documents: documentsOf(isKvDocument, undefined, 'kv'),
          clock,
          maxBytes: settings.maxBytes,
          backend: config.state.url === undefined ? 'file' : 'redis',
        })
      : null,
    messages: settings.messages
      ? createMessages({ documents: byProfile('messages', isMessages), clock, ...(likeness && { likeness }) })
      : null,
    conversations,
    memory: settings.memory
      ? createMemory({
          facts: options.facts,
          storeOf: createKv({
            documents: documentsOf(isKvDocument, undefined, 'memory'),
            clock,
            maxBytes: settings.maxBytes,
          }),
          isAdmin,
          clock,
        })
      : null,
    adapters: createAdapters(clients, (caller, file) => {
      const uri = keep(caller, file)
      if (uri !== undefined) return uri
      throw new PegboardError('E_TOO_LARGE', `There is no room for ${file.filename}.`, {
        hint: 'Send a smaller one, or raise services.files.maxBytes.',
      })
    }),
    incoming: createIncoming(log),
    endpoint,
    processes: options.processes,
    registry: ({ caller }) => registryOf(caller),
    tasks: ({ caller }) => ({ check: (id) => options.task(sessionOwner(caller), id) }),
    config: once(() => frozen(config.published)),
  })

  return {
    servicesFor: services,
    fetch,
    clients,
    files: { inlineBytes: settings.files.inlineBytes, keep, read: sent.read },
    inject,
    isAdmin,
    async close() {
      sent.close()
      await Promise.all([endpoint?.close(), fetch.close()])
    },
  }
}

const entryOf = ({ tool, description }: ViewTool) => ({
  name: tool.id,
  description,
  category: tool.module,
  effect: tool.effect,
})

const reloadedOf = ({ loaded, failed }: Report): Reloaded => ({
  loaded: loaded.length,
  failed: failed.map(({ file, code, error }) => ({ file, code, error: scrub(error) })),
})

/** The embedded search model compares texts as well as tools; without its file words alone count. */
function likenessBy(table: () => EmbeddingTable, log: Log): Likeness {
  let broken = false
  return (query, texts) => {
    if (broken) return undefined
    try {
      const model = table()
      const wanted = model.query(query)
      return texts.map((text) => model.query(text).reduce((sum, value, at) => sum + value * (wanted[at] ?? 0), 0))
    } catch (error) {
      broken = true
      log.warn('messages are searched by words alone', { error: messageOf(error) })
      return undefined
    }
  }
}

function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null) for (const inner of Object.values(value)) frozen(inner)
  return Object.freeze(value)
}
