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
  let verdict: EraVerdict | undefined
  let hasConnected = false
  /**
   * What the next attempt does, after the server died with and without the era probe: attempts with and without the
   * probe then alternate, one process each. `undefined` for other servers.
   */
  let alternatingProbe: 'probe' | 'plain' | undefined

  function setVerdict(value: EraVerdict | undefined): void {
    verdict = value
    hasConnected ||= value !== undefined
  }

  return {
    get verdict(): EraVerdict | undefined {
      return verdict
    },
    set verdict(value) {
      setVerdict(value)
    },
    /** True if the server was ever connected, also in an earlier run. */
    get hasConnected(): boolean {
      return hasConnected
    },
    /** Begins a connection attempt. */
    begin(at: number) {
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
        connected({ era, transport, probe }: Connection): void {
          // The era was not probed this time, so the verdict keeps its age.
          if (probe === 'none' && known?.era === era) setVerdict({ ...known, transport })
          else setVerdict({ era, transport, at, ...(era === 'legacy' && probe === 'silent' ? { silent: true } : {}) })
          alternatingProbe = undefined
        },
        /** The server answered the probe too late for this connection, but in time for the next. */
        answeredLate: ({ transport }: Connection): void => setVerdict({ era: 'modern', transport, at }),
        failed(): void {
          // The server may have been replaced by another version.
          verdict = undefined
          const alternates = alternatingProbe !== undefined || probeFatal
          alternatingProbe = alternatingProbe === 'probe' && probeFatal ? 'plain' : alternates ? 'probe' : undefined
        },
      }
    },
  }
}
