import { ProtocolError, type Server, type ServerContext } from '@modelcontextprotocol/server'
import type { Owner, Prompt } from '../catalog/owner.ts'
import { isOfAnother, isOwnScheme, ownerOfResource, ownerOfTemplate } from '../catalog/resource-owner.ts'
import type { Caller } from '../core/caller.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import type { Relay } from '../core/tool.ts'
import { RESULT_SCHEME } from '../results/result-store.ts'
import { isSentFile } from '../services/sent-files.ts'
import { noPrompt, noResource, toFailure } from './call-tool.ts'
import { holderOf } from './identity.ts'
import { createInspectedRelay, inspectAnswer } from './inspect-answers.ts'
import { removeHopData } from './mcp-results.ts'
import { completeOwn, getOwnPrompt, isOwnPrompt, ownPrompts } from './own-prompts.ts'
import {
  completeOwnTemplate,
  isOwnTemplate,
  ownResources,
  ownTemplates,
  readOwnResource,
  readToolResource,
  toolResourcesOf,
} from './own-resources.ts'
import type { ServerHost } from './server-host.ts'
import { traceRequest } from './traced-requests.ts'

export interface RequestReader {
  readonly era: 'legacy' | 'modern'
  caller(ctx: ServerContext): Caller
  relay(ctx: ServerContext): Relay
  /** Called with the id of a request for a resource that does not exist. */
  readonly missed?: (id: string | number) => void
}

export type ResourceRequest = (method: string, params: { readonly uri: string }, ctx: ServerContext) => Promise<never>

/**
 * Serves resources, prompts and completion. Lists are joined from all visible owners; a request goes to the owner of its
 * URI or name, and the answer is returned with other URIs only where they belong to another server.
 */
export function servePassThrough(
  server: Server,
  host: ServerHost,
  { era, caller, relay, missed }: RequestReader,
): ResourceRequest {
  const owners = (ctx: ServerContext): readonly Owner[] => host.view(caller(ctx)).owners

  const forward = (
    owner: Owner | undefined,
    missing: ProtocolFailure,
    method: string,
    params: object,
    ctx: ServerContext,
  ): Promise<never> =>
    traceRequest(host, method, host.observer && relay(ctx), async () => {
      try {
        const endpoints = owner?.endpoints
        if (!endpoints) throw missing
        const who = caller(ctx)
        const principal = holderOf(who)
        const { _meta, inputResponses: _answers, requestState: _state, ...requestParams } = params as Json
        const resumable = {
          principal,
          era,
          method,
          params: requestParams,
          relay: relay(ctx),
          signal: ctx.mcpReq.signal,
        }
        return (await host.resumes.run(resumable, async (context) => {
          const inspected = createInspectedRelay(host, who, owner.id, context.relay)
          const answer = endpoints.request(method, requestParams, inspected, context.signal ?? ctx.mcpReq.signal)
          return await inspectAnswer(host, who, owner.id, answer.then(removeHopData))
        })) as never
      } catch (error) {
        const failure = asProtocolError(asMissing(error, method, params as Json, era), era)
        if (failure.code === -32002) missed?.(ctx.mcpReq.id)
        throw failure
      }
    })
  const promptOf = (name: string, ctx: ServerContext) =>
    findPrompt(owners(ctx), host.catalog.snapshot().promptNames, name)
  const toListedPrompt = (prompt: Prompt): Json => {
    const name = host.catalog.snapshot().promptNames.get(prompt)
    return name === undefined ? prompt.entry : { ...prompt.entry, name }
  }
  const toResource: ResourceRequest = async (method, params, ctx) => {
    const { uri } = params
    const all = owners(ctx)
    const owner = ownerOfResource(all, uri)
    const answer = await forward(owner, noResource(uri, era), method, params, ctx)
    return owner && method === 'resources/read'
      ? withOwnUris(answer, uri, (one) => isOfAnother(all, owner, one))
      : answer
  }

  const readFromTool = async (uri: string, ctx: ServerContext): Promise<never> => {
    try {
      return (await readToolResource(host, caller(ctx), uri, ctx.mcpReq.signal)) as never
    } catch (error) {
      throw asProtocolError(error, era)
    }
  }

  server.setRequestHandler('resources/list', (request, ctx) => {
    checkCursor(request.params)
    const readings = toolResourcesOf(host.view(caller(ctx))).map(entryOf)
    return { resources: unique([...ownResources, ...readings, ...listResources(owners(ctx))], 'uri') } as never
  })
  server.setRequestHandler('resources/templates/list', (request, ctx) => {
    checkCursor(request.params)
    const all = owners(ctx).flatMap(({ templates }) => templates)
    const theirs = all.filter(({ uriTemplate }) => !isOwnScheme(uriTemplate)).map(entryOf)
    return { resourceTemplates: unique([...ownTemplates, ...theirs], 'uriTemplate') } as never
  })
  server.setRequestHandler('prompts/list', (request, ctx) => {
    checkCursor(request.params)
    const theirs = owners(ctx).flatMap(({ prompts }) => prompts.map(toListedPrompt))
    return { prompts: unique([...ownPrompts, ...theirs], 'name') } as never
  })

  server.setRequestHandler('resources/read', async (request, ctx) => {
    const { uri } = request.params
    const who = caller(ctx)
    const answer: Json =
      (await readOwnResource(host, who, uri)) ??
      (await readFromTool(uri, ctx)) ??
      (await toResource('resources/read', request.params, ctx))
    if (isForApplications(uri) || !Array.isArray(answer['contents'])) return answer as never
    const owner = ownerOfResource(owners(ctx), uri)
    return { ...answer, contents: await host.surface.fitResource(who, uri, answer['contents'], owner) } as never
  })
  server.setRequestHandler('prompts/get', (request, ctx) => {
    const { name } = request.params
    if (isOwnPrompt(name)) return own(() => getOwnPrompt(host, caller(ctx), request.params.arguments))
    const found = promptOf(name, ctx)
    const params = found ? { ...request.params, name: found.prompt.name } : request.params
    return forward(found?.owner, noPrompt(name), 'prompts/get', params, ctx)
  })
  server.setRequestHandler('completion/complete', (request, ctx) => {
    const reference = request.params.ref as Json
    if (reference.type === 'ref/prompt' && isOwnPrompt(reference.name))
      return own(() => completeOwn(request.params.argument))
    if (reference.type === 'ref/resource' && isOwnTemplate(reference.uri))
      return own(() => completeOwnTemplate(host.view(caller(ctx)), reference.uri, request.params.argument))
    const found = reference.type === 'ref/prompt' ? promptOf(String(reference.name), ctx) : undefined
    const params = found ? { ...request.params, ref: { ...reference, name: found.prompt.name } } : request.params
    const owner = reference.type === 'ref/prompt' ? found?.owner : ownerOfTemplate(owners(ctx), String(reference.uri))
    const missing =
      reference.type === 'ref/prompt' ? noPrompt(String(reference.name)) : noResource(String(reference.uri), era)
    return forward(owner, missing, 'completion/complete', params, ctx)
  })
  return toResource
}

async function own(answer: () => Json | Promise<Json>): Promise<never> {
  try {
    return (await answer()) as never
  } catch (error) {
    throw asProtocolError(error)
  }
}

/** A read resource can have parts, but none with the URI of another server's resource. */
function withOwnUris(answer: Json, requestedUri: string, isForeign: (uri: string) => boolean): never {
  const contents = (answer['contents'] ?? []) as readonly Json[]
  const isForged = ({ uri }: Json): boolean => uri !== requestedUri && isForeign(String(uri))
  if (!contents.some(isForged)) return answer as never
  return { ...answer, contents: contents.map((one) => (isForged(one) ? { ...one, uri: requestedUri } : one)) } as never
}

/** Pages for people, files that tools sent to people, and whole results: no model reads these. */
const isForApplications = (uri: string): boolean =>
  uri.startsWith('ui://') || uri.startsWith(RESULT_SCHEME) || isSentFile(uri)

/** 2026 servers answer -32602 for a missing resource, 2025 clients expect -32002. */
function asMissing(error: unknown, method: string, { uri }: Json, era: Caller['era']): unknown {
  if (era !== 'legacy' || method !== 'resources/read' || !isProtocolFailure(error) || error.code !== -32602)
    return error
  const { data, message } = error
  return isRecord(data) && data['uri'] === uri ? new ProtocolFailure(-32002, message, data) : error
}

/** Lists have one page, so every cursor is invalid. @throws ProtocolError -32602 */
export function checkCursor(params: object | undefined): void {
  const { cursor } = (params ?? {}) as { readonly cursor?: unknown }
  if (cursor !== undefined && cursor !== null)
    throw new ProtocolError(-32602, 'Invalid params: the cursor is not one of this server')
}

/** The SDK sends code and data only for errors of its own class. */
export function asProtocolError(error: unknown, era: Caller['era'] = 'modern'): ProtocolError {
  const { code, message, data } = toFailure(error, era)
  return new ProtocolError(code, message, data)
}

/** Answers requests whose parameters the server behind them checks. */
export function answerUnchecked(
  server: Server,
  method: string,
  answer: (params: Json, ctx: ServerContext) => Promise<Json>,
): void {
  const any = { '~standard': { version: 1, vendor: 'pegboard', validate: (value: unknown) => ({ value }) } } as const
  server.setRequestHandler(method, { params: any }, async (params, ctx) => {
    try {
      return (await answer((params ?? {}) as Json, ctx)) as never
    } catch (error) {
      throw asProtocolError(error)
    }
  })
}

const listResources = (owners: readonly Owner[]): readonly Json[] =>
  owners.flatMap((owner) => owner.resources.filter(({ uri }) => ownerOfResource(owners, uri) === owner).map(entryOf))

const entryOf = ({ entry }: { readonly entry: Json }): Json => entry

function unique(entries: readonly Json[], key: string): readonly Json[] {
  const seen = new Map<unknown, Json>()
  for (const entry of entries) if (!seen.has(entry[key])) seen.set(entry[key], entry)
  return [...seen.values()]
}

/** Finds a prompt by the name that clients know. @param renamed prompts whose name differs from that of their server */
export function findPrompt(
  owners: readonly Owner[],
  renamed: ReadonlyMap<Prompt, string>,
  name: string,
): { readonly owner: Owner; readonly prompt: Prompt } | undefined {
  for (const owner of owners)
    for (const prompt of owner.prompts) if ((renamed.get(prompt) ?? prompt.name) === name) return { owner, prompt }
  return undefined
}
