import type { Owner } from '../catalog/owner.ts'
import { shownState } from '../catalog/owner-state.ts'
import { clashesOf, isOwnScheme, ownerOfResource } from '../catalog/resource-owner.ts'
import type { Caller, ServerStatus, ServiceUser } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import type { ServerPrompt, ServerResource, Servers } from '../core/service-types.ts'
import { noRelay } from '../core/tool.ts'
import type { UpstreamStatus } from '../upstream/upstream.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import type { View } from '../view/view.ts'
import type { UnmatchedRule } from './unmatched-rules.ts'

export interface ServersOptions {
  readonly upstreams: Pick<Upstreams, 'connect' | 'disconnect' | 'ping' | 'where'>
  list: ServerList
  hasAny(caller: Caller): boolean
  view(caller: Caller): View
  isAdmin(caller: Caller): boolean
  /** Rules of the policy that match no tool, as far as the caller may see their servers. */
  unmatchedRules(caller: Caller): readonly UnmatchedRule[]
  /** An answer of a server, without what the caller may not see. */
  inspect(caller: Caller, owner: string, answer: Json): Json
}

export interface ServerListOptions {
  statuses(): readonly UpstreamStatus[]
  view(caller: Caller): View
  owners(): ReadonlyMap<string, Owner>
  readonly clock: Clock
}

/**
 * The servers that a caller may see: none of other profiles, and no folders.
 * @param count number of tools of an owner that the caller sees; default all
 */
export type ServerList = (caller: Caller, count?: (owner: string) => number) => readonly ServerStatus[]

export function createServerList(options: ServerListOptions): ServerList {
  const { statuses, view, owners, clock } = options
  return (caller, count) => {
    const { policy } = view(caller)
    const seen = [...owners().values()].filter(({ id }) => policy.allowsOwner(id, caller))
    return statuses()
      .filter(({ module }) => policy.allowsOwner(module, caller))
      .map((status) => {
        const { id, module, transport, instance, nextAttemptAt: at } = status
        const { era, version, instances } = status
        const reason = status.reasonFor?.(caller) ?? status.reason
        const tools = count?.(module) ?? status.tools
        // Notes name tools, so a caller who does not see all tools must not get them.
        const notes = tools === status.tools ? status.notes : undefined
        return {
          id,
          category: module,
          state: shownState(status, tools),
          tools,
          transport,
          ...omitUndefined({ notes, era, version, reason, instances }),
          ...findClashes(seen, module),
          ...(instance === 'shared' ? {} : { instance }),
          ...(at === undefined ? {} : { nextAttemptMs: Math.max(0, Math.round(at - clock.now())) }),
        }
      })
  }
}

function findClashes(owners: readonly Owner[], module: string): Pick<ServerStatus, 'clashes'> {
  const owner = owners.find(({ id }) => id === module)
  const clashes = owner ? clashesOf(owners, owner) : []
  return clashes.length === 0 ? {} : { clashes }
}

/** The only user of this machine: on stdio, or with the token that Pegboard created. */
const LOCAL = 'local'

/** The servers as modules see them: the same requests as a client could make, with the same checks. */
export function createServers(options: ServersOptions, { caller, relay = noRelay, signal }: ServiceUser): Servers {
  const list = (): readonly ServerStatus[] => options.list(caller, signal && view().count)
  /** `available` must not ask for the view, because the view calls `available`. */
  const view = (): View => {
    if (signal) return options.view(caller)
    throw new PegboardError('E_INTERNAL', 'Outside of a call, only services.servers.list() and hasAny() are available.')
  }

  function requireServer(id: string): ServerStatus {
    const all = list()
    const found = all.find((server) => server.id === id) ?? all.find(({ category }) => category === id)
    if (found) return found
    const configured = all.map((server) => server.id)
    throw new PegboardError('E_NOT_FOUND', `There is no server "${id.slice(0, 80)}".`, {
      hint: configured.length > 0 ? `Servers: ${configured.slice(0, 50).join(', ')}.` : 'None is configured.',
    })
  }

  const selectServers = (id: string | undefined): readonly ServerStatus[] =>
    id === undefined ? list() : [requireServer(id)]

  /** What the caller sees of a server besides its tools. */
  const ownerOf = ({ category }: ServerStatus): Owner | undefined =>
    view().owners.find((owner) => owner.id === category)

  /** A server and its owner. Connects to a server that Pegboard has never connected to. */
  async function requireConnected(id: string): Promise<{ readonly server: ServerStatus; readonly owner: Owner }> {
    const server = requireServer(id)
    if (server.state === 'configured') await connect(server)
    const owner = ownerOf(server)
    if (owner) return { server, owner }
    throw new PegboardError('E_NOT_FOUND', `${server.id} has no tools, resources or prompts for you.`)
  }

  async function connect({ id, reason }: ServerStatus): Promise<void> {
    if (reason === 'disabled')
      throw new PegboardError('E_DENIED_BY_POLICY', `${id} is switched off in the configuration.`, {
        hint: `The operator sets ${options.upstreams.where(id)}.enabled.`,
      })
    await options.upstreams.connect(id, signal)
  }

  async function disconnect({ id, state }: ServerStatus): Promise<void> {
    if (caller.principal !== LOCAL && !options.isAdmin(caller))
      throw new PegboardError(
        'E_DENIED_BY_POLICY',
        `${id} is shared with other users, so only admins can disconnect it.`,
        { hint: 'Ask the operator, who gives the role "admin".' },
      )
    if (state !== 'stopped') await options.upstreams.disconnect(id)
  }

  /** Sends a request to an owner as a client would. */
  async function sendRequest(owner: Owner, method: string, params: Json): Promise<Json> {
    const { endpoints } = owner
    if (!endpoints) throw new PegboardError('E_NOT_FOUND', `${owner.id} answers no ${method}.`)
    const { principal, session } = caller
    const ownRelay = { ...relay, principal, session }
    const answer = await endpoints.request(method, params, ownRelay, signal ?? new AbortController().signal)
    if (answer['resultType'] === 'input_required')
      throw new PegboardError('E_CANNOT_ASK', `${owner.id} has a question for the user before it answers ${method}.`, {
        hint: `Send ${method} from a client that can answer questions.`,
      })
    return options.inspect(caller, owner.id, answer)
  }

  // Only the operator, without a restricted token.
  const isOperator = (): boolean =>
    caller.grants === undefined && ((caller.principal === LOCAL && !caller.byToken) || options.isAdmin(caller))

  return {
    list,
    hasAny: () => options.hasAny(caller),
    unmatchedRules: () => (isOperator() ? options.unmatchedRules(caller).map(({ sentence }) => sentence) : []),
    async connect(id) {
      await connect(requireServer(id))
      return requireServer(id)
    },
    async disconnect(id) {
      await disconnect(requireServer(id))
      return requireServer(id)
    },
    async reconnect(id) {
      const server = requireServer(id)
      await disconnect(server)
      await connect(server)
      return requireServer(id)
    },
    async ping(id) {
      const server = requireServer(id)
      return server.state === 'started' ? await options.upstreams.ping(server.id, signal) : undefined
    },
    listTools(id) {
      const servers = new Map(selectServers(id).map((server) => [server.category, server.id]))
      return view().tools.flatMap(({ tool, description }) => {
        const server = tool.origin === 'upstream' ? servers.get(tool.module) : undefined
        return server === undefined
          ? []
          : [{ server, id: tool.id, name: tool.name, title: tool.title, description, effect: tool.effect }]
      })
    },
    listResources: (id) =>
      selectServers(id).flatMap((status) => {
        const server = status.id
        const { resources = [], templates = [] } = ownerOf(status) ?? {}
        const listed: readonly ServerResource[] = [
          ...resources.map(({ uri, entry }) => ({ server, uri, isTemplate: false, entry })),
          ...templates.map(({ uriTemplate: uri, entry }) => ({ server, uri, isTemplate: true, entry })),
        ]
        return listed.filter(({ uri }) => !isOwnScheme(uri))
      }),
    async readResource(id, uri) {
      const { server, owner } = await requireConnected(id)
      if (ownerOfResource([owner], uri) === undefined)
        throw new PegboardError('E_NOT_FOUND', `${server.id} has no resource ${uri.slice(0, 200)}.`, {
          hint: 'List the resources of the server to see their URIs.',
        })
      return await sendRequest(owner, 'resources/read', { uri })
    },
    listPrompts: (id) =>
      selectServers(id).flatMap((server) =>
        (ownerOf(server)?.prompts ?? []).map(({ name, entry }): ServerPrompt => ({ server: server.id, name, entry })),
      ),
    async getPrompt(id, name, args) {
      const { server, owner } = await requireConnected(id)
      const candidates = owner.prompts.filter((prompt) => prompt.name === name || prompt.name.endsWith(`_${name}`))
      const [prompt] = candidates.length === 1 ? candidates : candidates.filter((one) => one.name === name)
      if (!prompt)
        throw new PegboardError('E_NOT_FOUND', `${server.id} has no prompt ${name.slice(0, 80)}.`, {
          hint: 'List the prompts of the server to see their names.',
        })
      return await sendRequest(owner, 'prompts/get', { name: prompt.name, arguments: args })
    },
  }
}
