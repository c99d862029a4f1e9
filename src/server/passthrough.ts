import { ProtocolError, type Server, type ServerContext } from '@modelcontextprotocol/server'
import type { Owner } from '../catalog/catalog.ts'
import type { Caller } from '../core/context.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/failure.ts'
import { isRecord } from '../core/record.ts'
import type { Relay } from '../core/tool.ts'
import { noPrompt, noResource, toFailure } from './answer.ts'
import { holderOf } from './caller.ts'
import { checkFollowed } from './follow.ts'
import type { ServerHost } from './host.ts'
import { askedBy, inspected } from './inspected.ts'
import { toldOfRequest } from './observed.ts'
import { ownResources, ownTemplates, readOwn } from './own.ts'
import { completeOwn, getOwnPrompt, isOwnPrompt, ownPrompts } from './prompts.ts'
import { readingsOf, readReading } from './readings.ts'
import { isListable, ownerOfPrompt, ownerOfReference, ownerOfResource } from './route.ts'
import { relayed } from './wire.ts'

export interface PassThrough {
  readonly era: 'legacy' | 'modern'
  caller(ctx: ServerContext): Caller
  relay(ctx: ServerContext): Relay
  /** Told of a request for a resource that is not there. */
  missed?(id: string | number): void
}

type Entry = Readonly<Record<string, unknown>>

/**
 * Serves resources, prompts and completion: lists are those of all visible owners, requests go to the one that answers
 * for the URI or name and come back unaltered. Answers with the URIs this client is subscribed to, and as whom.
 */
export function passThrough(
  server: Server,
  host: ServerHost,
  { era, caller, relay, missed }: PassThrough,
): ReadonlyMap<string, Caller> {
  const subscribed = new Map<string, Caller>()
  const owners = (ctx: ServerContext): readonly Owner[] => host.view(caller(ctx)).owners

  const forward = (
    owner: Owner | undefined,
    missing: ProtocolFailure,
    method: string,
    params: object,
    ctx: ServerContext,
  ): Promise<never> =>
    toldOfRequest(host, method, host.observer && relay(ctx), () => handedOn(owner, missing, method, params, ctx))
  const handedOn = async (
    owner: Owner | undefined,
    missing: ProtocolFailure,
    method: string,
    params: object,
    ctx: ServerContext,
  ): Promise<never> => {
    try {
      const endpoints = owner?.endpoints
      if (!endpoints) throw missing
      const who = caller(ctx)
      const principal = holderOf(who)
      const { _meta, inputResponses: _answers, requestState: _state, ...own } = params as Entry
      const asked = { principal, era, method, params: own, relay: relay(ctx), signal: ctx.mcpReq.signal }
      return (await host.resumes.run(asked, async (turn) =>
        inspected(
          host,
          who,
          owner.id,
          endpoints
            .request(method, own, askedBy(host, who, owner.id, turn.relay), turn.signal ?? ctx.mcpReq.signal)
            .then(relayed),
        ),
      )) as never
    } catch (error) {
      const failure = asProtocolError(asMissing(error, method, params as Entry, era), era)
      if (failure.code === -32002) missed?.(ctx.mcpReq.id)
      throw failure
    }
  }
  const toResource = (method: string, params: { readonly uri: string }, ctx: ServerContext): Promise<never> =>
    forward(ownerOfResource(owners(ctx), params.uri), noResource(params.uri, era), method, params, ctx)

  const reading = async (uri: string, ctx: ServerContext): Promise<never> => {
    try {
      return (await readReading(host, caller(ctx), uri, ctx.mcpReq.signal)) as never
    } catch (error) {
      throw asProtocolError(error, era)
    }
  }

  server.setRequestHandler('resources/list', (request, ctx) => {
    checkCursor(request.params)
    return {
      resources: unique(
        [...ownResources, ...readingsOf(host.view(caller(ctx))).map(entryOf), ...listed(owners(ctx))],
        'uri',
      ),
    } as never
  })
  server.setRequestHandler('resources/templates/list', (request, ctx) => {
    checkCursor(request.params)
    return {
      resourceTemplates: unique(
        [...ownTemplates, ...owners(ctx).flatMap((owner) => owner.templates.filter(isListable).map(entryOf))],
        'uriTemplate',
      ),
    } as never
  })
  server.setRequestHandler('prompts/list', (request, ctx) => {
    checkCursor(request.params)
    return {
      prompts: unique([...ownPrompts, ...owners(ctx).flatMap((owner) => owner.prompts.map(entryOf))], 'name'),
    } as never
  })

  server.setRequestHandler(
    'resources/read',
    async (request, ctx) =>
      ((await readOwn(host, caller(ctx), request.params.uri)) as never) ??
      (await reading(request.params.uri, ctx)) ??
      (await toResource('resources/read', request.params, ctx)),
  )
  server.setRequestHandler('prompts/get', (request, ctx) => {
    const { name } = request.params
    if (isOwnPrompt(name)) return own(() => getOwnPrompt(host, caller(ctx), request.params.arguments))
    return forward(ownerOfPrompt(owners(ctx), name), noPrompt(name), 'prompts/get', request.params, ctx)
  })
  server.setRequestHandler('completion/complete', (request, ctx) => {
    const reference = request.params.ref as Entry
    if (reference.type === 'ref/prompt' && isOwnPrompt(reference.name))
      return own(() => completeOwn(request.params.argument))
    return forward(
      ownerOfReference(owners(ctx), reference),
      noPrompt(String(reference.name ?? reference.uri)),
      'completion/complete',
      request.params,
      ctx,
    )
  })

  if (era === 'legacy') {
    server.setRequestHandler('resources/subscribe', async (request, ctx) => {
      const { uri } = request.params
      // Its owner counts each once, also of those that come at the same time.
      if (subscribed.has(uri)) return {}
      try {
        checkFollowed(uri, subscribed)
      } catch (error) {
        throw asProtocolError(error, era)
      }
      subscribed.set(uri, caller(ctx))
      try {
        await toResource('resources/subscribe', request.params, ctx)
      } catch (error) {
        subscribed.delete(uri)
        throw error
      }
      return {}
    })
    server.setRequestHandler('resources/unsubscribe', async (request, ctx) => {
      // What others follow is not for this client to end.
      if (!subscribed.delete(request.params.uri)) return {}
      await toResource('resources/unsubscribe', request.params, ctx)
      return {}
    })
  }
  return subscribed
}

async function own(answer: () => Entry | Promise<Entry>): Promise<never> {
  try {
    return (await answer()) as never
  } catch (error) {
    throw asProtocolError(error)
  }
}

/** A 2026 server says of a resource that it has not what the older revision has a code of its own for. */
function asMissing(error: unknown, method: string, { uri }: Entry, era: Caller['era']): unknown {
  if (era !== 'legacy' || method !== 'resources/read' || !isProtocolFailure(error) || error.code !== -32602)
    return error
  const { data, message } = error
  return isRecord(data) && data['uri'] === uri ? new ProtocolFailure(-32002, message, data) : error
}

/** A list has one page, so that no cursor was ever given. @throws ProtocolError -32602 */
export function checkCursor(params: object | undefined): void {
  const { cursor } = (params ?? {}) as { readonly cursor?: unknown }
  if (cursor !== undefined && cursor !== null)
    throw new ProtocolError(-32602, 'Invalid params: the cursor is not one of this server')
}

/** The SDK answers with a code only for errors of its own class. */
export function asProtocolError(error: unknown, era: Caller['era'] = 'modern'): ProtocolError {
  const { code, message, data } = toFailure(error, era)
  return new ProtocolError(code, message, data)
}

/** One that several list is shown as by the one that answers for it. */
function listed(owners: readonly Owner[]): readonly Entry[] {
  const times = new Map<string, number>()
  for (const { resources } of owners) for (const { uri } of resources) times.set(uri, (times.get(uri) ?? 0) + 1)
  return owners.flatMap((owner) =>
    owner.resources.filter(({ uri }) => times.get(uri) === 1 || ownerOfResource(owners, uri) === owner).map(entryOf),
  )
}

const entryOf = ({ entry }: { readonly entry: Entry }): Entry => entry

function unique(entries: readonly Entry[], key: string): readonly Entry[] {
  const seen = new Map<unknown, Entry>()
  for (const entry of entries) if (!seen.has(entry[key])) seen.set(entry[key], entry)
  return [...seen.values()]
}
