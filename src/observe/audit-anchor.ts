import { createHash, createHmac } from 'node:crypto'
import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { equalsInConstantTime } from '../core/equals-in-constant-time.ts'
import { replaceFile } from '../core/replace-file.ts'
import { parseSignedLine, type SignedLine } from './hash-chain.ts'

/** The range of lines of one writer that the log must contain. */
export interface Anchor {
  readonly run: string
  /** The first line that was not rotated away. */
  readonly first: number
  readonly last: number
  readonly mac: string
}

/** Records outside the log where the log ends, because lines cut off at its end leave no trace in the rest. */
export type Anchors = ReturnType<typeof createAnchors>

const DOMAIN = 'pegboard audit anchor'
const sign = (key: Buffer, text: string): string => createHmac('sha256', key).update(DOMAIN).update(text).digest('hex')

/** @param dir folder of the anchors of all logs @param log absolute path of the log */
const folderOf = (dir: string, log: string): string =>
  join(dir, createHash('sha256').update(resolve(log)).digest('hex').slice(0, 16))

export function createAnchors(dir: string, log: string, key: Buffer) {
  const folder = folderOf(dir, log)
  const fileOf = (run: string): string => join(folder, `${run}.json`)
  let own: Anchor | undefined

  async function write(anchor: Anchor): Promise<void> {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const text = JSON.stringify(anchor)
    await replaceFile(fileOf(anchor.run), JSON.stringify({ ...anchor, signature: sign(key, text) }))
  }

  return {
    /** Records the last line of a batch that has been written. */
    async note(line: string): Promise<void> {
      const signed = parseSignedLine(line)
      if (!signed) return
      own = { run: signed.run, first: own?.first ?? 1, last: signed.seq, mac: signed.mac }
      await write(own)
    },
    /** Records that a file of the log is about to be deleted. */
    async discard(file: string): Promise<void> {
      const lasts = new Map<string, SignedLine>()
      const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return ''
        throw error
      })
      for (const line of text.split('\n')) {
        const signed = parseSignedLine(line)
        if (signed) lasts.set(signed.run, signed)
      }
      for (const anchor of await readAnchors(dir, log, key)) {
        const gone = lasts.get(anchor.run)
        if (gone === undefined) continue
        const first = gone.seq + 1
        if (anchor.run === own?.run) own = { ...own, first }
        if (first > anchor.last && anchor.run !== own?.run) await rm(fileOf(anchor.run), { force: true })
        else await write(anchor.run === own?.run ? own : { ...anchor, first })
      }
    },
  }
}

/** The anchors of a log whose signatures are valid. */
export async function readAnchors(dir: string, log: string, key: Buffer): Promise<readonly Anchor[]> {
  const folder = folderOf(dir, log)
  const names = await readdir(folder).catch(() => [])
  const found: Anchor[] = []
  for (const name of names.filter((one) => one.endsWith('.json'))) {
    try {
      const { signature, ...anchor } = JSON.parse(await readFile(join(folder, name), 'utf8')) as Anchor & {
        signature: string
      }
      if (equalsInConstantTime(String(signature), sign(key, JSON.stringify(anchor)))) found.push(anchor)
    } catch (error) {
      // Another process may remove an anchor, and a damaged one proves nothing.
      if (!(error instanceof SyntaxError) && (error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
  return found
}

/**
 * The lines that an anchor names and that the log does not contain.
 * @param seen the first and last line of each writer
 */
export function countMissingLines(
  anchors: readonly Anchor[],
  seen: ReadonlyMap<string, { readonly first: number; readonly last: number }>,
): { readonly atStart: number; readonly atEnd: number } {
  let [atStart, atEnd] = [0, 0]
  for (const { run, first, last } of anchors) {
    const found = seen.get(run)
    if (!found) atEnd += last - first + 1
    else {
      atStart += Math.max(0, found.first - first)
      atEnd += Math.max(0, last - found.last)
    }
  }
  return { atStart, atEnd }
}
