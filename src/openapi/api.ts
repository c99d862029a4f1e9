import type { Catalog, OwnerState } from '../catalog/catalog.ts'
import { actionNames, createFilter, mayStillCome, namingProblems } from '../catalog/naming.ts'
import type { Clock } from '../core/clock.ts'
import type { CallContext } from '../core/context.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { isRecord } from '../core/record.ts'
import type { ToolResult } from '../core/result.ts'
import type { Tool } from '../core/tool.ts'
import { MAX_UNFOLDED, unfolded } from '../core/unfolded.ts'
import { within } from '../core/within.ts'
import { adaptOperation, type ToolHost } from './adapt.ts'
import { resultOf } from './answer.ts'
import { createAuth } from './auth.ts'
import { hashOf, type Json, type Loaded, loadDocument } from './document.ts'
import { isOperation, type OperationRecord, operationsOf } from './operations.ts'
import { type ApiSettings, isUrl } from './options.ts'
import { originsOf } from './origins.ts'
import { type Definition, defineOperation } from './plan.ts'
import { fetchText, fileReader, urlReader } from './read.ts'
import { baseOf, buildRequest } from './request.ts'
import { createSender } from './send.ts'

/** What is kept of a document between runs, apart from the document itself. */
export interface KeptList {
  readonly format: 1
  readonly location: string
  /** Hashes of the texts it was made of. */
  readonly parts: Readonly<Record<string, string>>
  readonly etag?: string
  /** When it was last found to be so, in milliseconds since 1970. */
  readonly checkedAt: number
  readonly title?: string
  readonly operations: readonly OperationRecord[]
}

export interface Store<Value> {
  get(key: string): Value | undefined
  set(key: string, value: Value): void
}

export interface ApiShared {
  readonly catalog: Catalog
  readonly log: Log
  readonly clock: Clock
  readonly lists: Store<KeptList>
  readonly documents: Store<Json>
}

export interface ApiStatus {
  readonly id: string
  readonly module: string
  readonly state: OwnerState
  readonly reason?: string
  readonly tools: number
}

/** One API as an owner in the catalogue. */
export interface Api {
  /** Shows what is known from before at once; the document is looked at after `delayMs`. */
  start(delayMs: number): void
  /** Looks at the document again, whenever that was done last. Failures are logged; what was known stays. */
  refresh(): Promise<void>
  status(): ApiStatus
  problems(): readonly string[]
  stop(): Promise<void>
}

const DAY_MS = 86_400_000
const RETRY_MS = 60_000
/** Making the schema of the largest operation of GitHub's document takes a tenth of it. */
const DEFINE_MS = 500
const NOTHING_KNOWN: Definition = {
  input: { type: 'object' },
  output: undefined,
  examples: [],
  plan: { parameters: [], accept: '*/*', servers: [], security: undefined },
}

export function createApi(id: string, module: string, settings: ApiSettings, shared: ApiShared): Api {
  const { catalog, clock, lists, documents } = shared
  const log = shared.log.scoped(module)
  const key = hashOf(settings.document).slice(0, 32)
  const origins = originsOf(settings)
  const sender = createSender(id, origins.mayBePrivate, `openapi.${id}.allowPrivate`)
  const auth = createAuth(id, settings.auth, settings.headers, sender.send, clock, origins.mayHaveSecrets)
  const remote = isUrl(settings.document)

  let state: OwnerState = 'connecting'
  let reason: string | undefined
  let kept: KeptList | undefined
  let document: Json | undefined
  let tools: readonly Tool[] = []
  let listed: ReadonlyMap<string, Tool | undefined> = new Map()
  let looking: Promise<void> | undefined
  let cancel: (() => void) | undefined
  let stopped = false
  const told = new Set<string>()

  const host: ToolHost = {
    id,
    module,
    settings,
    get version() {
      return JSON.stringify(kept?.parts)
    },
    define,
    unchecked,
    call,
  }

  // --- the document -------------------------------------------------------------------------------------------------

  function known(): Json | undefined {
    document ??= documents.get(key)
    if (!document) void refresh()
    return document
  }

  function define(record: OperationRecord): Definition {
    const whole = known()
    if (!whole) return NOTHING_KNOWN
    try {
      const made = within(DEFINE_MS, () => {
        const definition = defineOperation(whole, record)
        return unfolded(definition.input) > MAX_UNFOLDED ? undefined : definition
      })?.value
      if (made) return made
      log.warn('an operation cannot be used: its schema is too large or too deep', { operation: record.name })
    } catch (error) {
      log.warn('an operation cannot be understood', { operation: record.name, error: messageOf(error) })
    }
    return { ...NOTHING_KNOWN, unusable: true }
  }

  function unchecked({ name }: OperationRecord): void {
    const problem = `the arguments of ${name} are not checked here: its schema takes too long`
    if (told.has(problem)) return
    told.add(problem)
    log.warn(problem)
  }

  /** @param force ask although it was looked at today */
  async function look(force: boolean): Promise<void> {
    cancel?.()
    try {
      if (remote) await lookThere(force)
      else await lookHere()
      become('ready')
    } catch (error) {
      const why = messageOf(error)
      log.warn('the document of an API cannot be used', { error: why })
      // What was known still works as well as before.
      become(tools.length > 0 ? 'degraded' : 'failing', why)
    }
    if (stopped) return
    const again = state === 'ready' ? (remote ? DAY_MS : undefined) : RETRY_MS
    if (again !== undefined) cancel = clock.after(again, () => void refresh())
  }

  async function lookHere(): Promise<void> {
    const read = fileReader(settings.document)
    if (kept && (await isSame(kept, read))) return
    take(await loadDocument(settings.document, read))
  }

  async function lookThere(force: boolean): Promise<void> {
    const fresh = kept !== undefined && clock.now() - kept.checkedAt < DAY_MS
    if (fresh && !force) return
    const fetched = await fetchText(settings.document, sender.send, kept?.etag)
    const same = kept && (fetched === undefined || kept.parts[settings.document] === hashOf(fetched.text))
    if (kept && same) {
      kept = { ...kept, checkedAt: clock.now() }
      lists.set(key, kept)
    } else if (fetched)
      take(await loadDocument(settings.document, urlReader(fetched, settings.document, sender.send)), fetched.etag)
  }

  function take(loaded: Loaded, etag?: string): void {
    if (stopped) return
    const { info } = loaded.document
    document = loaded.document
    kept = {
      format: 1,
      location: settings.document,
      parts: loaded.parts,
      ...(etag === undefined ? {} : { etag }),
      checkedAt: clock.now(),
      ...(isRecord(info) && typeof info['title'] === 'string' ? { title: info['title'].slice(0, 200) } : {}),
      operations: operationsOf(loaded.document),
    }
    documents.set(key, loaded.document)
    lists.set(key, kept)
    publish()
  }

  // --- the catalogue ------------------------------------------------------------------------------------------------

  function publish(): void {
    const operations = kept?.operations ?? []
    const passes = createFilter(settings)
    const passing = operations.filter(({ name }) => passes(name))
    const actions = actionNames(
      passing.map(({ name }) => name),
      settings,
    )
    const own = new Map<string, Tool | undefined>(operations.map(({ name }) => [name, undefined]))
    tools = passing.map((record) => {
      const tool = adaptOperation(record, host, actions.get(record.name) ?? record.name)
      own.set(record.name, tool)
      return tool
    })
    listed = own
    const summary = settings.summary ?? (kept?.title ? `The API ${kept.title}` : `API ${id}`)
    catalog.set(
      {
        id: module,
        summary,
        ...(settings.summary === undefined && kept?.title === undefined ? {} : { about: summary }),
        origin: 'upstream',
        state,
        ...(reason === undefined ? {} : { reason }),
      },
      { tools },
    )
    for (const problem of problems().filter((one) => !mayStillCome(one) && !told.has(one))) {
      told.add(problem)
      log.warn(problem)
    }
  }

  function become(next: OwnerState, why?: string): void {
    if (stopped || (state === next && reason === why)) return
    state = next
    reason = why
    catalog.describe(module, { state, ...(why === undefined ? {} : { reason: why }) })
  }

  const problems = (): string[] => namingProblems(`openapi.${id}.tools`, id, settings, listed, catalog)

  // --- calls --------------------------------------------------------------------------------------------------------

  async function call(
    record: OperationRecord,
    { plan, output, unusable }: Definition,
    input: unknown,
    ctx: CallContext,
  ): Promise<ToolResult> {
    if (unusable)
      throw new PegboardError(
        'E_BACKEND_UNAVAILABLE',
        `The API ${id} describes ${record.name} in a way that is not used.`,
        {
          retryable: false,
          hint: 'The log of Pegboard says why.',
        },
      )
    const whole = known()
    if (!whole) throw new PegboardError('E_BACKEND_UNAVAILABLE', `The document of the API ${id} is being read again.`)
    const timeoutMs = settings.tools[record.name]?.timeoutMs ?? settings.timeoutMs
    const base = baseOf(id, plan, settings.baseUrl, settings.document)
    const attempt = async () => {
      const draft = await buildRequest(record.path, plan, base, isRecord(input) ? input : {})
      for (const [name, value] of Object.entries(settings.headers)) draft.headers[name.toLowerCase()] = value
      await auth.sign(draft, plan, whole, ctx.signal)
      return await sender.send({
        ...draft,
        method: record.method.toUpperCase(),
        timeoutMs,
        maxBytes: settings.maxResponseBytes,
        signal: ctx.signal,
      })
    }
    let answer = await attempt()
    // It was not done, so it may be asked again whatever it does.
    if (answer.status === 401 && auth.refused()) answer = await attempt()
    return {
      kind: 'mcp',
      result: resultOf(`${id} ${record.name}`, answer, auth.redact, output !== undefined, clock.now()),
    }
  }

  async function refresh(): Promise<void> {
    await looking
    looking ??= look(true).finally(() => {
      looking = undefined
    })
    await looking
  }

  return {
    start(delayMs) {
      const before = lists.get(key)
      if (isKept(before) && before.location === settings.document) {
        kept = before
        state = 'known'
      }
      publish()
      cancel = clock.after(delayMs, () => {
        looking = look(false).finally(() => {
          looking = undefined
        })
      })
    },
    refresh,
    status: () => ({ id, module, state, tools: tools.length, ...(reason === undefined ? {} : { reason }) }),
    problems,
    async stop() {
      stopped = true
      cancel?.()
      await sender.close()
    },
  }
}

/** Whatever was done to the file: what is not this is learnt again. */
const isKept = (list: unknown): list is KeptList =>
  isRecord(list) &&
  list['format'] === 1 &&
  isRecord(list['parts']) &&
  typeof list['checkedAt'] === 'number' &&
  Array.isArray(list['operations']) &&
  list['operations'].every(isOperation)

async function isSame({ parts }: KeptList, read: (location: string) => Promise<string>): Promise<boolean> {
  for (const [location, hash] of Object.entries(parts)) {
    // One that is gone is told when the document is read.
    const text = await read(location).catch(() => undefined)
    if (text === undefined || hashOf(text) !== hash) return false
  }
  return true
}
