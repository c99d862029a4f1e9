import type { Caller } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import type { Adapters } from '../core/service-types.ts'
import { compileGlob } from '../policy/glob.ts'
import type { Outcome } from './outcome.ts'

/** Sends results to a channel of a chat platform, such as `telegram:42`, or to `mcp`: the caller's own clients. */
export interface Delivery {
  /**
   * @throws PegboardError E_NOT_FOUND for an unknown platform, E_TOOL_HIDDEN for a channel that the operator did not
   * allow
   */
  check(caller: Caller, channel: string): void
  /** Checks the channel again, because the operator may have closed it. @throws PegboardError */
  send(caller: Caller, channel: string, text: string): Promise<void>
}

export interface DeliveryOptions {
  adapters(caller: Caller): Adapters | null
  /** Patterns of the channels that texts may be sent to. */
  readonly channels: readonly string[]
}

/** The caller's own clients, which receive all notices anyway. */
const OWN_CLIENTS = 'mcp'

export function createDelivery({ adapters, channels }: DeliveryOptions): Delivery {
  // Channel names may contain a slash, which is no separator here.
  const replaceSlashes = (text: string): string => text.replaceAll('/', '\u2044')
  const allowedChannels = channels.map((pattern) => compileGlob(replaceSlashes(pattern)))

  function adapterOf(caller: Caller, address: string) {
    const [name = '', ...rest] = address.split(':')
    const available = adapters(caller)
    const adapter = available?.get(name)
    if (!adapter)
      throw new PegboardError('E_NOT_FOUND', `There is no channel '${address.slice(0, 80)}'.`, {
        hint: `Name a platform and its channel, such as "mcp"; there are ${(available?.list() ?? []).map((one) => one.name).join(', ') || 'none'}.`,
      })
    if (name !== OWN_CLIENTS && !allowedChannels.some((matches) => matches(replaceSlashes(address))))
      throw new PegboardError('E_TOOL_HIDDEN', `Results cannot be sent to '${address.slice(0, 80)}'.`, {
        hint: 'The operator opens channels with execution.outputChannels.',
      })
    return { adapter, channel: rest.join(':') }
  }

  return {
    check: (caller, channel) => void adapterOf(caller, channel),
    async send(caller, address, text) {
      const { adapter, channel } = adapterOf(caller, address)
      await adapter.send(channel, text)
    },
  }
}

/** The text to send: a text unchanged, everything else as JSON, cut to `maxChars`. */
export function textOf(outcome: Outcome, maxChars: number): string {
  const text = outcome.success
    ? typeof outcome.data === 'string'
      ? outcome.data
      : (JSON.stringify(outcome.data) ?? 'null')
    : outcome.error
  return text.length > maxChars ? `${text.slice(0, maxChars - 1)}…` : text
}
