import { stat } from 'node:fs/promises'
import { basename, posix, win32 } from 'node:path'
import type { Machine } from '../config/machine.ts'
import { describeNameProblem } from '../config/server-names.ts'
import { isPegboardError, messageOf } from '../core/errors.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { mapTexts } from '../core/map-texts.ts'
import {
  type Client,
  type ClientId,
  clients,
  type SettingsFolders,
  settingsFolders,
  toPegboardVariables,
} from './clients.ts'
import { parseForEdit } from './edit-json.ts'
import { parseToml } from './edit-toml.ts'
import { parseYaml } from './edit-yaml.ts'
import { readForEdit } from './file-edits.ts'
import { valueAt } from './server-entries.ts'

/** A server in the configuration of a client. */
export interface FoundServer {
  readonly client: ClientId
  readonly name: string
  /** In the format of Pegboard. */
  readonly entry: Json
  /** Where the client has it. */
  readonly path: readonly string[]
  /** The folder that the client uses it in; undefined: everywhere. */
  readonly project?: string
  /** The file of that folder; undefined: the client's own file. */
  readonly file?: string
}

export interface FoundClient {
  readonly client: Client
  readonly file: string
  /** Undefined without a file. */
  readonly text: string | undefined
  /** The parsed text. */
  readonly root: unknown
  /** True if the client seems to be installed: its file or its folder exists. */
  readonly isInstalled: boolean
  readonly servers: readonly FoundServer[]
  /** Where the client starts Pegboard already. */
  readonly own: ReadonlyArray<readonly string[]>
  /** Entries that cannot be imported, as sentences. They name keys, never values. */
  readonly skipped: readonly string[]
  /** Why the file cannot be used. */
  readonly problem?: string
}

const MAX_SERVERS = 1_000
const MAX_ENTRY_CHARS = 64 * 1024
const MAX_NAME_CHARS = 128

/** Reads the configurations of all clients. A file that cannot be used is reported and does not affect the others. */
export async function findClients(machine: Machine): Promise<readonly FoundClient[]> {
  const folders = settingsFolders(machine)
  return Promise.all(clients.map((client) => findClient(client, folders, machine)))
}

async function findClient(client: Client, folders: SettingsFolders, machine: Machine): Promise<FoundClient> {
  const [first = '', ...others] = client.files(folders)
  let file = first
  const nothing = { root: undefined, servers: [], own: [], skipped: [] }
  try {
    let text = await readForEdit(file)
    for (const other of others) {
      if (text !== undefined) break
      text = await readForEdit(other)
      if (text !== undefined) file = other
    }
    const isInstalled = text !== undefined || (await hasOwnFolder(file, folders))
    if (text === undefined) return { client, file, text, isInstalled, ...nothing }
    const root = parseClientFile(client, text)
    return { client, file, text, root, isInstalled, ...readServers(client, root, machine) }
  } catch (error) {
    const problem = isPegboardError(error) ? error.message : messageOf(error)
    return { client, file, text: undefined, isInstalled: true, ...nothing, problem }
  }
}

function parseClientFile(client: Pick<Client, 'format'>, text: string): unknown {
  if (client.format === 'toml') return parseToml(text)
  if (client.format === 'yaml') return parseYaml(text)
  return text.trim() === '' ? {} : parseForEdit(text)
}

/** The home folder always exists, so it says nothing. */
async function hasOwnFolder(file: string, { home, platform }: SettingsFolders): Promise<boolean> {
  const folder = (platform === 'win32' ? win32 : posix).dirname(file)
  const facts = folder === home ? undefined : await stat(folder).catch(() => undefined)
  return facts?.isDirectory() === true
}

export function readServers(
  client: Client,
  root: unknown,
  machine: Machine,
): Pick<FoundClient, 'servers' | 'own' | 'skipped'> {
  const servers: FoundServer[] = []
  const own: Array<readonly string[]> = []
  const skipped: string[] = []
  for (const { path, raw, project } of entriesOf(client, root)) {
    const name = path.at(-1) as string
    if (isPegboard(name, raw, machine)) {
      if (project === undefined) own.push(path)
      continue
    }
    const read = readEntry(client, name, raw)
    if (typeof read === 'string') skipped.push(read)
    else if (read) {
      const cwd = project !== undefined && read['command'] !== undefined ? { cwd: project } : {}
      servers.push({
        ...{ client: client.id, name, path, entry: { ...cwd, ...read } },
        ...(project === undefined ? {} : { project }),
      })
    }
  }
  return { servers, own, skipped }
}

interface ClientEntry {
  /** Where the client has it. The last step is its name. */
  readonly path: readonly string[]
  readonly raw: unknown
  readonly project?: string
}

/** First the entries that apply in every folder, then those that apply in one project. */
function* entriesOf(client: Client, root: unknown): Generator<ClientEntry> {
  const path = client.serversAt(root)
  yield* entriesIn(valueAt(root, path), { path })
  for (const [project, block] of client.projects?.(root) ?? [])
    yield* entriesIn(block, { path: ['projects', project, 'mcpServers'], project })
}

const entriesIn = (block: unknown, place: Omit<ClientEntry, 'raw'>): readonly ClientEntry[] =>
  Object.entries(asRecord(block))
    .slice(0, MAX_SERVERS)
    .map(([name, raw]) => ({ ...place, path: [...place.path, name], raw }))

/** The entry; undefined if it is no MCP server; otherwise why it cannot be imported. */
function readEntry(client: Client, name: string, raw: unknown): Json | string | undefined {
  const shown = JSON.stringify(name.slice(0, MAX_NAME_CHARS))
  const refuse = (why: string): string => `${client.title}: the server ${shown} ${why}.`
  const odd = describeNameProblem(name)
  if (name === '' || name.length > MAX_NAME_CHARS) return refuse('has no usable name')
  if (odd !== undefined) return refuse(`has a name that ${odd}`)
  if (/^openapi\./i.test(name) || /[\n\r/\\]/.test(name)) return refuse('has a name that Pegboard cannot use')
  if (!isRecord(raw)) return refuse('is not an object')
  if ((JSON.stringify(raw)?.length ?? 0) > MAX_ENTRY_CHARS) return refuse('is too large')
  const entry = client.read(toPegboardVariables(raw, client.variables))
  // VS Code asks a person for inputs and stores them where others cannot read them.
  const stored = entry && mapTexts(entry, (text) => text.replaceAll('${input:', '${keyring:'))
  return stored && (keepKnown(stored) ?? refuse('has no usable command or address'))
}

const isScalar = (value: unknown): boolean => ['string', 'number', 'boolean'].includes(typeof value)
const isList = (value: unknown): boolean => Array.isArray(value) && value.every(isScalar)
const isTable = (value: unknown): boolean => isRecord(value) && Object.values(value).every(isScalar)

/** Only the keys that say how to reach the server: others, such as `trust`, mean something else in Pegboard. */
function keepKnown(entry: Json): Json | undefined {
  const { command, args, env, cwd, envFile, url, type, headers } = entry
  const off = entry['disabled'] === true || entry['enabled'] === false ? { disabled: true } : {}
  if (typeof command === 'string' && command.trim() !== '' && (args === undefined || isList(args)))
    return {
      command,
      ...(Array.isArray(args) && args.length > 0 ? { args } : {}),
      ...(isTable(env) && Object.keys(env as Json).length > 0 ? { env } : {}),
      ...(typeof cwd === 'string' ? { cwd } : {}),
      ...(typeof envFile === 'string' ? { envFile } : {}),
      ...off,
    }
  const isAddress = typeof url === 'string' && /^(?:https?:\/\/|\$\{)/i.test(url)
  if (!isAddress) return undefined
  return {
    url,
    ...(typeof type === 'string' && /^(?:sse|http|streamable-?http)$/i.test(type) ? { type } : {}),
    ...(isTable(headers) && Object.keys(headers as Json).length > 0 ? { headers } : {}),
    ...off,
  }
}

/** True for an entry that starts Pegboard or connects to it: importing it would make Pegboard call itself. */
function isPegboard(name: string, raw: unknown, { self }: Machine): boolean {
  if (name.toLowerCase() === 'pegboard') return true
  if (!isRecord(raw)) return false
  const words = [raw['command'], raw['cmd'], raw['args']].flat().filter((one) => typeof one === 'string')
  return words.some(
    (word) =>
      word === self ||
      /^pegboard(?:\.cmd)?(?:@[\w.-]+)?$/i.test(basename(word.replaceAll('\\', '/'))) ||
      /[\\/]pegboard[\\/]dist[\\/]cli[\\/]main\.js$/i.test(word),
  )
}
