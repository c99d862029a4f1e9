import { createInterface } from 'node:readline/promises'
import { isRecord } from '../core/is-record.ts'
import { toPrintable } from '../core/printable.ts'
import { ProtocolFailure } from '../core/protocol-failure.ts'
import type { Relay } from '../core/tool.ts'
import type { Io } from './io.ts'

type Json = Readonly<Record<string, unknown>>

/** Lets tools and the policy ask the person at the terminal; `undefined` without a terminal. */
export function promptOnTerminal(io: Io): Relay | undefined {
  if (io.input.isTTY !== true || io.terminal?.err !== true) return undefined
  return {
    meta: {},
    clientCapabilities: { elicitation: { form: {} } },
    async request(method, params, signal) {
      if (method !== 'elicitation/create' || !isRecord(params) || params['mode'] === 'url')
        throw new ProtocolFailure(-32601, `${method} cannot be answered in a terminal`)
      return await fill(io, params, signal)
    },
  }
}

async function fill(io: Io, { message, requestedSchema }: Json, signal: AbortSignal | undefined): Promise<Json> {
  const lines = createInterface({ input: io.input, terminal: false })
  const gone = new AbortController()
  lines.once('close', () => gone.abort())
  const stop = AbortSignal.any([gone.signal, io.stop, ...(signal ? [signal] : [])])
  const line = async (prompt: string): Promise<string> => {
    io.stderr(prompt)
    return (await lines.question('', { signal: stop })).trim()
  }
  try {
    io.stderr(`${toPrintable(String(message))}\n`)
    const fields =
      isRecord(requestedSchema) && isRecord(requestedSchema['properties']) ? requestedSchema['properties'] : {}
    const entries = Object.entries(fields)
    if (entries.length === 0)
      return /^y(?:es)?$/i.test(await line('[y/N] ')) ? { action: 'accept', content: {} } : { action: 'decline' }
    const content: Record<string, unknown> = {}
    for (const [name, field] of entries) {
      const value = typedAs(await line(`${toPrintable(name)}${hintOf(field)}: `), field)
      if (value !== undefined) content[name] = value
    }
    return { action: 'accept', content }
  } catch (error) {
    if (!stop.aborted) throw error
    // The call was cancelled, so there is no answer.
    if (signal?.aborted) throw signal.reason
    return { action: 'cancel' }
  } finally {
    lines.close()
  }
}

function hintOf(field: unknown): string {
  if (!isRecord(field)) return ''
  const choices = Array.isArray(field['enum']) ? field['enum'].join(', ') : undefined
  const about = field['description'] ?? field['title']
  return toPrintable(
    [about, choices]
      .filter(Boolean)
      .map((one) => ` (${one})`)
      .join(''),
  )
}

/** The typed text converted to the type of its field; undefined for an empty line. */
function typedAs(typed: string, field: unknown): unknown {
  const { type, default: fallback } = isRecord(field) ? field : {}
  if (typed === '') return fallback
  if (type === 'boolean') return /^(?:y|yes|true|1)$/i.test(typed)
  if ((type === 'number' || type === 'integer') && Number.isFinite(Number(typed))) return Number(typed)
  return typed
}
