import { epochMs } from '../core/clock.ts'
import type { Caller } from '../core/context.ts'
import type { ErrorCode } from '../core/errors.ts'
import { isRecord } from '../core/record.ts'
import { idOf, type Run } from './context.ts'

/** One run that ended. Arguments and results are not kept: only what the arguments were like. */
export interface Execution {
  readonly callId: string
  readonly tool: string
  readonly ok: boolean
  /** Why it failed. */
  readonly code?: string
  /** When it began, in milliseconds since the epoch. */
  readonly at: number
  readonly ms: number
  readonly principal: string
  readonly profile: string
  readonly session?: string
  /** `path: string, limit: number`. */
  readonly arguments: string
}

/** The last runs. */
export interface History {
  /** Takes down a run that ended. `startedAt` and `ms` as of `monotonicMs`; `code` of one that failed. */
  add(
    tool: string,
    caller: Caller,
    input: unknown,
    run: Pick<Run, 'id'>,
    startedAt: number,
    ms: number,
    code: ErrorCode | undefined,
  ): void
  /** The last `n` runs of a principal, in one session where that is given; the latest last. */
  latest(n: number, of: { readonly principal: string; readonly session?: string }): readonly Execution[]
}

interface Entry {
  tool: string
  principal: string
  profile: string
  session: string | undefined
  shape: string
  run: Pick<Run, 'id'>
  startedAt: number
  ms: number
  code: string | undefined
}

const KEPT = 1_000
const MAX_SHOWN = 12

export function createHistory(): History {
  const ring: Entry[] = []
  let next = 0

  function* backwards(): Generator<Entry> {
    for (let step = 1; step <= ring.length; step++) yield ring[(next - step + KEPT) % KEPT] as Entry
  }

  return {
    add(tool, { principal, profile, session }, input, run, startedAt, ms, code) {
      const shape = shapeOf(input)
      const old = ring[next]
      if (old) {
        // Written over, not made anew: what lives for a thousand calls is copied twice before it is thrown away.
        old.tool = tool
        old.principal = principal
        old.profile = profile
        old.session = session
        old.shape = shape
        old.run = run
        old.startedAt = startedAt
        old.ms = ms
        old.code = code
      } else ring[next] = { tool, principal, profile, session, shape, run, startedAt, ms, code }
      next = (next + 1) % KEPT
    },
    latest(n, { principal, session }) {
      const found: Execution[] = []
      for (const entry of backwards()) {
        if (found.length >= n) break
        if (entry.principal === principal && (session === undefined || entry.session === session))
          found.push(executionOf(entry))
      }
      return found.reverse()
    },
  }
}

const executionOf = ({ tool, principal, profile, session, shape, run, startedAt, ms, code }: Entry): Execution => ({
  callId: idOf(run),
  tool,
  ok: code === undefined,
  ...(code === undefined ? {} : { code }),
  at: Math.round(epochMs(startedAt)),
  ms: Math.round(ms),
  principal,
  profile,
  ...(session === undefined ? {} : { session }),
  arguments: shape,
})

/** Names and types, no values: those may be secret, and large. */
function shapeOf(input: unknown): string {
  if (!isRecord(input)) return ''
  let shape = ''
  let shown = 0
  for (const name in input) {
    if (shown === MAX_SHOWN) return `${shape}, …`
    const value = input[name]
    const kind = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value
    shape += `${shown++ === 0 ? '' : ', '}${name.length > 40 ? `${name.slice(0, 40)}…` : name}: ${kind}`
  }
  return shape
}
