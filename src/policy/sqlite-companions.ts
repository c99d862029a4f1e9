import { constants, promises as fs } from 'node:fs'

const { O_RDONLY, O_NONBLOCK = 0, O_NOFOLLOW = 0 } = constants
const COMPANION = /^(.+)-(?:journal|wal|shm)$/is
const MAGIC = Buffer.from('SQLite format 3\0')

/**
 * True for the journal and WAL files of SQLite. SQLite writes their content into the database, so anyone who can write
 * them can change it. SQLite ignores such files if the database is empty or missing.
 */
export async function isSqliteCompanion(path: string): Promise<boolean> {
  const [, database] = COMPANION.exec(path) ?? []
  if (database === undefined) return false
  let file: fs.FileHandle
  try {
    file = await fs.open(database, O_RDONLY | O_NONBLOCK | O_NOFOLLOW)
  } catch (error) {
    // An existing file that cannot be read may be a database.
    return ['EACCES', 'EPERM', 'EBUSY', 'EMFILE', 'ENFILE'].includes((error as NodeJS.ErrnoException).code ?? '')
  }
  try {
    if (!(await file.stat()).isFile()) return false
    const { bytesRead, buffer } = await file.read(Buffer.alloc(MAGIC.length), 0, MAGIC.length, 0)
    return bytesRead === MAGIC.length && buffer.equals(MAGIC)
  } finally {
    await file.close()
  }
}
