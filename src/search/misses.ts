import { appendFileSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { z } from 'zod'
import type { Clock } from '../core/clock.ts'
import { tryParseJson } from '../core/try-parse-json.ts'

const STORED_CHARACTERS = 500

/** A query whose first result was not the tool that was called. Has no arguments. */
const Miss = z.object({
  /** Milliseconds since 1970. */
  at: z.number(),
  /** Without secrets. */
  query: z.string().transform((query) => query.slice(0, STORED_CHARACTERS)),
  /** Id of the tool that was called; absent if no call followed. */
  called: z.string().optional(),
  /** Its rank in the answer, from 2. Absent if the answer did not show it. */
  rank: z.number().optional(),
})
export type Miss = Readonly<z.infer<typeof Miss>>

/** A query and the ids of its answer, best first. */
export interface AnsweredQuery {
  readonly query: string
  readonly ids: readonly string[]
}

export interface MissesOptions {
  readonly file: string
  readonly clock: Clock
  /** Removes secrets from a query. */
  readonly hide: (text: string) => string
  readonly onError: (error: unknown) => void
}

/** A call that follows later has nothing to do with the search. */
const WINDOW_MS = 10 * 60_000
const MAX_OWNERS = 1_000
const MAX_OPEN = 16
const RETENTION = { count: 1_000, ageMs: 90 * 24 * 60 * 60_000 } as const
/** The file is shortened when it is larger. */
const MAX_BYTES = 512 * 1024

interface OpenQuery extends AnsweredQuery {
  readonly at: number
  /** True for the only query of its search. */
  readonly isAlone: boolean
  /** The tool of the next call, which no search had listed. Recorded if no tool of the answer is called. */
  readonly unlistedTool?: string
}

/** Watches which tools are called after a search, and keeps the queries that were answered badly. */
export function createMissRecorder({ file, clock, hide, onError }: MissesOptions) {
  const owners = new Map<string, OpenQuery[]>()

  function save(misses: readonly Miss[]): void {
    if (misses.length === 0) return
    try {
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
      // One short write, so that several processes can add to the file.
      appendFileSync(file, misses.map((miss) => `${JSON.stringify(miss)}\n`).join(''), { mode: 0o600 })
      if (statSync(file).size > MAX_BYTES) shorten(file, clock.now())
    } catch (error) {
      onError(error)
    }
  }

  const missOf = (
    { at, query, unlistedTool }: OpenQuery,
    more: Partial<Miss> = unlistedTool ? { called: unlistedTool } : {},
  ): Miss => ({
    at,
    query: hide(query).slice(0, STORED_CHARACTERS),
    ...more,
  })

  /** Records the queries that are too old for a call to follow, and returns the others. */
  function expire(open: readonly OpenQuery[]): OpenQuery[] {
    const since = clock.now() - WINDOW_MS
    save(open.filter(({ at }) => at < since).map((query) => missOf(query)))
    return open.filter(({ at }) => at >= since)
  }

  function forget(owner: string): void {
    save((owners.get(owner) ?? []).map((query) => missOf(query)))
    owners.delete(owner)
  }

  return {
    /** @param owner whose search it is: a session, or a principal without one */
    searched(owner: string, answers: readonly AnsweredQuery[]): void {
      const at = clock.now()
      const added = answers.map((answer) => ({ ...answer, at, isAlone: answers.length === 1 }))
      const queries = [...expire(owners.get(owner) ?? []), ...added]
      save(queries.slice(0, -MAX_OPEN).map((query) => missOf(query)))
      owners.delete(owner)
      owners.set(owner, queries.slice(-MAX_OPEN))
      const [oldest] = owners.keys()
      if (owners.size > MAX_OWNERS && oldest !== undefined) forget(oldest)
    },
    called(owner: string, tool: string): void {
      const open = expire(owners.get(owner) ?? [])
      owners.set(owner, open)
      const answered = open.filter(({ ids }) => ids.includes(tool))
      if (answered.length === 0) {
        const last = open.at(-1)
        if (last?.isAlone && last.unlistedTool === undefined)
          owners.set(owner, [...open.slice(0, -1), { ...last, unlistedTool: tool }])
        return
      }
      save(
        answered.flatMap((query) => {
          const rank = query.ids.indexOf(tool) + 1
          return rank > 1 ? [missOf(query, { called: tool, rank })] : []
        }),
      )
      // The other queries may be about something else, so they stay open.
      const others = open.filter(({ ids }) => !ids.includes(tool))
      owners.set(owner, others)
    },
    /** Keeps the queries that no call followed. */
    forget,
    close(): void {
      for (const owner of [...owners.keys()]) forget(owner)
    },
  }
}

/** The kept misses, oldest first. Ignores damaged lines. */
export function readMisses(file: string, now: number): readonly Miss[] {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
  return text.split('\n').flatMap(parseLine).filter(isRecent(now)).slice(-RETENTION.count)
}

export const clearMisses = (file: string): void => rmSync(file, { force: true })

const isRecent =
  (now: number) =>
  ({ at }: Miss): boolean =>
    at > now - RETENTION.ageMs

const parseLine = (line: string): Miss[] => {
  const { data } = Miss.safeParse(tryParseJson(line))
  return data ? [data] : []
}

function shorten(file: string, now: number): void {
  const newestMisses = readMisses(file, now).slice(-RETENTION.count / 2)
  const temporary = `${file}.${process.pid}.tmp`
  writeFileSync(temporary, newestMisses.map((miss) => `${JSON.stringify(miss)}\n`).join(''), { mode: 0o600 })
  renameSync(temporary, file)
}
