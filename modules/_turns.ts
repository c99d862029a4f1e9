import type { ToolDef } from 'pegboard'

/** Limits concurrency. Principals are served in turn, and the calls of each in their order. */
export interface Turns {
  /** Resolves to a function that ends the turn. Rejects with the signal's reason if that comes first. */
  take(who: string, signal: AbortSignal): Promise<() => void>
  /** Another turn for a principal that has one, if no client waits for it. */
  takeFree(who: string): (() => void) | undefined
}

/** @param share turns that one principal can have at once; of three or more it leaves one to others, because turns can be long */
export function createTurns(most: number, share = most > 2 ? most - 1 : most): Turns {
  const held = new Map<string, number>()
  // In the order in which they are served next.
  const lines = new Map<string, Set<() => void>>()
  let busy = 0

  const mayEnter = (who: string): boolean => busy < most && (held.get(who) ?? 0) < share

  function enter(who: string): () => void {
    busy++
    held.set(who, (held.get(who) ?? 0) + 1)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      busy--
      const left = (held.get(who) as number) - 1
      if (left > 0) held.set(who, left)
      else held.delete(who)
      toEnd(who)
      callNext()
    }
  }

  function callNext(): void {
    for (const [who, line] of lines) {
      const [go] = line
      if (!go || !mayEnter(who)) continue
      toEnd(who)
      go()
      return
    }
  }

  /** A principal that was served goes to the end. */
  function toEnd(who: string): void {
    const line = lines.get(who)
    if (!line) return
    lines.delete(who)
    lines.set(who, line)
  }

  return {
    takeFree: (who) => (mayEnter(who) ? enter(who) : undefined),
    async take(who, signal) {
      signal.throwIfAborted()
      if (mayEnter(who)) return enter(who)
      return await new Promise((resolve, reject) => {
        const line = lines.get(who) ?? new Set()
        const leave = (): void => {
          signal.removeEventListener('abort', abort)
          line.delete(go)
          if (line.size === 0) lines.delete(who)
        }
        const go = (): void => {
          leave()
          resolve(enter(who))
        }
        const abort = (): void => {
          leave()
          reject(signal.reason)
        }
        signal.addEventListener('abort', abort, { once: true })
        lines.set(who, line.add(go))
      })
    },
  }
}

/** Returns the tools; their calls take turns. */
export const inTurns = <Tools extends object>(turns: Turns, tools: Tools): Tools =>
  Object.fromEntries(
    Object.entries(tools).map(([name, tool]: [string, ToolDef<unknown, unknown>]) => [name, oneInTurns(turns, tool)]),
  ) as Tools

const oneInTurns = <Settings, Input>(turns: Turns, tool: ToolDef<Settings, Input>): ToolDef<Settings, Input> => ({
  ...tool,
  async run(input, ctx) {
    const end = await turns.take(ctx.caller.principal, ctx.signal)
    try {
      return await tool.run(input, ctx)
    } finally {
      end()
    }
  },
})
