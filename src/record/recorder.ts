import { mkdirSync } from 'node:fs'
import type { Clock } from '../core/clock.ts'
import { createDebouncer } from '../core/debouncer.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import { replaceFile } from '../core/replace-file.ts'
import type { UpstreamTransport } from '../upstream/transport.ts'
import {
  type Cassette,
  cassetteFile,
  cassetteText,
  type Exchange,
  keyOf,
  type RecordedAnswer,
  readCassette,
} from './cassette.ts'
import { createRecordingTransport } from './recording-transport.ts'
import type { Scrubber } from './scrubber.ts'

/** What one server answered so far. */
export interface Tape {
  handshake(method: string, result: Json): void
  /** @param version number of changes of this list that calls of the connection have caused */
  list(method: string, params: Json, version: number, answer: RecordedAnswer): void
  call(method: string, params: Json, answer: RecordedAnswer): void
  /** An answer was extended. */
  changed(): void
}

export interface RecorderOptions {
  readonly dir: string
  readonly clock: Clock
  readonly log: Log
  readonly scrub: Scrubber
}

/** A file is written after this much quiet, or every few seconds. */
const SAVE = { quietMs: 300, longestMs: 3_000 }

/** Writes what servers answer to a folder, one file for each server. */
export function createRecorder({ dir, clock, log, scrub }: RecorderOptions) {
  const later = createDebouncer(clock, SAVE.quietMs, SAVE.longestMs)
  const tapes = new Map<string, ReturnType<typeof createTape>>()
  let writing: Promise<void> = Promise.resolve()

  const write = (server: string, text: () => string): void => {
    writing = writing.then(async () => {
      try {
        mkdirSync(dir, { recursive: true })
        await replaceFile(cassetteFile(dir, server), text())
      } catch (error) {
        log.error('cannot write a recording', { server, error: messageOf(error) })
      }
    })
  }

  function tapeOf(server: string, transport: Cassette['transport']) {
    const existing = tapes.get(server)
    if (existing) return existing
    const tape = createTape(server, transport, readCassette(dir, server), () =>
      later.schedule(server, () => write(server, () => cassetteText(tape.cassette()))),
    )
    tapes.set(server, tape)
    return tape
  }

  return {
    /** @returns the same transport, whose messages are recorded. @throws PegboardError E_RECORDING */
    record: (server: string, transport: UpstreamTransport): UpstreamTransport =>
      createRecordingTransport(transport, () => tapeOf(server, transport.kind), scrub),
    /** Writes what is not written yet. */
    async close(): Promise<void> {
      later.flush()
      await writing
    },
  }
}

/** Answers of this run replace those that an earlier run recorded for the same request. Others stay. */
function createTape(
  server: string,
  transport: Cassette['transport'],
  before: Cassette | undefined,
  changed: () => void,
): Tape & { cassette(): Cassette } {
  let handshake = before?.handshake
  const calls = createExchanges(before?.calls ?? [])
  // Lists are short, and a page that the server no longer has must not stay.
  const lists = createExchanges([])
  const earlier = before?.lists ?? []
  return {
    changed,
    handshake(method, result) {
      handshake = { method, result }
      changed()
    },
    list(method, params, version, answer) {
      const answers = lists.of(method, params)
      while (answers.length < version && answers.length > 0) answers.push(answers.at(-1) as RecordedAnswer)
      answers[Math.min(version, answers.length)] = answer
      changed()
    },
    call(method, params, answer) {
      calls.of(method, params).push(answer)
      changed()
    },
    cassette: () => ({
      cassette: 1,
      server,
      transport,
      ...(handshake === undefined ? {} : { handshake }),
      lists: lists.all().length > 0 ? lists.all() : earlier,
      calls: calls.all(),
    }),
  }
}

function createExchanges(before: readonly Exchange[]) {
  const exchanges = new Map<string, Exchange>()
  const fresh = new Set<string>()
  for (const { method, params, answers } of before)
    exchanges.set(keyOf(method, params), { method, params, answers: [...answers] })
  return {
    /** The answers of this run to a request. */
    of(method: string, params: Json): RecordedAnswer[] {
      const key = keyOf(method, params)
      const one = exchanges.get(key) ?? { method, params, answers: [] }
      if (!fresh.has(key)) one.answers.length = 0
      fresh.add(key)
      exchanges.set(key, one)
      return one.answers
    },
    all: (): Exchange[] => [...exchanges.values()],
  }
}

/** @throws PegboardError E_RECORDING if the folder cannot be created */
export function createFolder(dir: string): void {
  try {
    mkdirSync(dir, { recursive: true })
  } catch (error) {
    throw new PegboardError('E_RECORDING', `The folder ${dir} cannot be created: ${messageOf(error)}.`, {
      cause: error,
    })
  }
}
