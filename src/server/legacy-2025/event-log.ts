import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/clock.ts'
import type { Message } from '../../core/jsonrpc.ts'
import { isDroppable } from '../backpressure.ts'
import type { EventStream } from '../event-stream.ts'
import { type Pieces, piecesOf } from '../json-pieces.ts'

/** How long a message can be sent again, in milliseconds. For a call, the time starts at the end of its stream. */
export const KEPT_MS = 5 * 60_000
/** Limit for all sessions together, in bytes. */
const MAX_TOTAL_BYTES = 64 * 1024 * 1024

/**
 * The event streams of one session. Messages have ids and are kept for a while: a client whose connection broke names the
 * last id that it received (`Last-Event-ID`) and gets what it missed.
 */
export interface SessionStreams {
  /** For messages that belong to no request. */
  readonly unrelated: Stream
  /** For the answers to one POST. */
  open(): Stream
  /** The stream of an id; `over` if nothing is left to send; undefined for ids of other sessions. */
  find(lastEventId: string): ResumePoint | 'over' | undefined
  close(): void
}

/** The point at which a client resumes. */
export interface ResumePoint {
  readonly stream: Stream
  /** Number of the last message that it received. */
  readonly after: number
  readonly id: string
}

/** One stream, over any number of connections. */
export interface Stream {
  /** Sends a message with the next id, and stores it. */
  send(message: object): void
  /** Sends an id without a message, so that the client can resume before the first one. */
  prime(): void
  comment(): void
  /** Continues on a connection, after this event; absent: with new messages only. */
  attach(events: EventStream, after?: number): void
  detach(events: EventStream): void
  end(): void
  /** Ends the stream and deletes its messages. */
  drop(): void
  readonly isAttached: boolean
  /** Whether the client knows an id of this stream. */
  readonly isResumable: boolean
}

export interface EventLog {
  /** @param principal owner of the session. At the total limit, the principal with most bytes loses messages first */
  session(principal: string): SessionStreams
  /** Whether messages are stored at all. */
  readonly isOn: boolean
  readonly bytes: number
}

export interface EventLogOptions {
  readonly clock: Clock
  /** Limit of one session; 0: nothing is stored, and events have no ids. */
  readonly maxBytes: number
  readonly maxEvents: number
  readonly maxTotalBytes?: number
}

interface StreamEntry {
  readonly number: number
  readonly stream: Stream
  seq: number
  storedCount: number
  endedAt: number | undefined
}

interface StoredMessage {
  readonly entry: StreamEntry
  readonly seq: number
  readonly at: number
  data: Pieces
  bytes: number
  /** Id of the request it answers; undefined after the answer was dropped. */
  answers: unknown
}

/** Stored messages of one session. */
interface SessionRecord {
  readonly principal: string
  /** Log messages and progress. */
  readonly droppable: StoredMessage[]
  readonly lasting: StoredMessage[]
  /** Open streams, and ended ones with stored messages. */
  readonly entries: Map<number, StreamEntry>
  bytes: number
}

export function createEventLog(options: EventLogOptions): EventLog {
  const { clock, maxBytes, maxEvents, maxTotalBytes = MAX_TOTAL_BYTES } = options
  const records = new Set<SessionRecord>()
  let total = 0
  let willPurge = false

  function addBytes(record: SessionRecord, bytes: number): void {
    record.bytes += bytes
    total += bytes
  }

  function countRemoved(record: SessionRecord, { entry, bytes }: StoredMessage): void {
    addBytes(record, -bytes)
    entry.storedCount--
    if (entry.storedCount > 0 || entry.endedAt === undefined) return
    record.entries.delete(entry.number)
    addBytes(record, -ENTRY_BYTES)
  }

  function forget(record: SessionRecord, isGone: (stored: StoredMessage) => boolean): void {
    for (const list of [record.droppable, record.lasting]) {
      const remaining = list.filter((stored) => !isGone(stored))
      if (remaining.length === list.length) continue
      for (const stored of list) if (isGone(stored)) countRemoved(record, stored)
      list.splice(0, list.length, ...remaining)
    }
  }

  /** Drops the least important message. An answer is replaced by an error, so that its client does not wait. */
  function dropLeastImportant(record: SessionRecord): void {
    const answer = record.droppable.length > 0 ? undefined : record.lasting.find(({ answers }) => answers !== undefined)
    if (!answer) {
      dropOldestMessage(record)
      return
    }
    const { bytes } = answer
    answer.data = piecesOf({ jsonrpc: '2.0', id: answer.answers, error: RESULT_LOST })
    answer.bytes = sizeOf(answer.data)
    answer.answers = undefined
    addBytes(record, answer.bytes - bytes)
  }

  function dropOldestMessage(record: SessionRecord): void {
    const oldest = record.droppable.shift() ?? record.lasting.shift()
    if (oldest) countRemoved(record, oldest)
  }

  /** The largest record of the principal with most bytes, so that a principal can only displace its own messages. */
  function findRecordToTrim(): SessionRecord | undefined {
    const sums = new Map<string, number>()
    for (const { principal, bytes } of records) sums.set(principal, (sums.get(principal) ?? 0) + bytes)
    const sumOf = ({ principal }: SessionRecord): number => sums.get(principal) ?? 0
    let found: SessionRecord | undefined
    for (const record of records) {
      const more = found ? sumOf(record) - sumOf(found) || record.bytes - found.bytes : 1
      if (more > 0) found = record
    }
    return found
  }

  function trim(record: SessionRecord): void {
    while (record.droppable.length + record.lasting.length > maxEvents) dropOldestMessage(record)
    while (record.bytes > maxBytes) dropLeastImportant(record)
    while (total > maxTotalBytes) dropLeastImportant(findRecordToTrim() as SessionRecord)
  }

  function purge(): void {
    willPurge = false
    const before = clock.now() - KEPT_MS
    const keptSince = ({ entry, at }: StoredMessage): number =>
      entry.number === UNRELATED ? at : (entry.endedAt ?? Number.POSITIVE_INFINITY)
    for (const record of records) forget(record, (stored) => keptSince(stored) <= before)
    if (total > 0) purgeLater()
  }

  function purgeLater(): void {
    if (willPurge) return
    willPurge = true
    clock.after(KEPT_MS, purge)
  }

  function session(principal: string): SessionStreams {
    const record: SessionRecord = { principal, droppable: [], lasting: [], entries: new Map(), bytes: 0 }
    records.add(record)
    // Another process that continues the session counts from the beginning.
    const logId = randomBytes(6).toString('base64url')
    let count = UNRELATED

    function open(): Stream {
      const number = count++
      const connections: EventStream[] = []
      let isPrimed = false
      const idOf = (seq: number): string => `${logId}.${number}.${seq}`
      const close = (): void => {
        for (const connection of connections.splice(0)) connection.end()
      }
      const stream: Stream = {
        get isAttached() {
          return connections.length > 0
        },
        get isResumable() {
          return isPrimed || entry.seq > 0
        },
        send(message) {
          const connection = connections.at(-1)
          if (maxBytes === 0) return connection?.send(message)
          if (!records.has(record)) return
          const data = piecesOf(message)
          const droppable = isDroppable(message)
          const seq = ++entry.seq
          const answers = 'method' in message ? undefined : (message as Message).id
          const stored = { entry, seq, at: clock.now(), data: copyPieces(data), bytes: sizeOf(data), answers }
          record[droppable ? 'droppable' : 'lasting'].push(stored)
          entry.storedCount++
          addBytes(record, stored.bytes)
          connection?.put(data, idOf(seq), droppable)
          trim(record)
          purgeLater()
        },
        prime() {
          if (maxBytes === 0) return
          isPrimed = true
          connections.at(-1)?.prime(idOf(entry.seq))
        },
        comment: () => connections.at(-1)?.comment(),
        attach(events, after) {
          // Messages without a request use the newest connection, and the one before it when that closes. A request has one
          // connection: the client has given up the older one.
          if (number !== UNRELATED) for (const older of connections.splice(0)) older.drop()
          connections.push(events)
          if (after !== undefined)
            for (const { data, seq } of [...record.droppable, ...record.lasting]
              .filter((stored) => stored.entry === entry && stored.seq > after)
              .sort((one, other) => one.seq - other.seq))
              events.put(data, idOf(seq), false)
          if (entry.endedAt !== undefined) close()
        },
        detach(events) {
          const at = connections.indexOf(events)
          if (at !== -1) connections.splice(at, 1)
        },
        end() {
          entry.endedAt = clock.now()
          if (entry.storedCount === 0) record.entries.delete(number)
          else addBytes(record, ENTRY_BYTES)
          close()
          trim(record)
        },
        drop() {
          forget(record, (stored) => stored.entry === entry)
          record.entries.delete(number)
          close()
        },
      }
      const entry: StreamEntry = { number, stream, seq: 0, storedCount: 0, endedAt: undefined }
      record.entries.set(number, entry)
      return stream
    }

    return {
      unrelated: open(),
      open,
      find(lastEventId) {
        const eventId = parseEventId(lastEventId)
        if (eventId?.logId !== logId || eventId.stream >= count) return undefined
        const found = record.entries.get(eventId.stream)
        if (!found || (found.endedAt !== undefined && found.seq <= eventId.seq)) return 'over'
        return { stream: found.stream, after: eventId.seq, id: lastEventId }
      },
      close() {
        for (const { stream } of [...record.entries.values()]) stream.end()
        records.delete(record)
        addBytes(record, -record.bytes)
      },
    }
  }

  return {
    session,
    isOn: maxBytes > 0,
    get bytes() {
      return total
    },
  }
}

/** Number of the stream for messages that belong to no request. */
const UNRELATED = 0

/** Whether an id belongs to the stream of a request, of any session. */
export const isOfRequest = (lastEventId: unknown): lastEventId is string =>
  typeof lastEventId === 'string' && (parseEventId(lastEventId)?.stream ?? UNRELATED) !== UNRELATED

function parseEventId(
  id: string,
): { readonly logId: string; readonly stream: number; readonly seq: number } | undefined {
  const [, logId, stream, seq] = /^([\w-]{8})\.(\d{1,15})\.(\d{1,15})$/.exec(id) ?? []
  return logId === undefined ? undefined : { logId, stream: Number(stream), seq: Number(seq) }
}

const RESULT_LOST = {
  code: -32603,
  message: 'The connection broke, and the result is no longer stored. The call may have run.',
}

/** Estimated memory of a stream, and of a message in addition to its text. */
const ENTRY_BYTES = 1_000
const OVERHEAD_BYTES = 200
const sizeOf = (data: Pieces): number => data.reduce((sum, piece) => sum + Buffer.byteLength(piece), OVERHEAD_BYTES)

/** A copy: the bytes of a result are a slice of a larger buffer. */
const copyPieces = (data: Pieces): Pieces =>
  data.map((piece) => (typeof piece === 'string' ? piece : Buffer.from(piece)))
