import { stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { homeOf, type Machine } from '../config/machine.ts'
import { isPegboardError, messageOf } from '../core/errors.ts'
import { mapTexts } from '../core/map-texts.ts'
import { type Client, clients } from './clients.ts'
import { parseForEdit } from './edit-json.ts'
import { readForEdit } from './file-edits.ts'
import { type FoundClient, type FoundServer, readServers } from './find-clients.ts'

/** A file with servers in a project. Pegboard reads it and never changes it, because it belongs to the project. */
export type ProjectFile = Pick<FoundClient, 'client' | 'file' | 'servers' | 'skipped' | 'problem'>

const FILES = { 'claude-code': '.mcp.json', cursor: '.cursor/mcp.json', vscode: '.vscode/mcp.json' } as const

/** Reads the project files of Claude Code, Cursor and VS Code in the working directory and its project. */
export async function findProjectFiles(machine: Machine): Promise<readonly ProjectFile[]> {
  const found: ProjectFile[] = []
  for (const folder of await foldersOf(machine))
    for (const [id, name] of Object.entries(FILES)) {
      const client = clients.find((one) => one.id === id) as Client
      const one = await readProjectFile(client, join(folder, name), folder, machine)
      if (one) found.push(one)
    }
  return found
}

/** The working directory and those above it up to the one with `.git`. The home folder has the files of the clients. */
async function foldersOf(machine: Machine): Promise<readonly string[]> {
  const homes = [homeOf(machine), machine.env['HOME']].flatMap((home) => (home === undefined ? [] : [resolve(home)]))
  const first = resolve(machine.cwd)
  const folders: string[] = []
  for (let at = first; !homes.includes(at); at = dirname(at)) {
    folders.push(at)
    const isRoot = await stat(join(at, '.git')).catch(() => undefined)
    if (isRoot) return folders
    if (at === dirname(at)) break
  }
  return folders.slice(0, 1)
}

async function readProjectFile(
  client: Client,
  file: string,
  folder: string,
  machine: Machine,
): Promise<ProjectFile | undefined> {
  try {
    const text = await readForEdit(file)
    if (text === undefined) return undefined
    const { servers, skipped } = readServers(client, parseForEdit(text), machine)
    return { client, file, servers: servers.map((server) => ofProject(server, file, folder)), skipped }
  } catch (error) {
    const problem = isPegboardError(error) ? error.message : messageOf(error)
    return { client, file, servers: [], skipped: [], problem }
  }
}

/** The server starts in the folder of the project, whatever folder Pegboard runs in. */
function ofProject(server: FoundServer, file: string, folder: string): FoundServer {
  const entry = toFolder(server.entry, folder)
  const { command, cwd, envFile } = entry
  const of = { ...server, project: folder, file }
  if (typeof command !== 'string') return { ...of, entry }
  const within = (path: unknown): string => (typeof path === 'string' ? resolve(folder, path) : folder)
  const paths = {
    command: /[/\\]/.test(command) ? within(command) : command,
    cwd: within(cwd),
    ...(envFile === undefined ? {} : { envFile: within(envFile) }),
  }
  return { ...of, entry: { ...entry, ...paths } }
}

/**
 * Fills in the variables that name the folder of the project. Secrets get the name of the folder in front, so that
 * the file cannot name secrets that are stored for other servers.
 */
function toFolder<T>(entry: T, folder: string): T {
  const literal = (text: string) => (): string => text.replaceAll('${', () => '$${')
  return mapTexts(entry, (text) =>
    text
      .replaceAll(/\$\{(?:workspaceFolder|CLAUDE_PROJECT_DIR)(?::-[^{}]*)?\}/g, literal(folder))
      .replaceAll('${workspaceFolderBasename}', literal(basename(folder)))
      .replaceAll(/(?<!\$)\$\{keyring:/g, () => `\${keyring:project_${basename(folder).replaceAll(/\W+/g, '_')}.`),
  )
}
