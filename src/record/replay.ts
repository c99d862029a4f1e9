import { statSync } from 'node:fs'
import { PegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import type { UpstreamTransport } from '../upstream/transport.ts'
import { type Cassette, type Exchange, keyOf, type RecordedAnswer, readCassette } from './cassette.ts'
import { createReplayTransport } from './replay-transport.ts'
import type { Scrub } from './scrubber.ts'

/** The recording of one server, for all of its connections. */
export interface Player extends Pick<Cassette, 'server' | 'transport' | 'handshake' | 'calls'> {
  /** The next answer to a request; the last one again when all were used. */
  next(method: string, params: Json): RecordedAnswer | undefined
  /** @param version number of changes of this list that calls of the connection have caused */
  list(method: string, params: Json, version: number): RecordedAnswer | undefined
}

/**
 * Answers for servers from a folder of recordings. No server is started.
 * @returns opens a channel to a server. @throws PegboardError E_RECORDING, E_NOT_RECORDED
 */
export function createReplay(dir: string, scrub: Scrub): (server: string) => UpstreamTransport {
  if (!statSync(dir, { throwIfNoEntry: false })?.isDirectory())
    throw new PegboardError('E_RECORDING', `There is no folder ${dir}.`, {
      hint: 'pegboard record creates it.',
    })
  const players = new Map<string, Player>()
  return (server) => {
    const player = players.get(server) ?? createPlayer(dir, server)
    players.set(server, player)
    return createReplayTransport(player, scrub)
  }
}

function createPlayer(dir: string, server: string): Player {
  const cassette = readCassette(dir, server)
  if (!cassette)
    throw new PegboardError('E_NOT_RECORDED', `there is no recording of it in ${dir}`, {
      hint: 'To add it, run pegboard record with this server in the configuration.',
    })
  const index = (exchanges: readonly Exchange[]): ReadonlyMap<string, readonly RecordedAnswer[]> =>
    new Map(exchanges.map(({ method, params, answers }) => [keyOf(method, params), answers]))
  const calls = index(cassette.calls)
  const lists = index(cassette.lists)
  const used = new Map<string, number>()
  return {
    server,
    transport: cassette.transport,
    handshake: cassette.handshake,
    calls: cassette.calls,
    next(method, params) {
      const key = keyOf(method, params)
      const answers = calls.get(key)
      const count = used.get(key) ?? 0
      used.set(key, count + 1)
      return answers?.[Math.min(count, answers.length - 1)]
    },
    list(method, params, version) {
      const answers = lists.get(keyOf(method, params))
      return answers?.[Math.min(version, answers.length - 1)]
    },
  }
}
