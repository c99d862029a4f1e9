import { statSync } from 'node:fs'
import { resolve, sep } from 'node:path'
import { homeOf, pathFrom } from '../config/machine.ts'
import { systemClock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import { formatCount } from '../core/format-count.ts'
import { redact } from '../core/redact.ts'
import { didYouMean } from '../core/tool-names.ts'
import { type ClientId, clients, type StartCommand } from '../setup/clients.ts'
import { diffOf } from '../setup/edit-diff.ts'
import { applyEdits, readForEdit } from '../setup/file-edits.ts'
import { type FoundClient, type FoundServer, findClients } from '../setup/find-clients.ts'
import { type MergedServer, mergeServers } from '../setup/merge-servers.ts'
import { type MovedSecret, moveSecrets } from '../setup/move-secrets.ts'
import { type InitChoices, type InitPlan, planInit, serversIn } from '../setup/plan-init.ts'
import { findProjectFiles, type ProjectFile } from '../setup/project-files.ts'
import type { SecretStore } from '../state/secret-store.ts'
import { type Args, readOption } from './args.ts'
import { userConfigFile } from './find-config.ts'
import { toTypedCommands } from './invocation.ts'
import { formatTable, type Io, UsageError, writeJson, writeWarning } from './io.ts'
import { machineOf, openSecrets, setupDir } from './machine-of.ts'
import { isYes, openQuestions, parseChoice, type Questions } from './questions.ts'

/** `pegboard init`: imports servers from other clients, and registers Pegboard in them. */
export async function run(args: Args, io: Io): Promise<number> {
  const machine = machineOf(io)
  const configOption = readOption(args, 'config')
  const file = configOption === undefined ? userConfigFile(machine) : pathFrom(io.cwd, configOption, machine)
  const text = await readForEdit(file)
  const [foundClients, projects] = await Promise.all([findClients(machine), findProjectFiles(machine)])
  const namedClients = readNamedClients(args, foundClients)
  const store = await openSecrets(io)
  const storedSecrets = await readStored(store)
  const isJson = args.values['json'] === true
  const isDry = args.values['dry-run'] === true
  const yes = args.values['yes'] === true && !isDry
  const questions = yes || isJson || isDry ? undefined : openQuestions(io)
  try {
    if (!isJson) showFound(foundClients, projects, io)
    const existing = serversIn({ file, text })
    const choices = await choose({
      args,
      io,
      found: foundClients,
      projects,
      named: namedClients,
      existing,
      questions,
      stored: storedSecrets,
    })
    const plan = planInit(foundClients, choices, { file, text }, createStartCommand(io, file), storedSecrets)
    io.onSecrets?.(plan.hidden)
    if (!isJson) io.stdout(diffOf(plan.edits, plan.hidden))
    const isWritten = plan.edits.length > 0 && (yes || (await isConfirmed(plan, questions)))
    const undo = isWritten ? await apply(plan, file, store, io) : undefined
    if (isJson) writeJson(io, createJsonResult({ plan, found: foundClients, projects, choices, file, undo }))
    else printResult({ plan, choices, file, undo, io, hintsAtYes: questions === undefined && !isDry })
    return plan.edits.length === 0 || isWritten || isDry ? 0 : 1
  } finally {
    questions?.close()
  }
}

/** Undefined for a secret in a locked keyring. */
async function readStored(store: SecretStore): Promise<ReadonlyMap<string, string | undefined>> {
  const stored = new Map<string, string | undefined>()
  for (const { name } of await store.list()) stored.set(name, await store.get(name).catch(() => undefined))
  return stored
}

interface NamedClients {
  readonly from: readonly ClientId[] | undefined
  readonly into: readonly ClientId[] | undefined
}

function readNamedClients(args: Args, found: readonly FoundClient[]): NamedClients {
  const knownIds = clients.map(({ id }) => id)
  const read = (option: 'from' | 'into'): readonly ClientId[] | undefined => {
    const names = args.values[option] as readonly string[] | undefined
    if (!names) return undefined
    const ids = names.flatMap((name) => name.split(',')).filter((name) => name !== '' && name !== 'none')
    return ids.map((id) => {
      const foundClient = found.find(({ client }) => client.id === id)
      if (!foundClient)
        throw new UsageError(
          `there is no client "${id}"${didYouMean(id, knownIds, `; clients: ${knownIds.join(', ')}`, 2)}`,
        )
      if (foundClient.problem !== undefined)
        throw new PegboardError('E_EDIT_UNSAFE', `${foundClient.file}: ${foundClient.problem}`)
      return foundClient.client.id
    })
  }
  return { from: read('from'), into: read('into') }
}

/** The command that clients start Pegboard with. A package that npx downloaded has no lasting path. */
function createStartCommand({ self }: Io, file: string): StartCommand {
  const options = ['serve', '--stdio', '--config', file]
  return self.script.includes(`${sep}_npx${sep}`)
    ? { command: 'npx', args: ['-y', 'pegboard', ...options] }
    : { command: self.node, args: [self.script, ...options] }
}

interface ChoiceInputs {
  readonly args: Args
  readonly io: Io
  readonly found: readonly FoundClient[]
  readonly projects: readonly ProjectFile[]
  readonly named: NamedClients
  /** The servers of Pegboard's configuration. */
  readonly existing: Readonly<Record<string, unknown>>
  readonly questions: Questions | undefined
  readonly stored: ReadonlyMap<string, string | undefined>
}

async function choose(inputs: ChoiceInputs): Promise<InitChoices> {
  const { args, io, found, named, existing, questions, stored } = inputs
  const servers = await chooseServers(inputs)
  const folder = await chooseFolder(args, io, questions)
  const usable = found.filter(({ problem }) => problem === undefined)
  const sources = new Set(servers.map(({ client }) => client))
  const likely = usable.filter(
    (foundClient) => sources.has(foundClient.client.id) || (sources.size === 0 && foundClient.isInstalled),
  )
  const into = named.into ?? (await chooseClients(usable, likely, questions))
  const keep = args.values['keep'] === true
  const { secrets } = moveSecrets(mergeServers(servers, existing, stored), stored)
  const move = args.values['plain-secrets'] !== true && (await chooseSecrets(secrets, questions))
  return { servers, into, folder, keep, moveSecrets: move }
}

async function chooseServers(inputs: ChoiceInputs): Promise<readonly FoundServer[]> {
  const { args, io, found, projects, named, existing, questions, stored } = inputs
  const only = args.values['only'] as readonly string[] | undefined
  const withProject = args.values['project'] === true
  const allServers = [...found, ...(withProject || questions ? projects : [])]
    .filter(({ client }) => named.from === undefined || named.from.includes(client.id))
    .flatMap(({ servers }) => servers)
    .filter(({ name }) => only === undefined || only.includes(name))
  const missingName = only?.find((name) => !allServers.some((server) => server.name === name))
  if (missingName !== undefined) {
    const isInProject = projects.some(({ servers }) => servers.some(({ name }) => name === missingName))
    throw new UsageError(
      `no client has a server "${missingName}"${isInProject ? '; add --project to import it from the file of this project' : ''}`,
    )
  }
  // A server of one project would otherwise be there in every project, and others may have written its file.
  const isDefault = ({ project, file }: FoundServer): boolean =>
    file === undefined ? project === undefined || only !== undefined : withProject
  if (!questions) {
    const leftOut = allServers.filter((server) => !isDefault(server))
    if (args.values['json'] !== true) showLeftOut(mergeServers(leftOut, existing, stored), io)
    return allServers.filter(isDefault)
  }
  const merged = mergeServers(allServers, existing, stored)
  if (merged.length === 0) return []
  io.stderr(
    `\nServers\n${formatTable(merged.map((server, index) => [`  ${index + 1}`, server.name, describeStart(server), describePlaces(server)]))}`,
  )
  const fallback = merged.flatMap(({ from }, index) => (from.some(isDefault) ? [index] : []))
  const chosen = await askChoice('Import which servers?', merged.length, fallback, questions)
  // A file of the project adds nothing to a server that a client has too.
  return chosen.flatMap((index) => {
    const from = merged[index]?.from ?? []
    return from.some(isDefault) ? from.filter(isDefault) : from
  })
}

function showLeftOut(merged: readonly MergedServer[], io: Io): void {
  const rows = merged.flatMap((server) => (server.isKnown ? [] : [[`  ${server.name}`, describePlaces(server)]]))
  if (rows.length > 0)
    io.stderr(
      toTypedCommands(
        `Left out, because these servers belong to one project:\n${formatTable(rows)}To import one: pegboard init --only NAME\n`,
        undefined,
        io,
      ),
    )
}

/** How a server is started or reached, without secrets. In full if others may have written it. */
function describeStart({ entry, from }: MergedServer): string {
  const args = Array.isArray(entry['args']) ? entry['args'].map(String) : []
  const words = typeof entry['url'] === 'string' ? [entry['url']] : [String(entry['command']), ...args]
  const { secrets } = moveSecrets([{ name: 'x', entry, from: [], isKnown: false }], new Map())
  const redacted = redact(secrets.reduce((text, { value }) => text.replaceAll(value, '…'), words.join(' ')))
  return redacted.length > 60 && from.every(({ file }) => file === undefined)
    ? `${redacted.slice(0, 20)}…${redacted.slice(-39)}`
    : redacted
}

function describePlaces({ from, isKnown }: MergedServer): string {
  const places = from.map(({ client, project, file }) =>
    project === undefined ? titleOf(client) : `${titleOf(client)} in ${file ?? project}`,
  )
  return [...new Set(places), ...(isKnown ? ['in Pegboard already'] : [])].join(', ')
}

const titleOf = (id: ClientId): string => clients.find((client) => client.id === id)?.title ?? id

async function chooseFolder(args: Args, io: Io, questions: Questions | undefined): Promise<string | undefined> {
  const folderOption = readOption(args, 'folder')
  const machine = machineOf(io)
  for (;;) {
    const answer =
      folderOption ??
      (await questions?.ask('\nFolder that the file tools may read and write? (a path; empty: leave as it is) '))
    if (answer === undefined || answer === '') return undefined
    const folder = pathFrom(io.cwd, answer, machine)
    const problem = findFolderProblem(folder, homeOf(machine), io.env['HOME'])
    if (problem === undefined) return folder
    if (folderOption !== undefined || !questions) throw new UsageError(`--folder ${answer}: ${problem}`)
    io.stderr(`${problem}\n`)
  }
}

/** The home folder holds keys and settings of programs. */
const findFolderProblem = (folder: string, ...homes: readonly (string | undefined)[]): string | undefined =>
  statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true
    ? `there is no folder ${folder}`
    : resolve(folder) === resolve(folder, '/') ||
        homes.some((home) => home !== undefined && resolve(home) === resolve(folder))
      ? 'this folder holds keys and settings of other programs; choose a folder inside it'
      : undefined

async function chooseClients(
  usable: readonly FoundClient[],
  likely: readonly FoundClient[],
  questions: Questions | undefined,
): Promise<readonly ClientId[]> {
  const ids = (list: readonly FoundClient[]): readonly ClientId[] => list.map(({ client }) => client.id)
  if (!questions) return ids(likely)
  const installed = usable.filter((client) => client.isInstalled || likely.includes(client))
  if (installed.length === 0) return []
  const lines = installed.map(({ client, file }, index) => [`  ${index + 1}`, client.title, file])
  const question = `\nClients\n${formatTable(lines)}Register Pegboard in which clients?`
  const fallback = installed.flatMap((client, index) => (likely.includes(client) ? [index] : []))
  const chosen = await askChoice(question, installed.length, fallback, questions)
  return ids(installed.filter((_one, index) => chosen.includes(index)))
}

async function chooseSecrets(secrets: readonly MovedSecret[], questions: Questions | undefined): Promise<boolean> {
  if (!questions || secrets.length === 0) return true
  const names = secrets.map(({ name, server }) => `  ${name} (${server})\n`).join('')
  const answer = await questions.ask(
    `\nThese secrets are written in plain text:\n${names}Move them to the keyring of this system, or a private file if there is none? [Y/n] `,
  )
  return answer !== undefined && !/^n/i.test(answer)
}

async function askChoice(
  question: string,
  count: number,
  fallback: readonly number[],
  questions: Questions,
): Promise<readonly number[]> {
  const defaultText =
    fallback.length === count ? 'all' : fallback.length === 0 ? 'none' : fallback.map((index) => index + 1).join(',')
  for (let prompt = question; ; prompt = 'Which?') {
    const answer = await questions.ask(`${prompt} (such as 1,3-5, all or none; default ${defaultText}) `)
    if (answer === undefined) return []
    const chosen = parseChoice(answer, count, fallback)
    if (chosen) return chosen
  }
}

async function isConfirmed({ edits }: InitPlan, questions: Questions | undefined): Promise<boolean> {
  const answer = await questions?.ask(`\nWrite ${formatCount(edits.length, 'file')}? [y/N] `)
  return isYes(answer)
}

/** @returns the id for `undo` */
async function apply({ edits, secrets }: InitPlan, config: string, store: SecretStore, io: Io): Promise<string> {
  const storedNames: string[] = []
  try {
    for (const { name, value } of secrets) {
      if ((await store.get(name).catch(() => undefined)) === value) continue
      await store.set(name, value)
      storedNames.push(name)
    }
    const options = { stateDir: setupDir(io), clock: systemClock, reason: 'pegboard init', config }
    return (await applyEdits(edits, options)).id
  } catch (error) {
    for (const name of storedNames) await store.delete(name).catch(() => undefined)
    throw error
  }
}

interface InitResult {
  readonly plan: InitPlan
  readonly found: readonly FoundClient[]
  readonly projects: readonly ProjectFile[]
  readonly choices: InitChoices
  readonly file: string
  /** Undefined if nothing was written. */
  readonly undo: string | undefined
}

const createJsonResult = ({ plan, found, projects, choices, file, undo }: InitResult): unknown => ({
  applied: undo !== undefined,
  ...(undo === undefined ? {} : { undo }),
  config: file,
  clients: found.map(({ client, file: path, isInstalled, servers, skipped, problem, own }) => ({
    ...{ id: client.id, title: client.title, file: path, installed: isInstalled },
    ...{ servers: servers.map(({ name, project }) => ({ name, ...(project === undefined ? {} : { project }) })) },
    ...{ registered: own.length > 0 || (undo !== undefined && choices.into.includes(client.id)) },
    ...{ skipped, ...(problem === undefined ? {} : { problem }) },
  })),
  projects: projects.map(({ client, file: path, servers, skipped, problem }) => ({
    ...{ client: client.id, file: path, servers: servers.map(({ name }) => ({ name })) },
    ...{ skipped, ...(problem === undefined ? {} : { problem }) },
  })),
  servers: plan.servers.map(({ name, from, isKnown }) => ({
    ...{ name, new: !isKnown, from: from.map(({ client, name: theirs }) => ({ client, name: theirs })) },
  })),
  secrets: plan.secrets.map(({ name, server }) => ({ name, server })),
  missing_secrets: plan.wanted,
  files: plan.edits.map(({ path }) => path),
  ...(undo === undefined ? { diff: diffOf(plan.edits, plan.hidden) } : {}),
})

function showFound(found: readonly FoundClient[], projects: readonly ProjectFile[], io: Io): void {
  const installed = found.filter(({ isInstalled }) => isInstalled)
  const rows = installed.map((one) => [
    ...[`  ${one.client.title}`, describeFile(one), one.own.length > 0 ? 'has Pegboard' : '', one.file],
  ])
  if (rows.length === 0) io.stderr('No MCP client was found on this machine.\n')
  else io.stderr(`MCP clients on this machine\n${formatTable(rows)}`)
  if (projects.length > 0)
    io.stderr(
      `Files of this project, whose servers are imported only if you choose them\n${formatTable(
        projects.map(({ client, servers, file }) => [`  ${client.title}`, formatCount(servers.length, 'server'), file]),
      )}`,
    )
  for (const { file, problem, skipped } of [...found, ...projects]) {
    if (problem !== undefined) writeWarning(io, `${file} is left out: ${problem}`)
    for (const reason of skipped) writeWarning(io, reason)
  }
}

function describeFile({ text, servers, problem }: FoundClient): string {
  if (problem !== undefined) return 'left out'
  return text === undefined ? 'no file' : formatCount(servers.length, 'server')
}

function printResult(result: Omit<InitResult, 'found' | 'projects'> & { io: Io; hintsAtYes: boolean }): void {
  const { plan, choices, file, undo, io, hintsAtYes } = result
  const toTyped = (text: string): string => toTypedCommands(text, undefined, io)
  if (plan.edits.length === 0) {
    io.stdout('Nothing to change.\n')
    return
  }
  if (undo === undefined) {
    io.stderr(`pegboard: nothing was written${hintsAtYes ? '; to write it, add --yes' : ''}\n`)
    return
  }
  const newServers = plan.servers.filter(({ isKnown }) => !isKnown)
  io.stdout(`\n${formatCount(newServers.length, 'server')} imported into ${file}.\n`)
  for (const { name, from } of newServers)
    if (from.every((entry) => entry.name !== name))
      io.stdout(
        `  ${from[0]?.name} of ${titleOf(from[0]?.client ?? 'cursor')} is called ${name}, because another server has its name.\n`,
      )
  if (plan.secrets.length > 0) io.stdout(`Secrets stored: ${plan.secrets.map(({ name }) => name).join(', ')}.\n`)
  if (choices.into.length > 0) io.stdout(`Restart ${choices.into.map(titleOf).join(', ')} to use Pegboard.\n`)
  for (const name of plan.wanted) io.stdout(toTyped(`A server needs the secret ${name}: pegboard secret set ${name}\n`))
  io.stdout(
    toTyped(
      `To see the tools: pegboard list tools\nTo check that every server works: pegboard doctor\nTo take everything back: pegboard undo ${undo}\n`,
    ),
  )
}
