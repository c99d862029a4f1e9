import { secretNames } from '../config/variables.ts'
import { PegboardError } from '../core/errors.ts'
import { asRecord, isRecord } from '../core/is-record.ts'
import type { Client, ClientId, StartCommand } from './clients.ts'
import { type Change, editJson, parseForEdit } from './edit-json.ts'
import { editToml } from './edit-toml.ts'
import { editYaml } from './edit-yaml.ts'
import type { FileEdit } from './file-edits.ts'
import type { FoundClient, FoundServer } from './find-clients.ts'
import { type MergedServer, mergeServers } from './merge-servers.ts'
import { type MovedSecret, moveSecrets } from './move-secrets.ts'

export interface InitChoices {
  readonly servers: readonly FoundServer[]
  /** Clients that Pegboard is registered in. */
  readonly into: readonly ClientId[]
  /** Folder of the file tools; undefined leaves the setting. */
  readonly folder: string | undefined
  /** Leave the imported servers in the clients that Pegboard is registered in. */
  readonly keep: boolean
  /** Whether plain-text secrets move to the secret store. */
  readonly moveSecrets: boolean
}

export interface InitPlan {
  readonly servers: readonly MergedServer[]
  readonly secrets: readonly MovedSecret[]
  readonly edits: readonly FileEdit[]
  /** Values that must not be shown, whether they move or not. */
  readonly hidden: readonly string[]
  /** Secrets that servers name and that nobody has stored, such as inputs of VS Code. */
  readonly wanted: readonly string[]
}

/** Pegboard's configuration file; its text is undefined if it does not exist. */
export interface ConfigText {
  readonly file: string
  readonly text: string | undefined
}

/**
 * What `pegboard init` would write: Pegboard's configuration with the chosen servers, and the clients' files with
 * Pegboard in place of them.
 * @param stored secrets in the secret store; undefined: it cannot be read
 */
export function planInit(
  found: readonly FoundClient[],
  choices: InitChoices,
  config: ConfigText,
  start: StartCommand,
  stored: ReadonlyMap<string, string | undefined>,
): InitPlan {
  const merged = mergeServers(choices.servers, serversIn(config), stored)
  const all = moveSecrets(merged, stored)
  const { servers, secrets } = choices.moveSecrets ? all : { servers: merged, secrets: [] }
  const changes: Change[] = servers
    .filter(({ isKnown }) => !isKnown)
    .map(({ name, entry }) => ({ path: ['mcpServers', name], value: entry }))
  if (choices.folder !== undefined)
    changes.push({ path: ['modules', 'filesystem', 'config', 'roots'], value: [choices.folder] })
  const edits: FileEdit[] = []
  const after = editJson(config.text ?? '', changes)
  if (after !== config.text) edits.push({ path: config.file, before: config.text, after })
  for (const one of found.filter(({ client }) => choices.into.includes(client.id)))
    edits.push(...registerIn(one, choices, start))
  const knownNames = new Set([...stored.keys(), ...secrets.map(({ name }) => name)])
  const namedSecrets = secretNames(JSON.stringify(servers.map(({ entry }) => entry)))
  return {
    ...{ servers, secrets, edits, hidden: all.secrets.map(({ value }) => value) },
    wanted: namedSecrets.filter((name) => !knownNames.has(name)),
  }
}

/** The `mcpServers` of Pegboard's configuration. @throws PegboardError E_EDIT_SYNTAX */
export function serversIn({ file, text = '' }: ConfigText): Readonly<Record<string, unknown>> {
  const root = text.trim() === '' ? {} : parseForEdit(text)
  if (!isRecord(root)) throw new PegboardError('E_EDIT_SYNTAX', `${file} is not an object.`)
  return asRecord(root['mcpServers'])
}

/** Adds Pegboard to a client, and takes out the servers that Pegboard now serves. */
function registerIn(found: FoundClient, { servers, keep }: InitChoices, start: StartCommand): readonly FileEdit[] {
  const { client, file, text, own, problem } = found
  if (problem !== undefined) throw new PegboardError('E_EDIT_UNSAFE', problem)
  const moved = keep ? [] : servers.filter((server) => server.client === client.id && server.file === undefined)
  const at = client.serversAt(text === undefined ? {} : found.root)
  const changes: Change[] = [
    ...moved.map(({ path }) => ({ path, value: undefined })),
    ...(own.length > 0 ? [] : [{ path: [...at, 'pegboard'], value: client.write(start) }]),
  ]
  const after = editClientFile(client, text ?? '', changes)
  return after === (text ?? '') ? [] : [{ path: file, before: text, after }]
}

function editClientFile({ format }: Client, text: string, changes: readonly Change[]): string {
  if (format === 'toml') return editToml(text, changes)
  return format === 'yaml' ? editYaml(text, changes) : editJson(text, changes)
}
