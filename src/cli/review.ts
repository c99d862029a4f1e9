import { join } from 'node:path'
import { createFilter } from '../catalog/naming.ts'
import type { Config } from '../config/load-config.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { once } from '../core/once.ts'
import { quoteWord } from '../core/quote-word.ts'
import { findNearest } from '../core/tool-names.ts'
import { META_NAMES } from '../meta/surface.ts'
import { isKept, type KeptList, listKey } from '../openapi/api.ts'
import { seenIn } from '../openapi/api-approval.ts'
import type { Json } from '../openapi/api-document.ts'
import { moduleOf } from '../openapi/apis.ts'
import { lockName } from '../openapi/lock-name.ts'
import { createBytesStore, createFileStore } from '../state/file-store.ts'
import { assess, type Held, type ListedDefinition, type Mode, type OtherTools } from '../trust/assess-tools.ts'
import { type Change, changesBetween, linesOfNew } from '../trust/definition-diff.ts'
import type { Finding } from '../trust/finding.ts'
import { fingerprint } from '../trust/fingerprint.ts'
import { escapedLine as line } from '../trust/hidden-text.ts'
import { createLock, type Lock, lockFile } from '../trust/lock-file.ts'
import { mergeOtherTools, otherToolsOf } from '../trust/other-tools.ts'
import { type Kept, keepDefinitions, keptKey } from '../trust/trust.ts'
import { decodeManifest, manifestKey } from '../upstream/manifest.ts'
import { type Args, readOption } from './args.ts'
import { toTypedCommands } from './invocation.ts'
import { formatCount, type Io, UsageError, writeJson } from './io.ts'
import { openConfig, openLog } from './open-app.ts'

/** A tool that waits for approval. */
interface Waiting {
  readonly name: string
  /** `first`: it will be approved when its server is next used. */
  readonly state: Held['why'] | 'first'
  readonly findings: readonly Finding[]
  readonly changes: readonly Change[]
  /** The approved definition is not stored on this machine. */
  readonly unknownBefore: boolean
}

interface Server {
  /** For an API `openapi.<id>`, as in the lock file. */
  readonly id: string
  readonly trust: Mode
  /** The tools were read on this machine before. */
  readonly seen: boolean
  readonly waiting: readonly Waiting[]
  /** Rejected in a review until they change. */
  readonly rejected: readonly string[]
  /** In the lock file, but no longer offered. */
  readonly gone: readonly string[]
}

interface Desk {
  readonly config: Config
  readonly file: string
  readonly lock: Lock
  readonly kept: ReturnType<typeof createFileStore<Kept>>
  /** Fingerprints by tool of what a person was shown and has not decided about. */
  readonly shown: ReturnType<typeof createFileStore<Readonly<Record<string, string>>>>
  /** Servers, then APIs. */
  readonly entries: ReadonlyMap<string, Entry>
}

/** A server or API to review. */
interface Entry {
  readonly settings: Parameters<typeof createFilter>[0] & { readonly trust: Mode }
  /** Its category, which commands accept too. */
  readonly module: string
  /** The tools as read last; undefined if they never were. */
  readonly tools: readonly ListedDefinition[] | undefined
}

/** `pegboard review`: reviews the tools stored on disk. Starts no server. */
export async function run(args: Args, io: Io): Promise<number> {
  const [wanted, ...names] = args.positionals
  const { accept, reject, frozen } = args.values
  if ((accept === true && reject === true) || (frozen === true && (accept === true || reject === true)))
    throw new UsageError('choose one of --accept, --reject and --frozen')
  if (reject === true && names.length === 0) throw new UsageError('--reject needs a server and the tools to reject')
  const { config } = await openConfig(args, io)
  const file = lockFile(config.file)
  if (file === undefined) throw new UsageError('review needs a configuration: --config FILE')
  const desk = open(config, file, args, io)
  if (desk.lock.broken !== undefined)
    throw new PegboardError('E_CONFIG_SYNTAX', `${desk.lock.broken}.`, {
      hint: 'Repair it, or take it from version control; deleting it means approving everything again.',
    })
  const servers = serversOf(desk, wanted)
  if (accept === true || reject === true) return await decide(desk, servers, names, accept === true, args, io)
  const shown = names.length === 0 ? servers : servers.map((server) => selectTools(server, names))
  const out = wanted === undefined ? config.skipped.filter(({ self }) => self !== true) : []
  const waits = shown.some(({ seen, waiting }) => !seen || waiting.length > 0)
  // A server that was left out cannot be compared.
  const differs = waits || (frozen === true && out.length > 0)
  if (args.values['json'] === true)
    writeJson(io, { ok: !differs, servers: shown, ...(out.length === 0 ? {} : { left_out: out }) })
  else io.stdout(toTypedCommands(reportText(shown, out), readOption(args, 'config'), io))
  for (const { id, waiting } of shown) rememberShown(desk, id, waiting, names.length > 0)
  return frozen === true && differs ? 1 : 0
}

function open(config: Config, file: string, args: Args, io: Io): Desk {
  const log = openLog(args, io, 'warn')
  const failed = (error: unknown): void => log.warn('cannot store a file', { error: messageOf(error) })
  const manifests = createBytesStore(join(config.dirs.state, 'manifests'), failed)
  const toolsOf = (settings: Config['servers'][string]): readonly ListedDefinition[] | undefined => {
    try {
      const bytes = manifests.get(manifestKey(settings))
      return bytes && decodeManifest(bytes)?.tools
    } catch (error) {
      failed(error)
      return undefined
    }
  }
  const lists = createFileStore<KeptList>(join(config.dirs.state, 'openapi', 'lists'), failed)
  const documents = createFileStore<Json>(join(config.dirs.state, 'openapi', 'documents'), failed)
  const operationsOf = (settings: Config['openapi'][string]): readonly ListedDefinition[] | undefined => {
    const key = listKey(settings)
    const list = lists.get(key)
    const document = once(() => documents.get(key))
    return isKept(list) && list.location === settings.document && document()
      ? seenIn(list.operations, document, fingerprint)
      : undefined
  }
  const entries = [
    ...Object.entries(config.servers).map(([id, settings]) => ({
      id,
      settings,
      module: `mcp_${id}`,
      tools: () => toolsOf(settings),
    })),
    ...Object.entries(config.openapi).map(([id, settings]) => ({
      id: lockName(id),
      settings,
      module: moduleOf(id),
      tools: () => operationsOf(settings),
    })),
  ]
    .filter(({ settings }) => settings.enabled)
    .map(({ id, settings, module, tools }) => [id, { settings, module, tools: tools() }] as const)
  return {
    config,
    file,
    lock: createLock({ file, log }),
    kept: createFileStore<Kept>(join(config.dirs.state, 'trust'), failed),
    shown: createFileStore(join(config.dirs.state, 'trust'), failed),
    entries: new Map(entries),
  }
}

function serversOf(desk: Desk, wanted: string | undefined): Server[] {
  const ids = [...desk.entries.keys()]
  if (wanted === undefined) return [...desk.entries].map(([id, entry]) => serverOf(desk, id, entry))
  const named = (spelled: (id: string, entry: Entry) => readonly string[]) =>
    [...desk.entries].find(([id, entry]) => spelled(id, entry).includes(wanted))
  // A server and an API may have the same name.
  const found =
    named((id) => [id]) ?? named((_id, { module }) => [module]) ?? named((id) => [id.replace(/^openapi\./, '')])
  if (found) return [serverOf(desk, ...found)]
  const [near] = findNearest(wanted, ids)
  const there = ids.length > 0 ? `; there is ${ids.join(', ')}` : '; none is configured'
  throw new UsageError(`there is no server "${wanted}"${near ? `; did you mean "${near}"?` : there}`)
}

function serverOf(desk: Desk, id: string, { settings, tools }: Entry): Server {
  const pins = desk.lock.pins(id)
  const gone = tools ? [...(pins?.keys() ?? [])].filter((name) => !tools.some((tool) => tool.name === name)) : []
  if (!tools) return { id, trust: settings.trust, seen: false, waiting: [], rejected: [], gone }
  const { withheld, newlyApproved } = assess(
    {
      server: id,
      mode: settings.trust,
      tools,
      otherTools: othersThan(desk, id),
      reserved: new Set(META_NAMES),
    },
    { pins, broken: false, frozen: false },
  )
  const passes = createFilter(settings)
  const before = desk.kept.get(keptKey(desk.file, id)) ?? {}
  const first = new Set(newlyApproved.map(({ name }) => name))
  const isRejected = ({ name }: ListedDefinition): boolean => withheld.get(name)?.why === 'rejected'
  const waiting = tools
    .filter((tool) => passes(tool.name) && (first.has(tool.name) || (withheld.has(tool.name) && !isRejected(tool))))
    .map((tool) => waitingTool(tool, withheld.get(tool.name), pins?.get(tool.name), before))
  const rejected = tools.filter((tool) => passes(tool.name) && isRejected(tool)).map(({ name }) => name)
  return { id, trust: settings.trust, seen: true, waiting, rejected, gone }
}

function waitingTool(tool: ListedDefinition, held: Held | undefined, pin: string | undefined, before: Kept): Waiting {
  const now = JSON.parse(tool.text || '{}') as Record<string, unknown>
  const known = Object.hasOwn(before, tool.name) ? before[tool.name] : undefined
  const old = known !== undefined && known.hash === pin ? known.definition : undefined
  return {
    name: tool.name,
    state: held?.why ?? 'first',
    findings: held?.findings ?? [],
    changes: old ? changesBetween(old, now) : linesOfNew(now),
    unknownBefore: held?.why === 'changed' && old === undefined,
  }
}

const othersThan = (desk: Desk, id: string): OtherTools =>
  mergeOtherTools(() =>
    [...desk.entries].flatMap(([one, { module, tools }]) => {
      const other = one.replace(/^openapi\./, '')
      return one === id || !tools
        ? []
        : [
            otherToolsOf(() =>
              tools.map(({ name, text }) => ({
                name,
                get description() {
                  return descriptionIn(text)
                },
                spellings: () => [
                  name,
                  ...[`${other}.${name}`, `${module}.${name}`, `${other}__${name}`, `${other}:${name}`],
                ],
              })),
            ),
          ]
    }),
  )

/** The description in a definition; empty if the JSON cannot be parsed. */
function descriptionIn(text: string): string {
  try {
    const { description } = JSON.parse(text) as { description?: unknown }
    return typeof description === 'string' ? description : ''
  } catch {
    return ''
  }
}

const selectTools = (server: Server, names: readonly string[]): Server => ({
  ...server,
  waiting: server.waiting.filter(({ name }) => names.includes(name)),
  rejected: server.rejected.filter((name) => names.includes(name)),
})

const shownKey = (desk: Desk, id: string): string => `shown-${keptKey(desk.file, id)}`

function rememberShown(desk: Desk, id: string, waiting: readonly Waiting[], isPart: boolean): void {
  const key = shownKey(desk, id)
  const before = desk.shown.get(key)
  if (waiting.length === 0 && before === undefined) return
  const tools = desk.entries.get(id)?.tools ?? []
  const now = tools.filter(({ name }) => waiting.some((one) => one.name === name)).map(({ name, hash }) => [name, hash])
  desk.shown.set(key, { ...(isPart ? before : {}), ...Object.fromEntries(now) })
}

function forgetShown(desk: Desk, id: string, decided: readonly string[]): void {
  const shown = desk.shown.get(shownKey(desk, id))
  if (shown === undefined) return
  const left = Object.entries(shown).filter(([name]) => !decided.includes(name))
  desk.shown.set(shownKey(desk, id), Object.fromEntries(left))
}

/** A server may change a tool between the look of a person and the decision. @throws UsageError */
function assertShown(desk: Desk, id: string, chosen: readonly ListedDefinition[], waiting: readonly Waiting[]): void {
  const shown = desk.shown.get(shownKey(desk, id)) ?? {}
  if (Object.keys(shown).length === 0) return
  const other = chosen.find(({ name, hash }) => waiting.some((one) => one.name === name) && shown[name] !== hash)
  if (other)
    throw new UsageError(
      `${id}: ${JSON.stringify(other.name)} changed after you reviewed it; review it again: pegboard review ${quoteWord(id)}`,
    )
}

/** Writes the decision to the lock file. A running server notices. */
async function decide(
  desk: Desk,
  servers: readonly Server[],
  names: readonly string[],
  accepted: boolean,
  args: Args,
  io: Io,
): Promise<number> {
  const done: { server: string; tools: readonly string[] }[] = []
  for (const { id, seen, waiting, gone } of servers) {
    if (!seen) continue
    const offered = desk.entries.get(id)?.tools ?? []
    for (const name of names)
      if (!offered.some((tool) => tool.name === name))
        throw new UsageError(`${id} has no tool ${JSON.stringify(name)}${didYouMean(name, offered)}`)
    const chosen = offered.filter(({ name }) =>
      names.length > 0 ? names.includes(name) : waiting.some((one) => one.name === name),
    )
    const unread = accepted && chosen.find((tool) => tool.text === '')
    if (unread)
      throw new UsageError(
        `the definition of ${JSON.stringify(unread.name)} of ${id} is not stored; pegboard check reads it again`,
      )
    if (accepted) assertShown(desk, id, chosen, waiting)
    if (chosen.length === 0 && gone.length === 0) continue
    const all = names.length === 0
    desk.lock.change((lock) => {
      const pins = lock.get(id) ?? new Map<string, string>()
      for (const { name, hash } of chosen) pins.set(name, accepted ? hash : `rejected ${hash}`)
      if (all) for (const name of gone) pins.delete(name)
      lock.set(id, pins)
    })
    if (accepted) keepDefinitions(desk.kept, desk.file, id, chosen)
    done.push({ server: id, tools: chosen.map(({ name }) => name) })
  }
  await desk.lock.flush()
  if (desk.lock.unsaved !== undefined) {
    io.stderr(`pegboard: nothing was changed: ${desk.lock.unsaved}\n`)
    return 1
  }
  for (const { server, tools } of done) forgetShown(desk, server, tools)
  if (args.values['json'] === true) writeJson(io, { ok: true, [accepted ? 'accepted' : 'rejected']: done })
  else if (done.length === 0) io.stdout('No tools to review.\n')
  else
    for (const { server, tools } of done)
      io.stdout(`${server}: ${accepted ? 'approved' : 'rejected'}: ${tools.map(line).join(', ') || 'nothing new'}\n`)
  return 0
}

function didYouMean(name: string, tools: readonly ListedDefinition[]): string {
  const [near] = findNearest(
    name,
    tools.map((tool) => tool.name),
  )
  return near ? `; did you mean "${near}"?` : ''
}

const STATES: Readonly<Record<Waiting['state'], string>> = {
  changed: 'changed since it was approved',
  new: 'new',
  flagged: 'blocked by a check',
  rejected: 'rejected',
  unreadable: 'the lock file is damaged',
  first: 'approved when its server is next used',
}

function reportText(servers: readonly Server[], out: Config['skipped']): string {
  if (servers.length + out.length === 0) return 'No servers are configured.\n'
  const waiting = servers.filter((server) => server.waiting.length > 0)
  const how = waiting.length === 0 ? '' : `\n${howToDecide(waiting.map(({ id }) => id))}`
  const texts = [...servers.map(serverText), ...out.map(({ id, reason }) => `${id}: left out: ${reason}\n`)]
  return `${texts.join('\n')}${how}`
}

function howToDecide([id = '', ...more]: readonly string[]): string {
  const name = more.length > 0 ? 'SERVER' : quoteWord(id)
  return [
    `Approve all tools${more.length > 0 ? ' of a server' : ''}:  pegboard review ${name} --accept\n`,
    'To decide about single tools, name them after the server. --reject instead of --accept rejects them.\n',
  ].join('')
}

function serverText({ id, trust, seen, waiting, rejected, gone }: Server): string {
  const head = `${id} (trust: ${trust}): `
  if (!seen)
    return `${head}its tools were never read on this machine. To read them, or to see why that fails: pegboard check\n`
  const left = [
    ...(rejected.length > 0
      ? [
          `  rejected: ${rejected.map(line).join(', ')}\n`,
          `    to approve:  pegboard review ${quoteWord(id)} ${rejected.length === 1 ? line(quoteWord(rejected[0] ?? '')) : 'TOOL'} --accept\n`,
        ]
      : []),
    ...(gone.length > 0 ? [`  no longer offered: ${gone.map(line).join(', ')}\n`] : []),
  ].join('')
  if (waiting.length === 0) return `${head}no tools to review\n${left}`
  return [`${head}${formatCount(waiting.length, 'tool')} to review\n`, ...waiting.map(waitingText), left].join('')
}

function waitingText({ name, state, findings, changes, unknownBefore }: Waiting): string {
  const lines = [
    `\n  ${line(name)}: ${STATES[state]}`,
    ...findings.map(({ code, level, where, what, evidence }) =>
      [
        `    ! ${code}${level === 'note' ? ' (to know)' : ''}: ${line(`${where} ${what}`)}`,
        `      ${line(evidence)}`,
      ].join('\n'),
    ),
    ...(unknownBefore ? ['    the approved definition is not stored on this machine; this is the current one:'] : []),
    ...cut(changes.flatMap((change) => changeText(change, state === 'changed' && !unknownBefore))),
  ]
  return `${lines.join('\n')}\n`
}

/** @param signed marks what was removed and what was added */
function changeText({ field, lines }: Change, signed: boolean): string[] {
  const [first = '', second = ''] = lines
  const [was, is] = [first.slice(2), second.slice(2)]
  if (lines.length === 1) return [`    ${signed || first.startsWith('-') ? first.slice(0, 2) : ''}${field}: ${was}`]
  const both = `    ${field}: ${was} → ${is}`
  const fits = lines.length === 2 && first.startsWith('-') && second.startsWith('+') && both.length <= 110
  return fits && !`${was}${is}`.includes('→') ? [both] : [`    ${field}`, ...lines.map((line) => `      ${line}`)]
}

/** Cuts long schemas for the terminal; --json shows all. */
const cut = (lines: readonly string[]): readonly string[] =>
  lines.length <= 60 ? lines : [...lines.slice(0, 60), `    … ${lines.length - 60} more lines; see --json`]
