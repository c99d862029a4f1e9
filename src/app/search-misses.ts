import { join } from 'node:path'
import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { redact } from '../core/redact.ts'
import { scrub } from '../core/scrub.ts'
import { sessionOwner } from '../exec/task-owner.ts'
import { type AnsweredQuery, createMissRecorder } from '../search/misses.ts'

export const missesFile = (stateDir: string): string => join(stateDir, 'search', 'misses.jsonl')

export interface SearchMissesOptions {
  readonly stateDir: string
  readonly clock: Clock
  readonly log: Log
  hide(text: string): string
}

const MAIL = /[^\s<>"']{1,100}@[^\s<>"']{1,100}/g
const LONG_NUMBER = /\d{6,}/g

/** Keeps the queries of clients that search answered badly. */
export function createSearchMisses({ stateDir, clock, log, hide }: SearchMissesOptions) {
  let failed = false
  const ownersOf = new Map<string, Set<string>>()
  const recorder = createMissRecorder({
    file: missesFile(stateDir),
    clock,
    hide: (text) =>
      scrub(redact(hide(text)))
        .replaceAll(MAIL, '<address>')
        .replaceAll(LONG_NUMBER, '<number>'),
    onError(error) {
      if (!failed) log.warn('cannot keep queries for "pegboard suggest"', { error: messageOf(error) })
      failed = true
    },
  })
  return {
    searched(caller: Caller, answers: readonly AnsweredQuery[]): void {
      const owner = sessionOwner(caller)
      const { session } = caller
      if (session !== undefined) ownersOf.set(session, (ownersOf.get(session) ?? new Set()).add(owner))
      recorder.searched(owner, answers)
    },
    called: (caller: Caller, tool: string): void => recorder.called(sessionOwner(caller), tool),
    forget(session: string): void {
      for (const owner of ownersOf.get(session) ?? []) recorder.forget(owner)
      ownersOf.delete(session)
    },
    close: recorder.close,
  }
}
