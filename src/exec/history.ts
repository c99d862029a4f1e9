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

export interface ToolCount {
  readonly tool: string
  readonly calls: number
  readonly failures: number
  /** Of the calls that were successful, on average. */
  readonly ms: number
}

/** The last runs, and how often each tool ran. */
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
  /** How often a tool ran successfully, whoever ran it: ranking uses it. */
  usage(tool: string): number
  /** The last `n` runs of a principal, in one session where that is given; the latest last. */
  latest(n: number, of: { readonly principal: string; readonly session?: string }): readonly Execution[]
  /** How often a principal ran each tool. */
  counts(principal: string): readonly ToolCount[]
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

interface Counter {
  ok: number
  failed: number
  ms: number
}

const KEPT = 1_000
const MAX_PRINCIPALS = 1_000
const MAX_SHOWN = 12

export function createHistory(): History {
  const ring: Entry[] = []
  let next = 0
  const usage = new Map<string, Counter>()
  const principals = new Map<string, Map<string, Counter>>()

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
      let own = principals.get(principal)
      if (!own) {
        if (principals.size >= MAX_PRINCIPALS) principals.delete(principals.keys().next().value as string)
        own = new Map()
        principals.set(principal, own)
      }
      count(own, tool, ms, code)
      count(usage, tool, ms, code)
    },
    usage: (tool) => usage.get(tool)?.ok ?? 0,
    latest(n, { principal, session }) {
      const found: Execution[] = []
      for (const entry of backwards()) {
        if (found.length >= n) break
        if (entry.principal === principal && (session === undefined || entry.session === session))
          found.push(executionOf(entry))
      }
      return found.reverse()
    },
    counts: (principal) =>
      [...(principals.get(principal) ?? [])].map(([tool, { ok, failed, ms }]) => ({
        tool,
        calls: ok + failed,
        failures: failed,
        ms: ok === 0 ? 0 : Math.round(ms / ok),
      })),
  }
}

function count(counters: Map<string, Counter>, tool: string, ms: number, code: string | undefined): void {
  let counter = counters.get(tool)
  if (!counter) {
    counter = { ok: 0, failed: 0, ms: 0 }
    counters.set(tool, counter)
  }
  if (code !== undefined) counter.failed++
  else {
    counter.ok++
    counter.ms += ms
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
