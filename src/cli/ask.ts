import { createInterface } from 'node:readline/promises'
import { ProtocolFailure } from '../core/failure.ts'
import { plain } from '../core/plain.ts'
import { isRecord } from '../core/record.ts'
import type { Relay } from '../core/tool.ts'
import type { Io } from './io.ts'

type Json = Readonly<Record<string, unknown>>

/** A person at the terminal, whom tools and the policy can ask; `undefined` where nobody reads and types. */
export function askOnTerminal(io: Io): Relay | undefined {
  if (io.input.isTTY !== true || io.terminal?.err !== true) return undefined
  return {
    meta: {},
    clientCapabilities: { elicitation: { form: {} } },
    async request(method, params, signal) {
      if (method !== 'elicitation/create' || !isRecord(params) || params['mode'] === 'url')
        throw new ProtocolFailure(-32601, `${method} is not for a terminal`)
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
    io.stderr(`${plain(String(message))}\n`)
    const fields =
      isRecord(requestedSchema) && isRecord(requestedSchema['properties']) ? requestedSchema['properties'] : {}
    const entries = Object.entries(fields)
    if (entries.length === 0)
      return /^y(?:es)?$/i.test(await line('[y/N] ')) ? { action: 'accept', content: {} } : { action: 'decline' }
    const content: Record<string, unknown> = {}
    for (const [name, field] of entries) {
      const value = typedAs(await line(`${plain(name)}${hintOf(field)}: `), field)
      if (value !== undefined) content[name] = value
    }
    return { action: 'accept', content }
  } catch (error) {
    if (!stop.aborted) throw error
    // No answer is none.
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
  return plain(
    [about, choices]
      .filter(Boolean)
      .map((one) => ` (${one})`)
      .join(''),
  )
}

/** What was typed, as its field wants it; nothing for an empty line. */
function typedAs(typed: string, field: unknown): unknown {
  const { type, default: fallback } = isRecord(field) ? field : {}
  if (typed === '') return fallback
  if (type === 'boolean') return /^(?:y|yes|true|1)$/i.test(typed)
  if ((type === 'number' || type === 'integer') && Number.isFinite(Number(typed))) return Number(typed)
  return typed
}
