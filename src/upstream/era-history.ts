import type { Connection, ConnectOptions } from './connection.ts'

/** The protocol era of a server when it was last probed. */
export interface EraVerdict {
  readonly era: 'legacy' | 'modern'
  readonly transport: 'stdio' | 'http' | 'sse'
  /** When it was probed, in milliseconds since the epoch. */
  readonly at: number
  /** The server did not answer in time, possibly because the machine was busy. */
  readonly silent?: true
}

const DAY_MS = 24 * 60 * 60_000

/** A legacy verdict is valid for a week, because servers get updated; one caused by silence for a day. */
export const isStale = ({ era, at, silent }: EraVerdict, now: number): boolean =>
  era === 'legacy' && now - at > (silent ? DAY_MS : 7 * DAY_MS)

/** For a server that must not be probed now. */
const PLAIN: EraVerdict = { era: 'legacy', transport: 'stdio', at: 0 }

/** Remembers what connection attempts learned about the era of a server, so that the next attempt need not probe it. */
export function createEraHistory() {
  /** True if the server was ever connected, also in an earlier run. */
  let hasConnected = false
  /**
   * What the next attempt does, after the server died with and without the era probe: attempts with and without the
   * probe then alternate, one process each. `undefined` for other servers.
   */
  let alternatingProbe: 'probe' | 'plain' | undefined
  let verdict: EraVerdict | undefined
  return {
    get verdict(): EraVerdict | undefined {
      return verdict
    },
    /** Sets what an earlier run or another connection to the server learned. */
    restore(learned: EraVerdict | undefined): void {
      verdict = learned
    },
    /** Begins a connection attempt. */
    begin(at: number) {
      hasConnected ||= verdict !== undefined
      const known = verdict && isStale(verdict, at) ? undefined : verdict
      let probeFatal = false
      const options: Pick<ConnectOptions, 'once' | 'verdict' | 'onProbeFatal'> = {
        once: alternatingProbe !== undefined,
        verdict: known ?? (alternatingProbe === 'plain' ? PLAIN : undefined),
        onProbeFatal() {
          probeFatal = true
        },
      }
      return {
        /** How `connect` probes the server. */
        options,
        hasConnected,
        connected({ era, transport, probe }: Connection): void {
          const silent = era === 'legacy' && probe === 'silent' ? { silent: true as const } : {}
          // If the era was not probed this time, the verdict keeps its age.
          verdict = probe === 'none' && known?.era === era ? { ...known, transport } : { era, transport, at, ...silent }
          hasConnected = true
          alternatingProbe = undefined
        },
        /** The server answered the probe too late for this connection, but in time for the next. */
        answeredLate({ transport }: Connection): void {
          verdict = { era: 'modern', transport, at }
        },
        failed(): void {
          // The server may have been replaced by another version.
          verdict = undefined
          if (alternatingProbe === 'probe' && probeFatal) alternatingProbe = 'plain'
          else if (alternatingProbe !== undefined || probeFatal) alternatingProbe = 'probe'
        },
      }
    },
  }
}

export type EraHistory = ReturnType<typeof createEraHistory>
