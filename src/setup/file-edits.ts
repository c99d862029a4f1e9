import { createHash, randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, chown, lstat, mkdir, open, readdir, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import { replaceFile } from '../core/replace-file.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { writtenByOthers } from '../core/written-by-others.ts'
import { exclusively } from '../state/file-lock.ts'

/** A change of one file that was shown to a person. */
export interface FileEdit {
  /** Absolute. */
  readonly path: string
  /** The text that the preview was made from; undefined if there was no file. */
  readonly before: string | undefined
  readonly after: string
}

export interface AppliedEdits {
  /** For `undo`. */
  readonly id: string
  readonly files: readonly string[]
}

export interface UndoRecord extends AppliedEdits {
  /** ISO 8601. */
  readonly at: string
  readonly reason: string
  readonly undone: boolean
}

interface SavedFile {
  readonly path: string
  /** Name of the backup in the folder of the record; undefined if there was no file. */
  readonly backup?: string
  readonly mode?: number
  readonly before?: string
  readonly after: string
  /** Folders that were created for the file, the outermost first. */
  readonly folders: readonly string[]
}

interface SavedRecord {
  readonly id: string
  readonly at: string
  readonly reason: string
  /** The configuration file that the command used. `init` can change files of clients only. Older records lack it. */
  readonly config?: string
  readonly undone?: true
  readonly files: readonly SavedFile[]
}

/** Client files hold the history of projects as well and can be long. */
const MAX_BYTES = 16 * 1024 * 1024
const MAX_RECORDS = 50
const RECORD = 'record.json'

const undoFolder = (stateDir: string): string => join(stateDir, 'undo')
const codeOf = (error: unknown): unknown => (error as NodeJS.ErrnoException).code
const whyOf = (error: unknown): string => String(codeOf(error) ?? messageOf(error))
const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
const createUnsafeError = (message: string, hint: string): PegboardError =>
  new PegboardError('E_EDIT_UNSAFE', message, { hint })

/**
 * The text of a file that may be edited; undefined without a file.
 * @throws PegboardError E_EDIT_UNSAFE for links, pipes, files that other users can write, huge files, and bytes that
 * are not UTF-8
 */
export async function readForEdit(path: string): Promise<string | undefined> {
  const bytes = await readSafely(path)
  if (!bytes) return undefined
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw createUnsafeError(`${path} is not UTF-8 text, so it is not edited.`, 'Save the file as UTF-8.')
  }
}

async function readSafely(path: string): Promise<Buffer | undefined> {
  const facts = await lstat(path).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined
    throw createUnsafeError(`${path} cannot be read (${whyOf(error)}).`, 'Check the permissions of the file.')
  })
  await checkFolder(path)
  if (!facts) return undefined
  if (facts.isSymbolicLink())
    throw createUnsafeError(
      `${path} is a symbolic link, so it is not edited.`,
      'Edit the file that it points to yourself.',
    )
  if (!facts.isFile()) throw createUnsafeError(`${path} is not a regular file, so it is not edited.`, 'Move it away.')
  if (facts.size > MAX_BYTES)
    throw createUnsafeError(
      `${path} has more than ${MAX_BYTES / 1024 / 1024} MiB, so it is not edited.`,
      'Check what it contains.',
    )
  const others = writtenByOthers(path)
  if (others !== undefined)
    throw createUnsafeError(`${path} is not edited: ${others}.`, 'Another user could choose its content.')
  // The file may have been replaced by a link or a pipe since.
  const handle = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)).catch(
    (error: unknown) => {
      throw createUnsafeError(`${path} cannot be read (${whyOf(error)}).`, 'Check the permissions.')
    },
  )
  try {
    const opened = await handle.stat()
    if (opened.ino !== facts.ino || opened.dev !== facts.dev) throw createStaleError(path)
    return await handle.readFile()
  } finally {
    await handle.close()
  }
}

/** Checks the nearest folder that exists: who can write it could replace the file. */
async function checkFolder(path: string): Promise<void> {
  for (let at = dirname(path); ; at = dirname(at)) {
    const facts = await stat(at).catch(() => undefined)
    if (!facts && at !== dirname(at)) continue
    if (facts && !facts.isDirectory()) throw createUnsafeError(`${at} is not a folder.`, 'Move it away.')
    const others = writtenByOthers(at)
    if (others !== undefined)
      throw createUnsafeError(`${path} is not edited: ${others}.`, 'Another user could replace the file.')
    return
  }
}

const createStaleError = (path: string): PegboardError =>
  new PegboardError('E_EDIT_STALE', `${path} changed since the change was shown, so nothing was written.`)

/** A file that is ready to be renamed. */
interface PreparedEdit {
  readonly saved: SavedFile
  readonly temporary: string
  readonly bytes: Buffer | undefined
}

interface EditOptions {
  readonly stateDir: string
  readonly clock: Clock
  readonly reason: string
  /** Absolute path of the configuration file that the command uses. */
  readonly config?: string
}

/**
 * Writes all edits or none. Keeps mode and owner of each file, and keeps a copy of the old bytes for `undo` in a
 * private folder.
 * @throws PegboardError E_EDIT_STALE if a file does not have the text that the preview was made from, E_EDIT_UNSAFE if
 * a file must not be written
 */
export async function applyEdits(
  edits: readonly FileEdit[],
  { stateDir, clock, reason, config }: EditOptions,
): Promise<AppliedEdits> {
  const paths = new Set(edits.map(({ path }) => path))
  if (paths.size < edits.length) throw new Error('two edits of one file')
  return whileLocked(stateDir, async (folder) => {
    const at = new Date(clock.now()).toISOString()
    const id = `${at.replaceAll(/[-:]|\.\d+/g, '')}-${randomUUID().slice(0, 8)}`
    const own = join(folder, id)
    const ready: PreparedEdit[] = []
    try {
      await mkdir(own, { mode: 0o700 })
      for (const [index, edit] of edits.entries()) ready.push(await prepare(edit, own, `${index}.before`))
      const files = ready.map(({ saved }) => saved)
      await writeRecord(own, { id, at, reason, ...(config === undefined ? {} : { config }), files })
    } catch (error) {
      await discard(ready)
      await rm(own, { recursive: true, force: true })
      throw error
    }
    await replaceAll(ready, own)
    await removeOldRecords(folder)
    return { id, files: [...paths] }
  })
}

async function prepare({ path, before, after }: FileEdit, own: string, backup: string): Promise<PreparedEdit> {
  const text = await readForEdit(path)
  if (text !== before) throw createStaleError(path)
  const bytes = before === undefined ? undefined : Buffer.from(before)
  const facts = bytes && (await lstat(path))
  if (bytes) await writeFile(join(own, backup), bytes, { mode: 0o600, flag: 'wx', flush: true })
  const folders = await createFolders(dirname(path))
  const content = Buffer.from(after)
  const temporary = await writeBeside(path, content, facts)
  return {
    temporary,
    bytes,
    saved: {
      path,
      ...(bytes && facts ? { backup, mode: facts.mode & 0o7777, before: hashOf(bytes) } : {}),
      after: hashOf(content),
      folders,
    },
  }
}

/** Creates a folder that only this user can read. @returns the folders that were missing, the outermost first */
async function createFolders(folder: string): Promise<readonly string[]> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 })
  const created: string[] = []
  if (first === undefined) return created
  for (let at = folder; at.length >= first.length; at = dirname(at)) created.unshift(at)
  return created
}

async function writeBeside(
  path: string,
  content: Uint8Array,
  like: { readonly mode: number; readonly uid: number; readonly gid: number } | undefined,
): Promise<string> {
  const temporary = `${path}.${process.pid}-${randomUUID().slice(0, 8)}.tmp`
  try {
    await writeFile(temporary, content, { mode: 0o600, flag: 'wx', flush: true })
    if (like && process.platform !== 'win32') {
      const stats = await stat(temporary)
      if (stats.uid !== like.uid || stats.gid !== like.gid) await chown(temporary, like.uid, like.gid)
      await chmod(temporary, like.mode & 0o7777)
    }
    return temporary
  } catch (error) {
    await rm(temporary, { force: true })
    throw createUnsafeError(
      `${path} cannot be written (${whyOf(error)}).`,
      'Check the owner and permissions of the file and its folder.',
    )
  }
}

async function discard(ready: readonly PreparedEdit[]): Promise<void> {
  for (const { temporary, saved } of ready) {
    await rm(temporary, { force: true })
    await removeFolders(saved.folders)
  }
}

/** Removes the folders that were created, as far as they are empty. */
async function removeFolders(folders: readonly string[]): Promise<void> {
  for (const folder of folders.toReversed()) await rmdir(folder).catch(() => undefined)
}

async function replaceAll(ready: readonly PreparedEdit[], own: string): Promise<void> {
  const done: PreparedEdit[] = []
  try {
    for (const one of ready) {
      // Again, because the other files took time.
      const now = await readSafely(one.saved.path)
      if (now === undefined ? one.bytes !== undefined : !one.bytes?.equals(now)) throw createStaleError(one.saved.path)
      await rename(one.temporary, one.saved.path)
      done.push(one)
    }
  } catch (error) {
    for (const { saved } of done.toReversed()) await restore(saved, own)
    await discard(ready)
    await rm(own, { recursive: true, force: true })
    if (codeOf(error) === 'E_EDIT_STALE' || codeOf(error) === 'E_EDIT_UNSAFE') throw error
    throw createUnsafeError(
      `The files cannot be replaced (${whyOf(error)}), so nothing was written.`,
      'Check the permissions, and close programs that hold the files open.',
    )
  }
}

async function restore({ path, backup, mode, folders }: SavedFile, own: string): Promise<void> {
  if (backup === undefined) {
    await rm(path, { force: true })
    await removeFolders(folders)
    return
  }
  const facts = await lstat(path).catch(() => undefined)
  await createFolders(dirname(path))
  const temporary = await writeBeside(
    path,
    await readBackup(join(own, backup)),
    facts?.isFile() ? { ...facts, mode: mode ?? facts.mode } : undefined,
  )
  await rename(temporary, path)
  if (!facts && mode !== undefined && process.platform !== 'win32') await chmod(path, mode)
}

async function readBackup(path: string): Promise<Buffer> {
  const bytes = await readSafely(path)
  if (!bytes) throw createUnsafeError(`The old content ${path} is missing.`, 'Restore the file yourself.')
  return bytes
}

/**
 * Restores the bytes before the change with this id, or before the newest change that is not undone.
 * @param options.config without an id: only changes that a command made with this configuration file
 * @param options.force also if a file changed since; its changes are lost
 * @throws PegboardError E_UNDO_MISSING if there is nothing to undo, E_EDIT_STALE if a file changed since
 */
export async function undo(
  stateDir: string,
  id?: string,
  { force = false, config }: { readonly force?: boolean; readonly config?: string } = {},
): Promise<AppliedEdits & { readonly reason: string }> {
  return whileLocked(stateDir, async (folder) => {
    const records = await readRecords(folder)
    const record = id === undefined ? newestRecord(records, config) : recordWithId(records, id)
    const own = join(folder, record.id)
    const todo: SavedFile[] = []
    for (const file of record.files) {
      const now = await readSafely(file.path)
      const hash = now && hashOf(now)
      // A process that was killed may have written some of the files only.
      if (hash === file.before) continue
      if (hash !== file.after && !force) throw createChangedSinceError(file, records.slice(records.indexOf(record) + 1))
      todo.push(file)
    }
    for (const file of todo.toReversed()) await restore(file, own)
    await writeRecord(own, { ...record, undone: true })
    return { id: record.id, reason: record.reason, files: record.files.map(({ path }) => path) }
  })
}

function recordWithId(records: readonly SavedRecord[], id: string): SavedRecord {
  const record = records.find((one) => one.id === id)
  if (record && record.undone !== true) return record
  throw createMissingError(records, ` "${id}" to undo${record ? ': it was undone' : ''}`)
}

/** @param config only changes that a command made with this configuration file */
function newestRecord(records: readonly SavedRecord[], config: string | undefined): SavedRecord {
  const open = records.filter(({ undone }) => undone !== true)
  const record = open.findLast((one) => config === undefined || isMadeWith(one, config))
  if (record) return record
  if (open.length === 0) throw createMissingError(records, ' to undo')
  throw createMissingError(records, ` of ${config} to undo`, {
    hint: 'To undo a change of another configuration, find its id with pegboard undo --list, then run pegboard undo ID.',
  })
}

const createMissingError = (
  records: readonly SavedRecord[],
  what: string,
  options: { readonly hint?: string } = {},
): PegboardError =>
  new PegboardError('E_UNDO_MISSING', `There is no change${what}.`, {
    ...options,
    ...(records.length === 0 && { hint: 'Pegboard has changed no configuration file.' }),
  })

const isMadeWith = (record: SavedRecord, config: string): boolean =>
  record.config === undefined ? record.files.some(({ path }) => path === config) : record.config === config

function createChangedSinceError({ path }: SavedFile, later: readonly SavedRecord[]): PegboardError {
  const next = later.findLast(({ undone, files }) => undone !== true && files.some((file) => file.path === path))
  return next
    ? new PegboardError('E_EDIT_STALE', `Pegboard changed ${path} again later, so nothing was undone.`, {
        hint: `Undo the later change first: pegboard undo ${next.id}. Or add --force, which discards everything that changed since.`,
      })
    : new PegboardError('E_EDIT_STALE', `${path} was edited after this change, so nothing was undone.`, {
        hint: 'To restore the old file anyway, add --force. This discards the edits.',
      })
}

/** What `undo` can take back, the oldest first. */
export async function listUndo(stateDir: string): Promise<readonly UndoRecord[]> {
  return (await readRecords(undoFolder(stateDir))).map(({ id, at, reason, undone, files }) => ({
    ...{ id, at, reason, undone: undone === true },
    files: files.map(({ path }) => path),
  }))
}

/** One process at a time, in a folder that only this user can read. */
async function whileLocked<T>(stateDir: string, work: (folder: string) => Promise<T>): Promise<T> {
  const folder = undoFolder(stateDir)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await checkNoLink(folder)
  const others = writtenByOthers(folder)
  if (others !== undefined)
    throw createUnsafeError(`The folder ${folder} is not safe to use: ${others}.`, 'It keeps old files.')
  if (process.platform !== 'win32') await chmod(folder, 0o700)
  return exclusively(
    join(folder, '.lock'),
    () => work(folder),
    () => {
      throw new PegboardError('E_STATE', 'Another Pegboard is changing files.', { hint: 'Try again when it is done.' })
    },
  )
}

/** A link could lead to records that somebody else wrote. */
async function checkNoLink(folder: string): Promise<void> {
  const facts = await lstat(folder).catch(() => undefined)
  if (facts && !facts.isDirectory())
    throw createUnsafeError(`${folder} is a link or a file, so nothing is read from it.`, 'Remove it.')
}

const writeRecord = (own: string, record: SavedRecord): Promise<void> =>
  replaceFile(join(own, RECORD), `${JSON.stringify(record, null, 2)}\n`)

/** The oldest first. Ids have the second only, and several changes can be made in one. */
async function readRecords(folder: string): Promise<readonly SavedRecord[]> {
  await checkNoLink(folder)
  const names = await readdir(folder).catch(() => [])
  const records: SavedRecord[] = []
  for (const name of names.filter((one) => /^\d{8}T\d{6}Z-[\da-f]{8}$/.test(one)).sort()) {
    await checkNoLink(join(folder, name))
    const bytes = await readSafely(join(folder, name, RECORD))
    const record = bytes && parseRecord(bytes.toString('utf8'))
    if (record?.id === name) records.push(record)
  }
  return records.sort((a, b) => Date.parse(a.at) - Date.parse(b.at))
}

const isBackup = (name: unknown): boolean => name === undefined || (typeof name === 'string' && name === basename(name))

function parseRecord(text: string): SavedRecord | undefined {
  // Undefined if a process was killed before it changed anything.
  const record = tryParseJson(text)
  const isWhole =
    isRecord(record) &&
    Array.isArray(record['files']) &&
    record['files'].every((file) => isRecord(file) && isBackup(file['backup']))
  return isWhole ? (record as unknown as SavedRecord) : undefined
}

async function removeOldRecords(folder: string): Promise<void> {
  const records = await readRecords(folder)
  for (const { id } of records.slice(0, -MAX_RECORDS)) await rm(join(folder, id), { recursive: true, force: true })
}
