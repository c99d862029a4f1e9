import { createSemaphore, type ToolDef } from 'pegboard'

/** Limits concurrency. Principals are served in turn, and the calls of each in their order. */
export interface Turns {
  /** Resolves to a function that ends the turn. Rejects with the signal's reason if that comes first. */
  take(principal: string, signal: AbortSignal): Promise<() => void>
  /** Another turn for a principal that has one, if no client waits for it. */
  takeFree(principal: string): (() => void) | undefined
}

/** @param maxPerPrincipal turns that one principal can have at once; of three or more it leaves one to others, because turns can be long */
export function createTurns(maxTotal: number, maxPerPrincipal = maxTotal > 2 ? maxTotal - 1 : maxTotal): Turns {
  const slots = createSemaphore({
    maxConcurrent: maxTotal,
    share: maxPerPrincipal,
    maxQueued: Number.POSITIVE_INFINITY,
    setting: '',
  })
  function endOnce(principal: string): () => void {
    let isOver = false
    return () => {
      if (!isOver) slots.release(principal)
      isOver = true
    }
  }
  return {
    takeFree(principal) {
      if (!slots.isFree(principal)) return undefined
      slots.reacquire(principal)
      return endOnce(principal)
    },
    async take(principal, signal) {
      signal.throwIfAborted()
      await slots.acquire(signal, principal)
      return endOnce(principal)
    },
  }
}

/** Returns the tools; their calls take turns. */
export const inTurns = <Tools extends object>(turns: Turns, tools: Tools): Tools =>
  Object.fromEntries(
    Object.entries(tools).map(([name, tool]: [string, ToolDef<unknown, unknown>]) => [name, toolInTurns(turns, tool)]),
  ) as Tools

const toolInTurns = <Settings, Input>(turns: Turns, tool: ToolDef<Settings, Input>): ToolDef<Settings, Input> => ({
  ...tool,
  async run(input, ctx) {
    const endTurn = await turns.take(ctx.caller.principal, ctx.signal)
    try {
      return await tool.run(input, ctx)
    } finally {
      endTurn()
    }
  },
})
