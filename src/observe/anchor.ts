import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { type Signed, signedIn } from './chain.ts'

/** Which lines of one writer the log must have. */
export interface Anchor {
  readonly run: string
  /** The first that was not put aside for good. */
  readonly first: number
  readonly last: number
  readonly mac: string
}

/** Where a log ends, kept outside the log: lines cut off at its end leave no trace in the rest. */
export interface Anchors {
  /** Notes the last line of a batch, which is in the log by now. */
  note(line: string): Promise<void>
  /** Notes that a file of the log is about to be deleted. */
  discard(file: string): Promise<void>
}

const DOMAIN = 'pegboard audit anchor'
const sign = (key: Buffer, text: string): string => createHmac('sha256', key).update(DOMAIN).update(text).digest('hex')

/** @param dir folder of the anchors of all logs @param log absolute path of the log */
const folderOf = (dir: string, log: string): string =>
  join(dir, createHash('sha256').update(resolve(log)).digest('hex').slice(0, 16))

export function createAnchors(dir: string, log: string, key: Buffer): Anchors {
  const folder = folderOf(dir, log)
  const fileOf = (run: string): string => join(folder, `${run}.json`)
  let own: Anchor | undefined

  async function write(anchor: Anchor): Promise<void> {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const text = JSON.stringify(anchor)
    const temporary = `${fileOf(anchor.run)}.${process.pid}.tmp`
    const handle = await open(temporary, 'w', 0o600)
    try {
      await handle.writeFile(JSON.stringify({ ...anchor, signature: sign(key, text) }))
    } finally {
      await handle.close()
    }
    await rename(temporary, fileOf(anchor.run))
  }

  return {
    async note(line) {
      const signed = signedIn(line)
      if (!signed) return
      own = { run: signed.run, first: own?.first ?? 1, last: signed.seq, mac: signed.mac }
      await write(own)
    },
    async discard(file) {
      const lasts = new Map<string, Signed>()
      const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return ''
        throw error
      })
      for (const line of text.split('\n')) {
        const signed = signedIn(line)
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

/** Those of a log that are as they were written. */
export async function readAnchors(dir: string, log: string, key: Buffer): Promise<readonly Anchor[]> {
  const folder = folderOf(dir, log)
  const names = await readdir(folder).catch(() => [])
  const found: Anchor[] = []
  for (const name of names.filter((one) => one.endsWith('.json'))) {
    try {
      const { signature, ...anchor } = JSON.parse(await readFile(join(folder, name), 'utf8')) as Anchor & {
        signature: string
      }
      const wanted = Buffer.from(sign(key, JSON.stringify(anchor)))
      const given = Buffer.from(String(signature))
      if (wanted.length === given.length && timingSafeEqual(wanted, given)) found.push(anchor)
    } catch (error) {
      // One that another process removes or that was damaged says nothing.
      if (!(error instanceof SyntaxError) && (error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
  return found
}

/** What an anchor says of a log that is missing there. @param seen the first and last line of each writer */
export function missingFrom(
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
