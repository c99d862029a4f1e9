import type { Client } from '@modelcontextprotocol/client'
import type { AppOptions } from '../../src/app/app.ts'
import type { LogLevel } from '../../src/core/log.ts'
import { type Answer, startApp, type TestApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'

/** The error that a client gets for a call. */
export interface Refusal {
  readonly code: string
  readonly message: string
  readonly hint?: string
  readonly retryAfterMs?: number
  readonly data?: Answer
  /** Every character of the answer on the wire. */
  readonly answerText: string
}

export interface AppWithClient extends TestApp {
  readonly client: Client
  /** The value of a tool, as `module.action`; rejects with a `Refusal`. */
  call(tool: string, input?: unknown, options?: { readonly signal?: AbortSignal }): Promise<Answer>
  fails(tool: string, input?: unknown, options?: { readonly signal?: AbortSignal }): Promise<Refusal>
}

type Settings = Record<string, unknown>

/** The whole product with these modules, and an ordinary MCP client. */
export async function startAppWithClient(
  modules: Settings,
  {
    dir = temporaryFolder(),
    settings = {},
    ...options
  }: AppOptions & { readonly dir?: string; readonly settings?: Settings; readonly level?: LogLevel } = {},
): Promise<AppWithClient> {
  const started = await startApp({ exposure: { mode: 'direct' }, modules, ...settings }, dir, options)
  const client = await connectTo(started.app)
  const call: AppWithClient['call'] = async (tool, input = {}, more) => {
    const answer = await callTool(
      client,
      { name: tool.replaceAll('.', '__'), arguments: input as Settings },
      { timeout: 120_000, ...more },
    )
    if (answer.error)
      throw Object.assign(new Error(answer.error.message), answer.error.data, { answerText: JSON.stringify(answer) })
    if (!answer.isError) return answer.structuredContent ?? answer.content[0]?.text
    const answerText: string = JSON.stringify(answer)
    const { error, data } = answer.structuredContent ?? answer._meta?.['pegboard/error'] ?? {}
    throw Object.assign(new Error(error?.message ?? answerText), { ...error, data, answerText })
  }
  const fails: AppWithClient['fails'] = (tool, input, more) =>
    call(tool, input, more).then(
      (value) => Promise.reject(new Error(`it did not fail: ${JSON.stringify(value)}`)),
      (refusal) => refusal,
    )
  return { ...started, client, call, fails }
}
