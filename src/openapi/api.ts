import type { Catalog, OwnerState } from '../catalog/catalog.ts'
import { createFilter, mayStillCome, namingProblems } from '../catalog/naming.ts'
import type { Clock } from '../core/clock.ts'
import type { CallContext } from '../core/context.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { isRecord } from '../core/record.ts'
import type { ToolResult } from '../core/result.ts'
import type { Tool } from '../core/tool.ts'
import { MAX_UNFOLDED, unfolded } from '../core/unfolded.ts'
import { within } from '../core/within.ts'
import { operationActions } from './actions.ts'
import { adaptOperation, type ToolHost } from './adapt.ts'
import { resultOf } from './answer.ts'
import { type Approval, type KeptOut, seenIn } from './approval.ts'
import { createAuth } from './auth.ts'
import { hashOf, type Json, type Loaded, loadDocument } from './document.ts'
import { isOperation, type ListedOperation, type OperationRecord, operationsOf } from './operations.ts'
import { type ApiSettings, isUrl } from './options.ts'
import { originsOf } from './origins.ts'
import { type Definition, defineOperation } from './plan.ts'
import { fetchText, fileReader, urlReader } from './read.ts'
import { baseOf, buildRequest } from './request.ts'
import { createSender } from './send.ts'
import { isTooLarge, sourceOf } from './source.ts'

/** What is kept of a document between runs, apart from the document itself. */
export interface KeptList {
  readonly format: 2
  readonly location: string
  /** Hashes of the texts it was made of. */
  readonly parts: Readonly<Record<string, string>>
  readonly etag?: string
  /** When it was last found to be so, in milliseconds since 1970. */
  readonly checkedAt: number
  readonly title?: string
  readonly operations: readonly ListedOperation[]
  /** Of the approval of all of them. */
  readonly seal?: string
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
  readonly approval: Approval
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
  /** Something else may be approved now. */
  reviewed(): void
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
/** Others have their turn when operations took so long. */
const SLICE_MS = 20
const NOTHING_KNOWN: Definition = {
  input: { type: 'object' },
  output: undefined,
  examples: [],
  plan: { parameters: [], accept: '*/*', servers: [], security: undefined },
}

export function createApi(id: string, module: string, settings: ApiSettings, shared: ApiShared): Api {
  const { catalog, clock, lists, documents, approval } = shared
  const log = shared.log.scoped(module)
  const key = listKey(settings)
  const origins = originsOf(settings)
  const sender = createSender(id, origins.mayBePrivate, `openapi.${id}.allowPrivate`)
  const auth = createAuth(id, settings.auth, settings.headers, sender.send, clock, origins.mayHaveSecrets)
  const remote = isUrl(settings.document)

  let state: OwnerState = 'connecting'
  let reason: string | undefined
  let kept: KeptList | undefined
  let document: Json | undefined
  /** The document that is kept is not the one of the list. */
  let lost = false
  let held: ReadonlyMap<string, KeptOut> = new Map()
  let tools: readonly Tool[] = []
  let actions: ReadonlyMap<string, string> = new Map()
  let named: ReadonlyMap<string, Tool | undefined> = new Map()
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
    document ??= lost ? undefined : documents.get(key)
    if (!document) readAgain()
    return document
  }

  function readAgain(): void {
    document = undefined
    if (lost) return
    lost = true
    void refresh()
  }

  function define(record: ListedOperation): Definition {
    const whole = known()
    if (!whole) return NOTHING_KNOWN
    try {
      const source = sourceOf(whole, record)
      // Another process may have kept a newer document meanwhile, which nobody has looked at here.
      if (approval.fingerprint(source) !== record.hash) {
        if (kept?.operations.includes(record)) readAgain()
        return { ...NOTHING_KNOWN, unusable: true }
      }
      const made = isTooLarge(source)
        ? undefined
        : within(DEFINE_MS, () => {
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
    if (kept && !lost && (await isSame(kept, read))) return
    await take(await loadDocument(settings.document, read))
  }

  async function lookThere(force: boolean): Promise<void> {
    const fresh = kept !== undefined && clock.now() - kept.checkedAt < DAY_MS
    if (fresh && !force) return
    const fetched = await fetchText(settings.document, sender.send, lost ? undefined : kept?.etag)
    const same = kept && !lost && (fetched === undefined || kept.parts[settings.document] === hashOf(fetched.text))
    if (kept && same) {
      kept = { ...kept, checkedAt: clock.now() }
      lists.set(key, kept)
    } else if (fetched)
      await take(
        await loadDocument(settings.document, urlReader(fetched, settings.document, sender.send)),
        fetched.etag,
      )
  }

  async function take(loaded: Loaded, etag?: string): Promise<void> {
    const operations = await listed(loaded.document)
    if (stopped) return
    const { info } = loaded.document
    document = loaded.document
    lost = false
    kept = {
      format: 2,
      location: settings.document,
      parts: loaded.parts,
      ...(etag === undefined ? {} : { etag }),
      checkedAt: clock.now(),
      ...(isRecord(info) && typeof info['title'] === 'string' ? { title: info['title'].slice(0, 200) } : {}),
      operations,
    }
    documents.set(key, loaded.document)
    admit(loaded.document)
    lists.set(key, kept)
    publish()
  }

  async function listed(whole: Json): Promise<ListedOperation[]> {
    const made: ListedOperation[] = []
    let since = performance.now()
    for (const record of operationsOf(whole)) {
      made.push({ ...record, hash: approval.fingerprint(sourceOf(whole, record)) })
      if (performance.now() - since < SLICE_MS) continue
      await new Promise((resolve) => setImmediate(resolve))
      since = performance.now()
    }
    return made
  }

  // --- who is let in ------------------------------------------------------------------------------------------------

  /**
   * Looks at all that is not approved as it is.
   * @param read the document, where it was read just now
   */
  function admit(read?: Json): void {
    if (!kept) return
    const { operations, seal } = kept
    if (!read && approval.holds(id, seal)) {
      held = new Map()
      return
    }
    const seen = read ? seenIn(operations, () => read) : seenIn(operations, known, approval.fingerprint)
    held = approval.look(id, settings, seen)
    const now = approval.seal(id, operations)
    if (now === undefined || now === seal) return
    kept = { ...kept, seal: now }
    // The next start need not compare them.
    if (!read) lists.set(key, kept)
  }

  function waiting(): { readonly notice?: string } {
    const passes = createFilter(settings)
    const names = [...held].filter(([name, { waits }]) => waits && passes(name))
    return names.length === 0 ? {} : { notice: approval.notice(id, names.length) }
  }

  // --- the catalogue ------------------------------------------------------------------------------------------------

  function publish(): void {
    const operations = kept?.operations ?? []
    const passes = createFilter(settings)
    const passing = operations.filter(({ name }) => passes(name))
    actions = operationActions(
      passing.map(({ name }) => name),
      settings,
      actions,
      (name) => held.has(name),
    )
    const own = new Map<string, Tool | undefined>(operations.map(({ name }) => [name, undefined]))
    // Those kept out have their names all the same, so that no other takes them.
    const made = passing.map((record) => {
      const tool = adaptOperation(record, host, actions.get(record.name) ?? record.name)
      own.set(record.name, tool)
      return { tool, why: held.get(record.name) }
    })
    tools = made.flatMap(({ tool, why }) => (why ? [] : [tool]))
    const withheld = made.flatMap(({ tool, why }) => (why ? [{ tool, ...why }] : []))
    named = own
    const summary = settings.summary ?? (kept?.title ? `The API ${kept.title}` : `API ${id}`)
    catalog.set(
      {
        id: module,
        summary,
        ...(settings.summary === undefined && kept?.title === undefined ? {} : { about: summary }),
        origin: 'upstream',
        state,
        ...waiting(),
        ...(reason === undefined ? {} : { reason }),
      },
      { tools, withheld },
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

  const problems = (): string[] => namingProblems(`openapi.${id}.tools`, id, settings, named, catalog)

  // --- calls --------------------------------------------------------------------------------------------------------

  async function call(
    record: OperationRecord,
    { plan, output, unusable }: Definition,
    input: unknown,
    ctx: CallContext,
  ): Promise<ToolResult> {
    const why = held.get(record.name)
    if (why) throw new PegboardError(why.code, `${module}.${record.name} ${why.reason}.`, { hint: why.hint })
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
      admit()
      publish()
      cancel = clock.after(delayMs, () => {
        looking = look(false).finally(() => {
          looking = undefined
        })
      })
    },
    reviewed() {
      if (stopped || !kept) return
      const before = reasonsOf(held)
      admit()
      if (reasonsOf(held) !== before) publish()
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

/** What the list of an API is kept under, and its document. */
export const listKey = ({ document }: Pick<ApiSettings, 'document'>): string => hashOf(document).slice(0, 32)

const reasonsOf = (held: ReadonlyMap<string, KeptOut>): string =>
  JSON.stringify([...held].map(([name, { code, reason }]) => [name, code, reason]))

/** Whatever was done to the file: what is not this is learnt again. */
export const isKept = (list: unknown): list is KeptList =>
  isRecord(list) &&
  list['format'] === 2 &&
  isRecord(list['parts']) &&
  typeof list['checkedAt'] === 'number' &&
  (list['seal'] === undefined || typeof list['seal'] === 'string') &&
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
