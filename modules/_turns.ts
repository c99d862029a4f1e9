import { createSemaphore, type ToolDef } from 'pegboard'

/** Limits concurrency. Principals are served in turn, and the calls of each in their order. */
export interface Turns {
  /** Resolves to a function that ends the turn. Rejects with the signal's reason if that comes first. */
  take(who: string, signal: AbortSignal): Promise<() => void>
  /** Another turn for a principal that has one, if no client waits for it. */
  takeFree(who: string): (() => void) | undefined
}

/** @param share turns that one principal can have at once; of three or more it leaves one to others, because turns can be long */
export function createTurns(most: number, share = most > 2 ? most - 1 : most): Turns {
  const slots = createSemaphore({ maxConcurrent: most, share, maxQueued: Number.POSITIVE_INFINITY, setting: '' })
  function endOnce(who: string): () => void {
    let isOver = false
    return () => {
      if (!isOver) slots.release(who)
      isOver = true
    }
  }
  return {
    takeFree(who) {
      if (!slots.isFree(who)) return undefined
      slots.reacquire(who)
      return endOnce(who)
    },
    async take(who, signal) {
      signal.throwIfAborted()
      await slots.acquire(signal, who)
      return endOnce(who)
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
