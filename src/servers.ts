import type { Owner } from './catalog/catalog.ts'
import { shownState } from './catalog/state.ts'
import type { Clock } from './core/clock.ts'
import type { Caller, ServerStatus, ServiceUser } from './core/context.ts'
import { PegboardError } from './core/errors.ts'
import type { ServerPrompt, ServerResource, Servers } from './core/services.ts'
import { noRelay } from './core/tool.ts'
import { clashesOf, ownerOfResource } from './server/route.ts'
import type { UpstreamStatus } from './upstream/upstream.ts'
import type { Upstreams } from './upstream/upstreams.ts'
import type { View } from './view/view.ts'

type Json = Readonly<Record<string, unknown>>

export interface ServersOptions {
  readonly upstreams: Pick<Upstreams, 'connect' | 'disconnect' | 'ping' | 'where'>
  /** Those that a caller may know of. */
  list(caller: Caller): readonly ServerStatus[]
  view(caller: Caller): View
  isAdmin(caller: Caller): boolean
  /** What a server answered, as far as the caller may have it. */
  inspect(caller: Caller, owner: string, answer: Json): Json
}

export interface ServerListOptions {
  statuses(): readonly UpstreamStatus[]
  view(caller: Caller): View
  /** Of the catalogue: while it stays, so does what is seen. */
  version(): number
  /** All there are. */
  owners(): ReadonlyMap<string, Owner>
  readonly clock: Clock
}

/** What each caller may know of servers: one of another profile is nobody's business, nor is the folder of any. */
export function createServerList(options: ServerListOptions): (caller: Caller) => readonly ServerStatus[] {
  const { statuses, view, version, owners, clock } = options
  const listFor = (caller: Caller): readonly ServerStatus[] => {
    const { policy } = view(caller)
    const seen = [...owners().values()].filter(({ id }) => policy.sees(id, caller))
    return statuses()
      .filter(({ module }) => policy.sees(module, caller))
      .map(
        ({
          id,
          module,
          tools,
          notes,
          transport,
          era,
          version,
          reason,
          nextAttemptAt,
          instance,
          instances,
          ...status
        }) => ({
          id,
          category: module,
          state: shownState({ ...status, ...(reason === undefined ? {} : { reason }) }, tools),
          tools,
          ...(notes === undefined ? {} : { notes }),
          transport,
          ...(era === undefined ? {} : { era }),
          ...(version === undefined ? {} : { version }),
          ...(reason === undefined ? {} : { reason }),
          ...clashing(seen, module),
          ...(instance === 'shared' ? {} : { instance }),
          ...(instances === undefined ? {} : { instances }),
          ...(nextAttemptAt === undefined
            ? {}
            : { nextAttemptMs: Math.max(0, Math.round(nextAttemptAt - clock.now())) }),
        }),
      )
  }
  // Whether one is there decides about tool after tool, all in one go.
  let kept: { readonly version: number; readonly lists: WeakMap<Caller, readonly ServerStatus[]> } | undefined
  return (caller) => {
    const now = version()
    if (kept?.version !== now) {
      kept = { version: now, lists: new WeakMap() }
      queueMicrotask(() => (kept = undefined))
    }
    const list = kept.lists.get(caller) ?? listFor(caller)
    kept.lists.set(caller, list)
    return list
  }
}

function clashing(owners: readonly Owner[], module: string): Pick<ServerStatus, 'clashes'> {
  const owner = owners.find(({ id }) => id === module)
  const clashes = owner ? clashesOf(owners, owner) : []
  return clashes.length === 0 ? {} : { clashes }
}

/** Who uses this machine alone, on stdio or behind the token that was made for it. */
const LOCAL = 'local'

/** The servers for tools: what a client could ask of them by itself, behind the same fences, and nothing more. */
export function createServers(options: ServersOptions, { caller, relay = noRelay, ending }: ServiceUser): Servers {
  const list = (): readonly ServerStatus[] => options.list(caller)
  /** What a caller sees is being found out while `available` is asked. */
  const view = (): View => {
    if (ending) return options.view(caller)
    throw new PegboardError('E_INTERNAL', 'Outside of a call only services.servers.list() can be asked.')
  }

  function one(id: string): ServerStatus {
    const all = list()
    const found = all.find((server) => server.id === id) ?? all.find(({ category }) => category === id)
    if (found) return found
    const known = all.map((server) => server.id)
    throw new PegboardError('E_NOT_FOUND', `There is no server "${id.slice(0, 80)}".`, {
      hint: known.length > 0 ? `Configured are: ${known.slice(0, 50).join(', ')}.` : 'None is configured.',
    })
  }

  const several = (id: string | undefined): readonly ServerStatus[] => (id === undefined ? list() : [one(id)])

  /** What the caller may see of it beside its tools. */
  const ownerOf = ({ category }: ServerStatus): Owner | undefined =>
    view().owners.find((owner) => owner.id === category)

  /** The same, of a server that must have something by now. */
  async function known(id: string): Promise<{ readonly server: ServerStatus; readonly owner: Owner }> {
    const server = one(id)
    if (server.state === 'configured') await connect(server)
    const owner = ownerOf(server)
    if (owner) return { server, owner }
    throw new PegboardError('E_NOT_FOUND', `${server.id} has nothing that is there for you.`)
  }

  async function connect({ id, reason }: ServerStatus): Promise<void> {
    if (reason === 'disabled')
      throw new PegboardError('E_DENIED_BY_POLICY', `${id} is switched off in the configuration.`, {
        hint: `The operator sets ${options.upstreams.where(id)}.enabled.`,
      })
    await options.upstreams.connect(id, ending)
  }

  async function disconnect({ id, state }: ServerStatus): Promise<void> {
    if (caller.principal !== LOCAL && !options.isAdmin(caller))
      throw new PegboardError('E_DENIED_BY_POLICY', `${id} is there for others, too: only admins disconnect it.`, {
        hint: 'Ask the operator, who gives the role "admin".',
      })
    if (state !== 'stopped') await options.upstreams.disconnect(id)
  }

  /** A request, as a client would make it at this owner. */
  async function ask(owner: Owner, method: string, params: Json): Promise<Json> {
    const { endpoints } = owner
    if (!endpoints) throw new PegboardError('E_NOT_FOUND', `${owner.id} answers no ${method}.`)
    const signal = ending?.signal ?? new AbortController().signal
    const { principal, session } = caller
    const answer = await endpoints.request(
      method,
      params,
      { ...relay, principal, ...(session === undefined ? {} : { session }) },
      signal,
    )
    if (answer['resultType'] === 'input_required')
      throw new PegboardError('E_CANNOT_ASK', `${owner.id} asks something before it answers ${method}.`, {
        hint: `Make the request ${method} itself, where the client can.`,
      })
    return options.inspect(caller, owner.id, answer)
  }

  return {
    list,
    async connect(id) {
      await connect(one(id))
      return one(id)
    },
    async disconnect(id) {
      await disconnect(one(id))
      return one(id)
    },
    async reconnect(id) {
      const server = one(id)
      await disconnect(server)
      await connect(server)
      return one(id)
    },
    async ping(id) {
      const server = one(id)
      return server.state === 'started' ? await options.upstreams.ping(server.id, ending) : undefined
    },
    listTools(id) {
      const servers = new Map(several(id).map((server) => [server.category, server.id]))
      return view().tools.flatMap(({ tool, description }) => {
        const server = tool.origin === 'upstream' ? servers.get(tool.module) : undefined
        return server === undefined
          ? []
          : [{ server, id: tool.id, name: tool.name, title: tool.title, description, effect: tool.effect }]
      })
    },
    listResources: (id) =>
      several(id).flatMap((server) => {
        const { resources = [], templates = [] } = ownerOf(server) ?? {}
        return [
          ...resources.map(({ uri, entry }): ServerResource => ({ server: server.id, uri, isTemplate: false, entry })),
          ...templates.map(
            ({ uriTemplate, entry }): ServerResource => ({
              server: server.id,
              uri: uriTemplate,
              isTemplate: true,
              entry,
            }),
          ),
        ]
      }),
    async readResource(id, uri) {
      const { server, owner } = await known(id)
      if (ownerOfResource([owner], uri) === undefined)
        throw new PegboardError('E_NOT_FOUND', `${server.id} has no resource ${uri.slice(0, 200)}.`)
      return await ask(owner, 'resources/read', { uri })
    },
    listPrompts: (id) =>
      several(id).flatMap((server) =>
        (ownerOf(server)?.prompts ?? []).map(({ name, entry }): ServerPrompt => ({ server: server.id, name, entry })),
      ),
    async getPrompt(id, name, args) {
      const { server, owner } = await known(id)
      const own = owner.prompts.filter((prompt) => prompt.name === name || prompt.name.endsWith(`_${name}`))
      const [prompt] = own.length === 1 ? own : own.filter((one) => one.name === name)
      if (!prompt) throw new PegboardError('E_NOT_FOUND', `${server.id} has no prompt ${name.slice(0, 80)}.`)
      return await ask(owner, 'prompts/get', { name: prompt.name, arguments: args })
    },
  }
}
