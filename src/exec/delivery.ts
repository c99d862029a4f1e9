import type { Caller } from '../core/context.ts'
import { PegboardError } from '../core/errors.ts'
import type { Adapters } from '../core/services.ts'
import { compileGlob } from '../policy/glob.ts'
import type { Outcome } from './outcome.ts'

/** Takes what a call gave to a channel of a chat platform: `telegram:42`, or `mcp` for the caller's own clients. */
export interface Delivery {
  /** @throws PegboardError E_NOT_FOUND for a platform there is none of, E_TOOL_HIDDEN for a channel the operator did not open */
  check(caller: Caller, channel: string): void
  /** Checks it again: what was allowed when it was planned may not be any more. @throws PegboardError */
  send(caller: Caller, channel: string, text: string): Promise<void>
}

export interface DeliveryOptions {
  adapters(caller: Caller): Adapters | null
  /** Patterns of channels that texts may be sent to. */
  readonly channels: readonly string[]
}

/** Reaches the clients of the caller alone, whom everything is told anyway. */
const OWN = 'mcp'

export function createDelivery({ adapters, channels }: DeliveryOptions): Delivery {
  // Channels may have any character in them, so a pattern sees no folders there.
  const flat = (text: string): string => text.replaceAll('/', '\u2044')
  const opened = channels.map((pattern) => compileGlob(flat(pattern)))

  function adapterOf(caller: Caller, given: string) {
    const [name = '', ...rest] = given.split(':')
    const all = adapters(caller)
    const adapter = all?.get(name)
    if (!adapter)
      throw new PegboardError('E_NOT_FOUND', `There is no channel '${given.slice(0, 80)}'.`, {
        hint: `Name a platform and its channel, such as "mcp"; there are ${(all?.list() ?? []).map((one) => one.name).join(', ') || 'none'}.`,
      })
    if (name !== OWN && !opened.some((fits) => fits(flat(given))))
      throw new PegboardError('E_TOOL_HIDDEN', `Nothing may be sent to '${given.slice(0, 80)}'.`, {
        hint: 'The operator opens channels with execution.outputChannels.',
      })
    return { adapter, channel: rest.join(':') }
  }

  return {
    check: (caller, channel) => void adapterOf(caller, channel),
    async send(caller, given, text) {
      const { adapter, channel } = adapterOf(caller, given)
      await adapter.send(channel, text)
    },
  }
}

/** What there is to send: a text as it is, everything else as JSON, at most so long. */
export function textOf(outcome: Outcome, maxChars: number): string {
  const text = outcome.success
    ? typeof outcome.data === 'string'
      ? outcome.data
      : (JSON.stringify(outcome.data) ?? 'null')
    : outcome.error
  return text.length > maxChars ? `${text.slice(0, maxChars - 1)}…` : text
}
