import { createHmac } from 'node:crypto'
import { join } from 'node:path'
import { answersFor } from '../catalog/resource-owner.ts'
import { createEmitter } from '../core/emitter.ts'
import { messageOf } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { once } from '../core/once.ts'
import type { RequestOwner } from '../core/tool.ts'
import { META_NAMES } from '../meta/surface.ts'
import { createApis } from '../openapi/apis.ts'
import type { StoredList } from '../openapi/stored-list.ts'
import type { UpstreamListener } from '../server/server-host.ts'
import { createBytesStore, createFileStore } from '../state/file-store.ts'
import { type LockDigests, lockFile } from '../trust/lock-file.ts'
import type { StoredMentions } from '../trust/pending-mentions.ts'
import { shareDecisions } from '../trust/shared-decisions.ts'
import { createTrust, type StoredDefinitions } from '../trust/trust.ts'
import type { TokenStore } from '../upstream/oauth/token-store.ts'
import { createUpstreams } from '../upstream/upstreams.ts'
import type { View } from '../view/view.ts'
import { createApproval } from './api-approval-by-trust.ts'
import type { AppBase } from './app-base.ts'
import { claimStore } from './claim-stores.ts'
import { createLostRules } from './lost-rules.ts'
import type { AppRecording } from './record-and-replay.ts'

export interface RemoteSourcesOptions extends AppBase {
  readonly frozen: boolean | undefined
  readonly recording: AppRecording
  readonly connectDelayMs: { readonly cold?: number; readonly known?: number } | undefined
}

/** Minimum of the limit for messages, because lists may be longer than any result. */
const MIN_FRAME_BYTES = 16 * 1024 * 1024
/** In JSON, one byte of a result can take three bytes. */
const JSON_BYTES = 3

export type RemoteSources = ReturnType<typeof createRemoteSources>

/** Upstream servers and APIs, and the trust in their tools. */
export function createRemoteSources(options: RemoteSourcesOptions) {
  const { config, settings, state, catalog, log, env, observer, secrets, recording } = options
  const { clock, shared } = state
  const { state: stateDir, workspace } = config.dirs
  const warn =
    (message: string) =>
    (error: unknown): void =>
      log.warn(message, { error: messageOf(error) })

  const trust = createTrust({
    file: lockFile(config.file),
    reserved: new Set(META_NAMES),
    log: log.scoped('trust'),
    clock,
    definitions: createFileStore<StoredDefinitions>(join(stateDir, 'trust'), warn('cannot store approved definitions')),
    digests: createFileStore<LockDigests>(join(stateDir, 'lock'), warn('cannot store the digests of the lock file')),
    pendingMentions: createFileStore<StoredMentions>(
      join(stateDir, 'trust'),
      warn('cannot store the tool names that descriptions mention'),
    ),
    ...(options.frozen === undefined ? {} : { frozen: options.frozen }),
  })
  const decisions = state.isShared ? shareDecisions(trust, shared, log.scoped('trust')) : undefined

  // Processes that share a state are one gateway, but several configurations may share a state folder.
  const gatewayId = once(() =>
    createHmac('sha256', shared.key())
      .update(`gateway\n${config.file ?? workspace}`)
      .digest('hex')
      .slice(0, 32),
  )
  const logged = createEmitter<[message: Json, owner?: string, who?: RequestOwner]>()
  const updated = createEmitter<[uri: string, isKnown: (view: View) => boolean, who?: RequestOwner]>()
  const taskChanged = createEmitter<[owner: string, task: Json]>()
  async function logins(): Promise<TokenStore> {
    const { openTokenStore } = await import('../upstream/oauth/token-store.ts')
    return secrets.learnFrom(await openTokenStore(stateDir, env, (message) => log.warn(message)))
  }
  const { maxResultBytes } = config.execution
  const lostRules = createLostRules(() => settings.config)
  const upstreams = createUpstreams({
    catalog,
    log,
    clock,
    ...recording,
    servers: recording.serversOf(config.servers),
    ...(recording.isOn
      ? {}
      : {
          manifests: createBytesStore(join(stateDir, 'manifests'), warn('cannot store or read a manifest')),
          claims: claimStore(stateDir, config.file ?? workspace, warn('cannot store or read the owners of resources')),
        }),
    trust,
    lostRules,
    observer,
    environment: env,
    tokens: logins,
    clientInfo: { name: 'pegboard', version: options.packageInfo.version },
    gateway: gatewayId,
    callTimeoutMs: config.execution.timeoutMs,
    maxFrameBytes: Math.max(MIN_FRAME_BYTES, JSON_BYTES * maxResultBytes),
    maxAnswerBytes: JSON_BYTES * maxResultBytes + 64 * 1024,
    // The first list must be sent before children use the processor.
    delayMs: { cold: 250, known: 1_000, ...options.connectDelayMs },
    hooks: {
      onLog: (owner, params, who) => logged.emit(params, owner, who),
      onResourceUpdated: (owner, uri, who) => updated.emit(uri, answersFor(owner, uri), who),
      onTask: (owner, task) => taskChanged.emit(owner, task),
    },
  })

  const documents = join(stateDir, 'openapi')
  const onStoreError = warn('cannot store the document of an API')
  const apis = createApis({
    catalog,
    log,
    clock,
    apis: config.openapi,
    lists: createFileStore<StoredList>(join(documents, 'lists'), onStoreError),
    documents: createFileStore<Json>(join(documents, 'documents'), onStoreError),
    approval: createApproval(trust, catalog, log.scoped('trust'), lostRules),
  })

  return {
    trust,
    upstreams,
    apis,
    logins,
    /** Id of this Pegboard. A server that leads back to it is rejected. */
    gatewayId,
    /** Reads decisions of other processes about tools, if the state is shared. */
    async readDecisions(): Promise<void> {
      await decisions?.()
    },
    /** Sends a log message of Pegboard itself to all clients. */
    emitLog: (message: Json): void => logged.emit(message),
    /** Messages that servers send on their own. Returns a function that removes the listener. */
    listen(listener: UpstreamListener): () => void {
      const stops = [
        listener.log && logged.listen(listener.log),
        listener.resourceUpdated && updated.listen(listener.resourceUpdated),
        listener.task && taskChanged.listen(listener.task),
      ]
      return () => stops.forEach((stop) => void stop?.())
    },
  }
}
