import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { toPrintable } from '../core/printable.ts'
import { ProtocolFailure } from '../core/protocol-failure.ts'
import type { Relay } from '../core/tool.ts'
import type { Io } from './io.ts'
import { canAsk, isYes, openQuestions } from './questions.ts'

/** Lets tools and the policy ask the person at the terminal; `undefined` without a terminal. */
export function promptOnTerminal(io: Io): Relay | undefined {
  if (!canAsk(io)) return undefined
  return {
    meta: {},
    clientCapabilities: { elicitation: { form: {} } },
    async request(method, params, signal) {
      if (method !== 'elicitation/create' || !isRecord(params) || params['mode'] === 'url')
        throw new ProtocolFailure(-32601, `${method} cannot be answered in a terminal`)
      return await askFields(io, params, signal)
    },
  }
}

async function askFields(io: Io, { message, requestedSchema }: Json, signal: AbortSignal | undefined): Promise<Json> {
  const questions = openQuestions(io, signal)
  // Without an answer the call was cancelled, or the person left.
  const createCancelled = (): Json => {
    signal?.throwIfAborted()
    return { action: 'cancel' }
  }
  try {
    io.stderr(`${toPrintable(String(message))}\n`)
    const entries = Object.entries(asRecord(asRecord(requestedSchema)['properties']))
    if (entries.length === 0) {
      const answer = await questions?.ask('[y/N] ')
      if (answer === undefined) return createCancelled()
      return isYes(answer) ? { action: 'accept', content: {} } : { action: 'decline' }
    }
    const content: Record<string, unknown> = {}
    for (const [name, field] of entries) {
      const answer = await questions?.ask(`${toPrintable(name)}${hintOf(field)}: `)
      if (answer === undefined) return createCancelled()
      const value = convertAnswer(answer, field)
      if (value !== undefined) content[name] = value
    }
    return { action: 'accept', content }
  } finally {
    questions?.close()
  }
}

function hintOf(field: unknown): string {
  if (!isRecord(field)) return ''
  const choices = Array.isArray(field['enum']) ? field['enum'].join(', ') : undefined
  const about = field['description'] ?? field['title']
  return toPrintable(
    [about, choices]
      .filter(Boolean)
      .map((note) => ` (${note})`)
      .join(''),
  )
}

/** The typed text converted to the type of its field; undefined for an empty line. */
function convertAnswer(answer: string, field: unknown): unknown {
  const { type, default: fallback } = asRecord(field)
  if (answer === '') return fallback
  if (type === 'boolean') return /^(?:y|yes|true|1)$/i.test(answer)
  if ((type === 'number' || type === 'integer') && Number.isFinite(Number(answer))) return Number(answer)
  return answer
}
