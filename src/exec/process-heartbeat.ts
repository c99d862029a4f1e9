import { randomBytes } from 'node:crypto'
import { type Clock, createJumpDetector, ticksOf } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { createProcessMark, hasEnded } from '../state/process-mark.ts'
import type { SharedState } from '../state/shared-state.ts'

/** Tells the processes that share a store that this one is alive while it has work. */
export type ProcessHeartbeat = ReturnType<typeof createProcessHeartbeat>

/** A heartbeat: its time, and the mark by which others on this machine see that the process has ended. */
interface Heartbeat {
  readonly at: number
  readonly mark?: string
}

const BEAT_MS = 5_000
const CHECK_MS = 5_000

/** When to check again whether another process still runs its work. Rounded up, so that all processes use one alarm. */
export const nextCheckAt = (now: number): number => Math.ceil((now + CHECK_MS) / CHECK_MS) * CHECK_MS

/** Lifetime of a heartbeat. Three intervals, so that a slow process does not count as dead. */
const BEAT_TTL_MS = 15_000
/** Processes that only wait for due work send heartbeats less often. */
const MEMBER_BEAT_MS = 60_000
const MEMBER_TTL_MS = 150_000
/** A heartbeat from further in the future was sent while the clock was wrong. */
const MAX_AHEAD_MS = 1_000

export function createProcessHeartbeat(shared: Pick<SharedState, 'store' | 'onReconnect'>, clock: Clock, log: Log) {
  const id = randomBytes(8).toString('hex')
  const mark = createProcessMark()
  const listeners: Array<() => void> = []
  let work = 0
  let sentAt = Number.NEGATIVE_INFINITY
  let cancel: (() => void) | undefined
  const table = () => shared.store().table<Heartbeat | number>('instance')
  const members = () => shared.store().table<number>('member')
  let cancelRenewal: (() => void) | undefined
  let joined = false
  async function renewMembership(): Promise<void> {
    cancelRenewal?.()
    if (!joined) return
    cancelRenewal = clock.after(MEMBER_BEAT_MS, () => void renewMembership().catch(logFailure))
    await members().put({ id, owner: '', value: process.pid, expiresAt: clock.now() + MEMBER_TTL_MS })
  }

  let sending = Promise.resolve()
  function sendBeat(): Promise<void> {
    const now = ticksOf(clock)
    if (now - sentAt < BEAT_MS) return sending
    sentAt = now
    sending = table()
      .put({
        id,
        owner: '',
        value: { at: clock.now(), ...(mark === undefined ? {} : { mark }) },
        expiresAt: clock.now() + BEAT_TTL_MS,
      })
      .then(
        () => undefined,
        (error: unknown) => {
          sentAt = Number.NEGATIVE_INFINITY
          throw error
        },
      )
    return sending
  }
  const logFailure = (error: unknown): void =>
    log.warn('cannot record in the store that this process is running', { error: messageOf(error) })
  // While the store was unavailable, no process could send heartbeats. So each process gets time to send one.
  let graceStartedAt = Number.NEGATIVE_INFINITY
  function startGracePeriod(): void {
    graceStartedAt = ticksOf(clock)
    sentAt = Number.NEGATIVE_INFINITY
    if (work > 0) sendBeat().catch(logFailure)
  }
  shared.onReconnect(startGracePeriod)
  // Also after the clock was set or the machine slept, because lifetimes are wrong then.
  const detectJump = createJumpDetector(clock)
  function checkClock(): void {
    if (detectJump() !== 0) startGracePeriod()
  }
  function scheduleBeat(): void {
    cancel ??= clock.after(BEAT_MS, () => {
      cancel = undefined
      if (work === 0) return
      checkClock()
      sendBeat().catch(logFailure)
      for (const listener of listeners) listener()
      scheduleBeat()
    })
  }
  return {
    id,
    /** Call this before work is stored. Resolves when a heartbeat is stored. */
    async begin(): Promise<void> {
      work++
      scheduleBeat()
      await sendBeat()
    },
    end: (): void => void work--,
    async isAlive(other: string): Promise<boolean> {
      if (other === id) return true
      checkClock()
      const value = (await table().get(other))?.value
      // Earlier versions stored a number.
      const heartbeat = typeof value === 'object' ? value : undefined
      if (heartbeat?.mark !== undefined && hasEnded(heartbeat.mark)) return false
      if (ticksOf(clock) - graceStartedAt < BEAT_TTL_MS) return true
      return value !== undefined && (heartbeat === undefined || heartbeat.at <= clock.now() + MAX_AHEAD_MS)
    },
    /** Registers this process as one that runs due work. */
    async join(): Promise<void> {
      joined = true
      await renewMembership()
    },
    /** True if no other process is registered. */
    async alone(): Promise<boolean> {
      return (await members().list()).every((member) => member.id === id)
    },
    onBeat: (listener: () => void): void => void listeners.push(listener),
    /** Stops sending heartbeats. Does not remove the registration of this process. */
    stop(): void {
      cancel?.()
      cancelRenewal?.()
      joined = false
    },
    async leave(): Promise<void> {
      if (!joined) return
      joined = false
      cancelRenewal?.()
      await members().delete(id)
    },
  }
}
