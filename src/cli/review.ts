import {
  decide,
  openReviewDesk,
  type ReviewDesk,
  ReviewError,
  type ReviewedServer,
  rememberShown,
  selectTools,
  serversOf,
  type WaitingTool,
} from '../app/review-desk.ts'
import type { Config } from '../config/load-config.ts'
import { PegboardError } from '../core/errors.ts'
import { formatCount } from '../core/format-count.ts'
import { groupBy } from '../core/group-by.ts'
import { quoteWord } from '../core/quote-word.ts'
import type { Change } from '../trust/definition-diff.ts'
import { escapeLine as line } from '../trust/find-hidden-text.ts'
import { lockFile } from '../trust/lock-file.ts'
import { type Args, writeAnswer } from './args.ts'
import { withTypedCommands } from './invocation.ts'
import { type Io, UsageError, writeJson } from './io.ts'
import { openConfig, openLog } from './open-app.ts'

/** `pegboard review`: reviews the tools stored on disk. Starts no server. */
export async function run(args: Args, io: Io): Promise<number> {
  const [serverName, ...names] = args.positionals
  const { accept, reject, frozen } = args.values
  if ((accept === true && reject === true) || (frozen === true && (accept === true || reject === true)))
    throw new UsageError('choose one of --accept, --reject and --frozen')
  if (reject === true && names.length === 0) throw new UsageError('--reject needs a server and the tools to reject')
  const { config } = await openConfig(args, io)
  const file = lockFile(config.file)
  if (file === undefined)
    throw new UsageError(
      'review needs a configuration file; name one with --config FILE, or create one with pegboard init',
    )
  const desk = openReviewDesk(config, file, openLog(args, io, 'warn', config.log.format))
  if (desk.lock.broken !== undefined)
    throw new PegboardError('E_CONFIG_SYNTAX', `${desk.lock.broken}.`, {
      hint: 'Repair it, or take it from version control; deleting it means approving everything again.',
    })
  const servers = await withUsageErrors(() => serversOf(desk, serverName))
  if (accept === true || reject === true) return await decideTools(desk, servers, names, accept === true, args, io)
  const shownServers = names.length === 0 ? servers : servers.map((server) => selectTools(server, names))
  const skipped = serverName === undefined ? config.skipped.filter(({ self }) => self !== true) : []
  const hasWaiting = shownServers.some(({ seen, waiting }) => !seen || waiting.length > 0)
  // A server that was left out cannot be compared.
  const differs = hasWaiting || (frozen === true && skipped.length > 0)
  const answer = { ok: !differs, servers: shownServers, ...(skipped.length === 0 ? {} : { left_out: skipped }) }
  writeAnswer(args, io, answer, withTypedCommands(formatReport(shownServers, skipped), args, io))
  for (const { id, waiting } of shownServers) rememberShown(desk, id, waiting, names.length > 0)
  return frozen === true && differs ? 1 : 0
}

async function decideTools(
  desk: ReviewDesk,
  servers: readonly ReviewedServer[],
  names: readonly string[],
  isAccepted: boolean,
  args: Args,
  io: Io,
): Promise<number> {
  const decided = await withUsageErrors(() => decide(desk, servers, names, isAccepted))
  if (desk.lock.unsaved !== undefined) {
    io.stderr(`pegboard: nothing was changed: ${desk.lock.unsaved}\n`)
    return 1
  }
  if (args.values['json'] === true) writeJson(io, { ok: true, [isAccepted ? 'accepted' : 'rejected']: decided })
  else if (decided.length === 0) io.stdout('No tools to review.\n')
  else
    for (const { server, tools } of decided)
      io.stdout(`${server}: ${isAccepted ? 'approved' : 'rejected'}: ${tools.map(line).join(', ') || 'nothing new'}\n`)
  return 0
}

/** A wrong name is a wrong command line. Everything else is a failure. */
async function withUsageErrors<T>(work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof ReviewError)) throw error
    const { code, message } = error
    // The message says what to do.
    throw code === undefined ? new UsageError(message) : new PegboardError(code, message, { hint: '' })
  }
}

const STATES: Readonly<Record<WaitingTool['state'], string>> = {
  changed: 'changed since it was approved',
  new: 'new',
  flagged: 'blocked by a check',
  rejected: 'rejected',
  ambiguous: 'listed twice with different definitions; calls use the first, which is this one',
  unreadable: 'its stored definition cannot be read; pegboard check reads it again',
  first: 'approved when its server is next used',
}

function formatReport(servers: readonly ReviewedServer[], skipped: Config['skipped']): string {
  if (servers.length + skipped.length === 0) return 'No servers are configured.\n'
  const waiting = servers.filter((server) => server.waiting.length > 0)
  const instructions = waiting.length === 0 ? '' : `\n${describeNextStep(waiting.map(({ id }) => id))}`
  const [quiet, others] = [servers.filter(isQuiet), servers.filter((server) => !isQuiet(server))]
  const texts = [
    ...others.map(formatServer),
    ...[...groupBy(quiet, ({ trust }) => trust)].map(
      ([trust, group]) => `${group.map(({ id }) => id).join(', ')} (trust: ${trust}): no tools to review\n`,
    ),
    ...skipped.map(({ id, reason }) => `${id}: left out: ${reason}\n`),
  ]
  return `${texts.join('\n')}${instructions}`
}

/** True for a server about which there is nothing to say. */
const isQuiet = ({ seen, waiting, rejected, gone }: ReviewedServer): boolean =>
  seen && waiting.length + rejected.length + gone.length === 0

function describeNextStep([id = '', ...more]: readonly string[]): string {
  const name = more.length > 0 ? 'SERVER' : quoteWord(id)
  return [
    `Approve all tools${more.length > 0 ? ' of a server' : ''}:  pegboard review ${name} --accept\n`,
    'To decide about single tools, name them after the server. --reject instead of --accept rejects them.\n',
  ].join('')
}

function formatServer({ id, trust, seen, waiting, rejected, gone }: ReviewedServer): string {
  const head = `${id} (trust: ${trust}): `
  if (!seen)
    return `${head}its tools were never read on this machine. To read them, or to see why that fails: pegboard check\n`
  const otherLines = [
    ...(rejected.length > 0
      ? [
          `  rejected: ${rejected.map(line).join(', ')}\n`,
          `    to approve:  pegboard review ${quoteWord(id)} ${rejected.length === 1 ? line(quoteWord(rejected[0] ?? '')) : 'TOOL'} --accept\n`,
        ]
      : []),
    ...(gone.length > 0 ? [`  no longer offered: ${gone.map(line).join(', ')}\n`] : []),
  ].join('')
  if (waiting.length === 0) return `${head}no tools to review\n${otherLines}`
  return [
    `${head}${formatCount(waiting.length, 'tool')} to review\n`,
    ...waiting.map(formatWaitingTool),
    otherLines,
  ].join('')
}

function formatWaitingTool({ name, state, findings, changes, unknownBefore }: WaitingTool): string {
  const lines = [
    `\n  ${line(name)}: ${STATES[state]}`,
    ...findings.flatMap(({ code, level, where, what, evidence }) => [
      `    ! ${code}${level === 'note' ? ' (to know)' : ''}: ${line(`${where} ${what}`)}`,
      `      ${line(evidence)}`,
    ]),
    ...(unknownBefore ? ['    the approved definition is not stored on this machine; this is the current one:'] : []),
    ...limitLines(changes.flatMap((change) => formatChange(change, state === 'changed' && !unknownBefore))),
  ]
  return `${lines.join('\n')}\n`
}

/** @param showsSigns marks what was removed and what was added */
function formatChange({ field, lines }: Change, showsSigns: boolean): string[] {
  const [first = '', second = ''] = lines
  const [oldText, newText] = [first.slice(2), second.slice(2)]
  if (lines.length === 1)
    return [`    ${showsSigns || first.startsWith('-') ? first.slice(0, 2) : ''}${field}: ${oldText}`]
  const combined = `    ${field}: ${oldText} → ${newText}`
  const fits = lines.length === 2 && first.startsWith('-') && second.startsWith('+') && combined.length <= 110
  return fits && !`${oldText}${newText}`.includes('→')
    ? [combined]
    : [`    ${field}`, ...lines.map((line) => `      ${line}`)]
}

/** Cuts long schemas for the terminal; --json shows all. */
const limitLines = (lines: readonly string[]): readonly string[] =>
  lines.length <= 60 ? lines : [...lines.slice(0, 60), `    … ${lines.length - 60} more lines; see --json`]
