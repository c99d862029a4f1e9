import { ProtocolFailure } from '../core/failure.ts'
import { RELATED } from '../core/tasks.ts'

type Json = Readonly<Record<string, unknown>>

/** Where clients find the server that asks; for sampling and roots, whose requests have no text for a person. */
const SERVER = 'pegboard/server'

/**
 * The parameters of a question as a client gets them: with the name of the server that asks, without what belongs to
 * our own connection to that server.
 * @throws ProtocolFailure -32602 for a question that no client should show
 */
export function relayedAsk(method: string, params: Json, server: string): Json {
  const { _meta, ...rest } = params
  const { progressToken: _theirs, [RELATED]: _task, ...meta } = (_meta ?? {}) as Record<string, unknown>
  if (method !== 'elicitation/create') {
    const named = { ...rest, _meta: { ...meta, [SERVER]: server } }
    if (method !== 'sampling/createMessage') return named
    const { systemPrompt } = rest as { systemPrompt?: unknown }
    const asked = `The MCP server ${server} asks for this completion.`
    return { ...named, systemPrompt: typeof systemPrompt === 'string' ? `${asked}\n\n${systemPrompt}` : asked }
  }
  const { message, mode, url } = rest as { message?: unknown; mode?: unknown; url?: unknown }
  const kept = Object.keys(meta).length > 0 ? { ...rest, _meta: meta } : rest
  if (typeof message !== 'string') throw new ProtocolFailure(-32602, 'The question has no message')
  if (mode === 'url') {
    const page = pageOf(url)
    // The host as a browser reads it: `xn--…` shows letters that only look like others.
    return { ...kept, message: `${server}: ${message} (opens a page at ${page.host})`, url: page.href }
  }
  if (mode !== undefined && mode !== 'form')
    throw new ProtocolFailure(-32602, 'The question is neither a form nor a url')
  if (url !== undefined) throw new ProtocolFailure(-32602, 'A form has no url')
  return { ...kept, message: `${server}: ${message}` }
}

/** @throws ProtocolFailure -32602 */
function pageOf(url: unknown): URL {
  const page = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined
  if (page?.protocol !== 'https:') throw new ProtocolFailure(-32602, 'Only https pages are opened')
  // `https://bank.example@other.example` looks like the page of somebody else.
  if (page.username !== '' || page.password !== '')
    throw new ProtocolFailure(-32602, 'The url has a user name or a password')
  return page
}
