import { join } from 'node:path'
import { type Caller, originOf, type SentFile, type ServiceUser } from '../core/caller.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { Log } from '../core/log.ts'
import { once } from '../core/once.ts'
import type { Profile } from '../core/profile.ts'
import { scrub } from '../core/scrub.ts'
import type {
  FactStore,
  Injection,
  Llm,
  Processes,
  Registry,
  ReloadResult,
  Servers,
  TaskState,
} from '../core/service-types.ts'
import { isStoredCaller, type StoredCaller, toStoredCaller } from '../exec/stored-caller.ts'
import { sessionOwner } from '../exec/task-owner.ts'
import type { Report } from '../loader/loader-types.ts'
import { createFetch } from '../policy/guarded-fetch.ts'
import type { EmbeddingTable } from '../search/embedding-table.ts'
import { createAdapters } from '../services/adapters.ts'
import { createClientRegistry } from '../services/connected-clients.ts'
import { createConversations, isConversation } from '../services/conversations.ts'
import { createServices } from '../services/create-services.ts'
import { createIncoming } from '../services/incoming-messages.ts'
import { createKv, isKvDocument } from '../services/kv.ts'
import { createEndpoint } from '../services/llm-endpoint.ts'
import { createMemory } from '../services/memory-service.ts'
import { type CompareTexts, createMessages, isMessages } from '../services/message-store.ts'
import { createSentFiles } from '../services/sent-files.ts'
import { createDocuments, type Documents, keyOf } from '../state/document-store.ts'
import { createStoreDocuments } from '../state/store-documents.ts'
import type { InjectedTools } from '../view/injected-tools.ts'
import type { ViewTool } from '../view/view.ts'
import type { AppBase } from './app-base.ts'

export interface ServiceProviderOptions extends AppBase {
  servers(user: ServiceUser): Servers
  readonly injected: InjectedTools
  profileOf(caller: Caller): Profile
  reload(name?: string): Promise<Report>
  processes(): Processes
  /** The caller with its current rights; undefined if it lost its access. */
  refreshCaller(caller: StoredCaller): Caller | undefined
  facts(caller: Caller): FactStore
  /** `null` if the owner has no such task. */
  task(owner: string, id: string): Promise<TaskState | null>
}

/** Maximum number of channels with stored messages and conversations, for each profile. */
const MAX_CHANNELS = 2_000
/** How long unused channels are kept in a store without this limit. */
const CHANNEL_MS = 90 * 24 * 60 * 60_000

/** Services that tools may use besides their arguments. */
export function createServiceProvider(options: ServiceProviderOptions) {
  const { config, log, injected } = options
  const { clock, shared } = options.state
  const settings = config.services
  const onDamaged = (file: string, aside: string): void =>
    log.error('a file in the state folder is damaged; Pegboard moved it aside and started a new one', { file, aside })
  // Several machines share the store of `state.url`. On one machine, each document is a file, so that damage stays small.
  const documentsOf = <Value>(
    isValue: (value: unknown) => boolean,
    maxKeys: number | undefined,
    ...path: readonly string[]
  ): Documents<Value> =>
    config.state.url === undefined
      ? createDocuments({
          dir: join(config.dirs.state, ...path),
          isValue,
          onBroken: onDamaged,
          ...(maxKeys && { maxKeys }),
        })
      : createStoreDocuments(
          () => shared.store().table<Value>(String(path[0])),
          path.join('/'),
          () => (maxKeys === undefined ? undefined : clock.now() + CHANNEL_MS),
        )
  const byProfile = <Value>(kind: string, isValue: (value: unknown) => boolean) => {
    const documentsByProfile = new Map<string, Documents<Value>>()
    return (profile: string): Documents<Value> =>
      getOrInsert(documentsByProfile, profile, () => documentsOf<Value>(isValue, MAX_CHANNELS, kind, keyOf(profile)))
  }

  const conversations = settings.conversations
    ? createConversations({ documents: byProfile('conversations', isConversation), clock })
    : null
  const likeness = config.search.embedder === 'none' ? undefined : createTextComparison(options.table, log)
  const sentFiles = createSentFiles({ clock, ...settings.files })
  const keepFile = (caller: Caller, file: SentFile): string | undefined => {
    const uri = sentFiles.keep(caller, file)
    if (uri !== undefined) recordSentFile(caller, file, uri)
    return uri
  }
  const clients = createClientRegistry()
  const { allowPrivate, userAgent } = settings.fetch
  const fetch = createFetch({ allowPrivate, setting: 'services.fetch.allowPrivate', userAgent })
  const endpoint = settings.llm ? createEndpoint(settings.llm) : null

  /** Records a sent file for later turns of the channel. */
  function recordSentFile(caller: Caller, { filename, mimetype }: SentFile, uri: string): void {
    const origin = originOf(caller, options.profileOf(caller))
    if (!conversations || origin.channelId === '') return
    conversations(caller, origin)
      .append(origin.channelId, {
        role: 'tool',
        content: `Sent ${filename} (${mimetype}).`,
        files: [{ filename, mimetype, uri }],
      })
      .catch((error: unknown) => log.warn('cannot record a sent file in its conversation', { error: messageOf(error) }))
  }

  function inject(caller: Caller, names: readonly string[]): Injection {
    const view = options.view(caller)
    const found = names.map((name) => {
      const resolved = view.resolve(name)
      return { name, id: resolved.kind === 'found' ? resolved.tool.tool.id : undefined }
    })
    const before = new Set(injected.of(caller))
    const knownIds = [...new Set(found.flatMap(({ id }) => (id === undefined ? [] : [id])))]
    return {
      injected: injected.add(caller, knownIds),
      unknown: found.filter(({ id }) => id === undefined).map(({ name }) => name.slice(0, 200)),
      already: knownIds.filter((id) => before.has(id)),
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
        throw new PegboardError('E_TOOL_HIDDEN', 'Only admins can reload tools.', {
          hint: 'The operator sets the flag "admin" of the profile.',
        })
      return toReloadResult(await options.reload(name))
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
      const uri = keepFile(caller, file)
      if (uri !== undefined) return uri
      throw new PegboardError('E_TOO_LARGE', `There is no space for ${file.filename}.`, {
        hint: 'Send a smaller one, or raise services.files.maxBytes.',
      })
    }),
    incoming: createIncoming(log),
    endpoint,
    processes: options.processes,
    registry: ({ caller }) => registryOf(caller),
    tasks: ({ caller }) => {
      const refreshOwner = (owner: unknown): Caller | undefined =>
        isStoredCaller(owner) ? options.refreshCaller(owner as StoredCaller) : undefined
      return {
        owner: toStoredCaller(caller),
        check: (id) => options.task(sessionOwner(caller), id),
        mayGoOn: (owner = caller) => refreshOwner(owner) !== undefined,
        mayResume(owner, tool) {
          const now = refreshOwner(owner)
          return now !== undefined && options.view(now).resolve(tool).kind === 'found'
        },
      }
    },
    config: once(() => deepFreeze(config.published())),
  })

  return {
    servicesFor: services,
    /** How modules reach addresses. Loaded on first use. */
    fetch,
    clients,
    files: { inlineBytes: settings.files.inlineBytes, keep: keepFile, read: sentFiles.read },
    inject,
    isAdmin,
    /** The model of `services.llm`. */
    llm: (signal: AbortSignal): Llm | undefined => endpoint?.for(signal),
    async close(): Promise<void> {
      sentFiles.close()
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

const toReloadResult = ({ loaded, failed }: Report): ReloadResult => ({
  loaded: loaded.length,
  failed: failed.map(({ file, code, error }) => ({ file, code, error: scrub(error) })),
})

/**
 * Compares texts with the embedded search model. Returns undefined if the model file is missing. Then search uses words only.
 */
function createTextComparison(table: () => EmbeddingTable, log: Log): CompareTexts {
  let broken = false
  return (query, texts) => {
    if (broken) return undefined
    try {
      const model = table()
      const queryVector = model.query(query)
      return texts.map((text) => model.query(text).reduce((sum, value, at) => sum + value * (queryVector[at] ?? 0), 0))
    } catch (error) {
      broken = true
      log.warn('messages are searched by keywords only', { error: messageOf(error) })
      return undefined
    }
  }
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) for (const inner of Object.values(value)) deepFreeze(inner)
  return Object.freeze(value)
}
