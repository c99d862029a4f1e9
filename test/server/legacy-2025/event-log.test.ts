import { describe, expect, it } from 'vitest'
import type { EventStream } from '../../../src/server/event-stream.ts'
import { createEventLog, KEPT_MS, type SessionStreams, type Stream } from '../../../src/server/legacy-2025/event-log.ts'
import { createManualClock } from '../../clock.ts'

/** A connection with its output, as `id message`. */
function connection() {
  const came: string[] = []
  let ended = false
  let dropped = false
  const events: EventStream = {
    send: (message) => void came.push(JSON.stringify(message)),
    put: (data, id) => void came.push(`${id.split('.')[2]} ${data.map(String).join('')}`),
    prime: (id) => void came.push(id),
    event: () => undefined,
    comment: () => undefined,
    end: () => {
      ended = true
    },
    drop: () => {
      dropped = true
    },
    closed: false,
  }
  return { events, came, ended: () => ended, dropped: () => dropped }
}

const KIB = 1024
const answer = (id: number, bytes = 0) => ({ jsonrpc: '2.0', id, result: { text: 'x'.repeat(bytes) } })
const progress = (n: number, bytes = 0) => ({
  jsonrpc: '2.0',
  method: 'notifications/progress',
  params: { n, text: 'x'.repeat(bytes) },
})

function log({ maxBytes = 100 * KIB, maxEvents = 100, maxTotalBytes = 1_000 * KIB } = {}) {
  const clock = createManualClock()
  return { clock, log: createEventLog({ clock, maxBytes, maxEvents, maxTotalBytes }) }
}

/** The id with which a client resumes a stream from its beginning. */
function idOf(stream: Stream): string {
  const { events, came } = connection()
  stream.attach(events)
  stream.prime()
  stream.detach(events)
  return String(came[0])
}

/** The output for a resuming client. */
function resumed(streams: SessionStreams, id: string): readonly string[] | 'over' | undefined {
  const found = streams.find(id)
  if (typeof found !== 'object') return found
  const { events, came } = connection()
  found.stream.attach(events, found.after)
  return came
}

const seqOf = (line: string): number => Number(line.split(' ')[0])
const messageOf = (line: string): unknown => JSON.parse(line.slice(line.indexOf(' ')))

describe('the stored events of a stream', () => {
  it('after an id are sent in order, and the stream continues there', () => {
    const { log: events } = log()
    const streams = events.session('ann')
    const [stream, other] = [streams.open(), streams.open()]
    const id = idOf(stream)
    stream.send(progress(1))
    stream.send(answer(1))
    other.send(answer(2))
    stream.send(progress(2))
    const again = connection()
    const { after } = streams.find(id.replace(/0$/, '1')) as { after: number }
    stream.attach(again.events, after)
    expect(again.came.map(seqOf)).toEqual([2, 3])
    stream.send(progress(3))
    expect(again.came.map(seqOf)).toEqual([2, 3, 4])
    stream.end()
    expect(again.ended()).toBe(true)
  })

  it('go to one connection: an older one for the same request is closed', () => {
    const streams = log().log.session('ann')
    const stream = streams.open()
    const [first, second] = [connection(), connection()]
    stream.attach(first.events)
    stream.attach(second.events, 0)
    stream.send(answer(1))
    expect([first.dropped(), first.came, second.came.map(seqOf)]).toEqual([true, [], [1]])
  })

  it('are limited in number: progress and logs are dropped first, oldest first', () => {
    const streams = log({ maxEvents: 10 }).log.session('ann')
    const stream = streams.open()
    const id = idOf(stream)
    stream.send(answer(1))
    for (let n = 2; n <= 1_000; n++) stream.send(progress(n))
    expect((resumed(streams, id) as string[]).map(seqOf)).toEqual([1, 992, 993, 994, 995, 996, 997, 998, 999, 1_000])
  })

  it('are limited in bytes; an answer that does not fit is replaced by an error', () => {
    const { log: events } = log({ maxBytes: 100 * KIB })
    const streams = events.session('ann')
    const ended = [60, 60, 200].map((size, at) => {
      const stream = streams.open()
      const id = idOf(stream)
      stream.send(progress(0, 30 * KIB))
      stream.send(answer(at, size * KIB))
      stream.end()
      return id
    })
    expect(events.bytes).toBeLessThan(100 * KIB)
    const message = 'The connection broke, and the result is no longer stored. The call may have run.'
    for (const [at, id] of ended.entries())
      expect((resumed(streams, id) as string[]).map(messageOf)).toEqual([
        { jsonrpc: '2.0', id: at, error: { code: -32603, message } },
      ])
    const stream = streams.open()
    const id = idOf(stream)
    stream.send(answer(9, 60 * KIB))
    expect(String(resumed(streams, id))).toContain('2.0","id":9,"result"')
  })

  it('are dropped five minutes after the end of the stream, and not during a call', () => {
    const { log: events, clock } = log()
    const streams = events.session('ann')
    const [over, running] = [streams.open(), streams.open()]
    const ids = [idOf(over), idOf(running)] as const
    over.send(answer(1))
    running.send(progress(1))
    over.end()
    clock.pass(KEPT_MS - 1)
    expect(resumed(streams, ids[0])).toHaveLength(1)
    clock.pass(KEPT_MS)
    expect(resumed(streams, ids[0])).toBe('over')
    expect(resumed(streams, ids[1])).toHaveLength(1)
    running.send(answer(2))
    running.end()
    clock.pass(2 * KEPT_MS)
    expect(resumed(streams, ids[1])).toBe('over')
    expect(events.bytes).toBe(0)
  })

  it('of no request are dropped after five minutes', () => {
    const { log: events, clock } = log()
    const streams = events.session('ann')
    const id = idOf(streams.unrelated)
    streams.unrelated.send({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' })
    clock.pass(KEPT_MS / 2)
    streams.unrelated.send({ jsonrpc: '2.0', method: 'notifications/prompts/list_changed' })
    expect((resumed(streams, id) as string[]).map(seqOf)).toEqual([1, 2])
    clock.pass(KEPT_MS / 2)
    expect((resumed(streams, id) as string[]).map(seqOf)).toEqual([2])
    clock.pass(2 * KEPT_MS)
    expect([resumed(streams, id), events.bytes]).toEqual([[], 0])
  })

  it('are bounded for calls without an answer, and for any number of streams', () => {
    const { log: events } = log({ maxEvents: 10 })
    const streams = events.session('ann')
    const ids = Array.from({ length: 1_000 }, (_, n) => {
      const stream = streams.open()
      const id = idOf(stream)
      if (n % 2) stream.send(answer(n))
      stream.end()
      return id
    })
    expect(ids.filter((id) => resumed(streams, id) !== 'over')).toHaveLength(10)
    expect(events.bytes).toBeLessThan(10 * 2 * KIB)
  })

  it('are dropped with the session', () => {
    const { log: events } = log()
    const streams = events.session('ann')
    const stream = streams.open()
    stream.send(answer(1, KIB))
    streams.unrelated.send(progress(1))
    streams.close()
    stream.send(answer(2, KIB))
    expect(events.bytes).toBe(0)
  })

  it('are not those of another session with similar ids', () => {
    const { log: events } = log()
    const [ann, bob] = [events.session('ann'), events.session('bob')]
    const stream = ann.open()
    bob.open().send(answer(1))
    stream.send(answer(1))
    const id = idOf(stream)
    expect([bob.find(id), typeof ann.find(id), bob.find(idOf(ann.unrelated))]).toEqual([undefined, 'object', undefined])
  })
})

describe('the stored events of all sessions', () => {
  it('have their own limit: the largest session loses first, and others nothing', () => {
    const { log: events } = log({ maxTotalBytes: 200 * KIB })
    const ann = events.session('ann')
    const mine = ann.open()
    const id = idOf(mine)
    mine.send(answer(1, 90 * KIB))
    for (let n = 0; n < 20; n++)
      events
        .session('bob')
        .open()
        .send(answer(n, 50 * KIB))
    expect(events.bytes).toBeLessThanOrEqual(200 * KIB)
    expect(String(resumed(ann, id))).toContain('"result"')
  })
})
