import type { Config } from '../config/load-config.ts'
import type { Caller } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import { quoteWord } from '../core/quote-word.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import type { Apis } from '../openapi/apis.ts'
import { isNamed } from '../upstream/unknown-tool-search.ts'
import { moduleIds, type Upstreams } from '../upstream/upstreams.ts'
import type { View } from '../view/view.ts'
import { isSeenFile } from './app-modules.ts'

/**
 * Waits for whatever may bring a tool that the caller does not have: modules that are being loaded, then servers.
 * @returns true if the name may be known now
 * @throws PegboardError E_LOADING if a file that may contain it is still being loaded, E_TOOL_DISABLED if the operator
 * disabled its server, E_UPSTREAM_UNAVAILABLE if the entry of its server is invalid
 */
export type AwaitTool = (name: string, request: CallRequest) => Promise<boolean>

export interface AwaitToolOptions {
  view(caller: Caller): View
  whileLoading(): Promise<void> | undefined
  pendingFiles(): readonly string[]
  /** Waits a moment for servers that are read for the first time. */
  serversRead(caller: Caller): Promise<void>
  readonly upstreams: Pick<Upstreams, 'missed' | 'disabledServer'>
  invalidServer(name: string, caller: Caller): string | undefined
  readonly apis: Pick<Apis, 'status'>
}

const RETRY_MS = 2_000
const MAX_NAMED_FILES = 5

export function createAwaitTool(options: AwaitToolOptions): AwaitTool {
  const { view, whileLoading, pendingFiles, serversRead, upstreams, apis, invalidServer } = options
  const isFirstRead = (owner: string): boolean =>
    apis.status().some(({ module, state }) => module === owner && state === 'connecting')
  return async (name, { caller, abort, signal, outerSignal }) => {
    const resolve = () => view(caller).resolve(name)
    const sees = (owner: string): boolean => view(caller).policy.allowsOwner(owner, caller)
    const loading = whileLoading()
    if (loading) {
      await loading
      if (resolve().kind !== 'unknown') return true
    }
    const files = pendingFiles().filter((file) => isSeenFile(file, view(caller), caller))
    if (files.length > 0)
      throw new PegboardError(
        'E_LOADING',
        `'${name}' is not known yet: ${files.slice(0, MAX_NAMED_FILES).join(', ')} is being loaded.`,
        { retryAfterMs: RETRY_MS },
      )
    const found = resolve()
    if (found.kind === 'unknown') {
      const disabled = upstreams.disabledServer(name, sees)
      if (disabled !== undefined) throw createDisabledError(name, disabled)
      const invalid = invalidServer(name, caller)
      if (invalid !== undefined) throw createInvalidError(name, invalid)
      const mayArrive = !found.ownerHasTools && (!found.down || isFirstRead(found.down.id))
      if (mayArrive) {
        await serversRead(caller)
        if (resolve().kind !== 'unknown') return true
      }
    }
    return upstreams.missed(name, { signal: abort?.signal ?? signal ?? outerSignal, sees })
  }
}

const createDisabledError = (name: string, server: string): PegboardError =>
  new PegboardError('E_TOOL_DISABLED', `'${name}' is not available: the operator disabled the server ${server}.`, {
    hint: `Use another tool. The operator can enable the server with: pegboard enable ${quoteWord(server)}`,
  })

const createInvalidError = (name: string, server: string): PegboardError =>
  new PegboardError(
    'E_UPSTREAM_UNAVAILABLE',
    `'${name}' is not available: the configuration entry of the server ${server} is invalid.`,
    {
      class: 'server_setup',
      hint: 'Use another tool. The operator sees what to correct with: pegboard check',
    },
  )

/** The server that a tool name begins with, if its entry cannot be used. @param sees owners that the caller sees */
export function findInvalidServer(
  { skipped }: Pick<Config, 'skipped'>,
  name: string,
  sees: (owner: string) => boolean,
): string | undefined {
  const ids = skipped.filter(({ self }) => !self).map(({ id }) => id)
  const owners = moduleIds(Object.fromEntries(ids.map((id) => [id, true])))
  return ids.find((id) => {
    const owner = owners.get(id) as string
    return isNamed(name, [id, owner]) && sees(owner)
  })
}
