import type { CallContext, SentFile, SharedFile } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import type {
  Adapters,
  CompletionRequest,
  CompletionResult,
  Conversations,
  Graph,
  Kv,
  Llm,
  Memory,
  Messages,
  PlatformAdapter,
  Registry,
  Tasks,
  Threadweave,
} from '../core/service-types.ts'
import type { ToolLoop } from '../core/tool-loop.ts'

/** A file, in the format of tools in single files. */
export interface SentEntry {
  readonly data: Uint8Array | string
  readonly filename: string
  readonly mimetype: string
  readonly file_url?: string
  /** Number of the call that sent it, among calls that share a context. */
  readonly call_index?: number
}

/** A request to a language model, in the format of tools in single files. */
export interface FlatLlm {
  readonly source: Llm['source']
  complete(request: Omit<CompletionRequest, 'maxTokens'> & { readonly max_tokens?: number }): Promise<CompletionResult>
}

export interface FlatConversations extends Conversations {
  mark_deleted(channel: string, messageId: string, platform?: string): Promise<boolean>
}

export interface FlatGraph {
  add_entity: Graph['addEntity']
  add_relation: Graph['addRelation']
  query: Graph['query']
  neighbors: Graph['neighbors']
}

export interface FlatThreadweave {
  vault_dna: Threadweave['vaultDna']
  read_dna: Threadweave['readDna']
  weave: Threadweave['weave']
  unweave: Threadweave['unweave']
  shadow_get: Threadweave['shadowGet']
  shadow_set: Threadweave['shadowSet']
}

/** A set that entries are only added to. */
export interface InjectedTools extends Set<string> {
  /** Adds names, as `add` does. */
  push(...names: readonly string[]): number
}

/**
 * The flat context that tools in single files receive; tools of `defineModule` receive a `CallContext`. Every field
 * has a default, so a test may write `new ToolContext()`. An unavailable service is `null`. `sent_files` and
 * `injected_tools` only grow.
 */
export class ToolContext {
  platform = ''
  channel_id = ''
  message_id = ''
  user_id = ''
  user_name = ''
  guild_id = ''
  adapter: PlatformAdapter | null = null
  config: unknown = null
  redis: Kv | null = null
  message_cache: Messages | null = null
  kg_manager: FlatGraph | null = null
  task_manager: Tasks | null = null
  threadweave: FlatThreadweave | null = null
  tool_registry: Registry | null = null
  conversation_manager: FlatConversations | null = null
  openrouter: FlatLlm | null = null
  all_adapters: PlatformAdapter[] = []
  adapters_by_name: Map<string, PlatformAdapter> = new Map()
  injected_tools: InjectedTools | null = null
  sent_files: SentEntry[] = []
}

/** The fields of `ToolContext`, and others that only Pegboard has. */
export interface CallToolContext extends ToolContext {
  /** The same store as `redis` if there is one, otherwise in a file. */
  readonly kv: Kv | null
  readonly llm: FlatLlm | null
  readonly loop: ToolLoop | null
  /** The module's own options. */
  readonly module_config: unknown
  sendFile(file: SentEntry): void
  injectTool(name: string): void
}

/** The flat view of a call, over the same objects. Fields are created on first access. */
export function flatContext(ctx: CallContext): CallToolContext {
  const { origin, caller, services } = ctx
  const flat = Object.assign(new ToolContext(), {
    platform: origin.platform,
    channel_id: origin.channelId,
    message_id: origin.messageId,
    user_id: origin.userId || caller.principal,
    user_name: origin.userName || caller.principal,
    guild_id: origin.guildId,
  })
  const adapters = (): Adapters | null => services.adapters
  const llm = (): FlatLlm | null => flatLlm(services.llm)
  defineLazily(flat, 'adapter', () => adapters()?.current ?? null)
  defineLazily(flat, 'config', () => services.config)
  defineLazily(flat, 'redis', () => (services.kv?.backend === 'redis' ? services.kv : null))
  defineLazily(flat, 'message_cache', () => services.messages)
  defineLazily(flat, 'task_manager', () => services.tasks)
  defineLazily(flat, 'kg_manager', () => flatGraph(services.memory))
  defineLazily(flat, 'threadweave', () => flatThreadweave(services.memory))
  defineLazily(flat, 'tool_registry', () => services.registry)
  defineLazily(flat, 'conversation_manager', () => flatConversations(services.conversations))
  defineLazily(flat, 'openrouter', llm)
  defineLazily(flat, 'all_adapters', () => adapters()?.list() ?? [])
  defineLazily(
    flat,
    'adapters_by_name',
    () =>
      new Map(
        adapters()
          ?.list()
          .map((adapter) => [adapter.name, adapter]),
      ),
  )
  defineLazily(flat, 'injected_tools', () => createInjectedTools(ctx))
  defineLazily(flat, 'sent_files', () => createSentFiles(ctx))
  defineLazily(flat, 'kv', () => services.kv, false)
  defineLazily(flat, 'llm', llm, false)
  defineLazily(flat, 'loop', () => ctx.loop, false)
  defineLazily(flat, 'module_config', () => ctx.config ?? null, false)
  defineLazily(flat, 'sendFile', () => (file: SentEntry) => ctx.sendFile(fromEntry(file)), false)
  defineLazily(flat, 'injectTool', () => ctx.injectTool, false)
  return flat as CallToolContext
}

const flatGraph = (memory: Memory | null): FlatGraph | null =>
  memory && {
    add_entity: memory.graph.addEntity,
    add_relation: memory.graph.addRelation,
    query: memory.graph.query,
    neighbors: memory.graph.neighbors,
  }

const flatThreadweave = (memory: Memory | null): FlatThreadweave | null =>
  memory && {
    vault_dna: memory.threadweave.vaultDna,
    read_dna: memory.threadweave.readDna,
    weave: memory.threadweave.weave,
    unweave: memory.threadweave.unweave,
    shadow_get: memory.threadweave.shadowGet,
    shadow_set: memory.threadweave.shadowSet,
  }

/** @param enumerable false for properties that `ToolContext` does not have */
function defineLazily(target: object, name: string, make: () => unknown, enumerable = true): void {
  let cached: { readonly value: unknown } | undefined
  Object.defineProperty(target, name, {
    enumerable,
    configurable: true,
    get() {
      cached ??= { value: make() }
      return cached.value
    },
  })
}

const flatLlm = (llm: Llm | null): FlatLlm | null =>
  llm && {
    source: llm.source,
    complete: ({ max_tokens, ...rest }) =>
      llm.complete(max_tokens === undefined ? rest : { ...rest, maxTokens: max_tokens }),
  }

const flatConversations = (conversations: Conversations | null): FlatConversations | null =>
  conversations && {
    ...conversations,
    mark_deleted: (channel, id, platform) => conversations.delete(channel, id, platform),
  }

function fromEntry({ data, filename, mimetype, file_url }: SentEntry): SentFile {
  return { data, filename, mimetype, ...(file_url === undefined ? {} : { fileUrl: file_url }) }
}

function toEntry({ data, filename, mimetype, fileUrl, callIndex }: SharedFile): SentEntry {
  return { data, filename, mimetype, ...(fileUrl === undefined ? {} : { file_url: fileUrl }), call_index: callIndex }
}

/** A set that only grows. Adding a name injects that tool. */
function createInjectedTools(ctx: CallContext): InjectedTools {
  const tools = new Set(ctx.injectedTools)
  const add = tools.add.bind(tools)
  return Object.defineProperties(tools, {
    add: {
      value(name: string) {
        ctx.injectTool(name)
        return add(name)
      },
    },
    // Authors who expect a list call `push`.
    push: {
      value(...names: readonly string[]) {
        for (const name of names) tools.add(name)
        return tools.size
      },
    },
    delete: { value: rejectChange },
    clear: { value: rejectChange },
  }) as InjectedTools
}

/** All files that calls with this context sent. `push` sends a file; other changes fail. */
function createSentFiles(ctx: CallContext): SentEntry[] {
  const entries: SentEntry[] = []
  const addNewFiles = (): void => {
    for (const file of ctx.sentFiles.slice(entries.length)) entries.push(toEntry(file))
  }
  return new Proxy(entries, {
    get(target, key) {
      addNewFiles()
      return Reflect.get(target, key)
    },
    has(target, key) {
      addNewFiles()
      return Reflect.has(target, key)
    },
    ownKeys(target) {
      addNewFiles()
      return Reflect.ownKeys(target)
    },
    set(target, key, value) {
      addNewFiles()
      if (key === 'length' && value >= target.length) return true
      if (key !== String(target.length)) return rejectChange()
      ctx.sendFile(fromEntry(value))
      addNewFiles()
      return true
    },
    deleteProperty: rejectChange,
  })
}

function rejectChange(): never {
  throw new PegboardError('E_VALIDATION', 'sent_files and injected_tools are only ever appended to.')
}

/** The second argument of `execute(args, env)` in script-style files. */
export interface ScriptEnv {
  readonly speaker: {
    readonly id: string
    readonly alias: string
    /** `level` is 0 (guest), unless a trusted client sets another one. */
    readonly attrs: { readonly level: number }
  }
  readonly channel: string
  readonly channel_members: readonly string[]
  readonly seen_members: readonly string[]
  readonly mode: string
  /** Exports and declarations of helper files, by file name without the underscore. */
  readonly shared: Readonly<Record<string, unknown>>
}

export function scriptEnv({ origin, caller, shared }: CallContext): ScriptEnv {
  const { userId, userName, userLevel = 0, channelId, channelMembers = [], seenMembers = [] } = origin
  return {
    speaker: { id: userId || caller.principal, alias: userName || caller.principal, attrs: { level: userLevel } },
    channel: channelId,
    channel_members: channelMembers,
    seen_members: seenMembers,
    mode: '',
    shared,
  }
}
