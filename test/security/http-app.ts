import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client, ClientOptions } from '@modelcontextprotocol/client'
import type { App } from '../../src/app/app.ts'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import type { HttpServer } from '../../src/server/serve-http.ts'
import { serveAppOverHttp, startApp, temporaryFolder } from '../app.ts'
import { connectOverHttp, type Era } from '../client.ts'
import { TOKEN } from '../server/echo.ts'

/** Tools that answer, write, destroy and wait, and count their runs. */
const PROBE = `let runs = 0
const input = { type: 'object', properties: {}, additionalProperties: true }
export default {
  name: 'probe',
  description: 'Answers, writes, destroys and waits.',
  tools: {
    echo: { description: 'Answers what it was given.', effect: 'read', input, run: (given) => { runs++; return given } },
    note: { description: 'Writes something down.', effect: 'write', input, run: () => { runs++; return 'noted' } },
    drop: { description: 'Destroys something.', effect: 'destructive', input, run: () => { runs++; return 'dropped' } },
    wait: { description: 'Waits for a minute.', effect: 'read', input, run: (_given, { signal }) => { runs++; return new Promise((resolve) => { const timer = setTimeout(resolve, 60000, 'late'); signal.addEventListener('abort', () => { clearTimeout(timer); resolve('stopped') }) }) } },
    runs: { description: 'Tells how often others ran.', effect: 'read', input, run: () => ({ runs }) },
    who: { description: 'Tells for whom it runs.', effect: 'read', input, run: (_given, { caller }) => ({ principal: caller.principal, profile: caller.profile, roles: caller.roles }) },
  },
}`

export interface HttpApp extends HttpServer {
  readonly app: App
  readonly dir: string
  readonly logged: string[]
}

/**
 * The whole product behind a socket; stopped with the test.
 * @param http settings of `server.http`
 */
export async function startHttpApp(
  http: Record<string, unknown> = {},
  settings: Record<string, unknown> = {},
  {
    clock = systemClock,
    app: own,
    dir = temporaryFolder(),
  }: {
    /** Of the listener only. */
    readonly clock?: Clock
    /** Of everything else. */
    readonly app?: Clock
    /** With the state of an earlier server. */
    readonly dir?: string
  } = {},
): Promise<HttpApp> {
  mkdirSync(join(dir, 'modules'), { recursive: true })
  writeFileSync(join(dir, 'modules', 'probe.mjs'), PROBE)
  const server = { ...(settings['server'] as object | undefined), http: { port: 0, ...http } }
  const { app, logged } = await startApp({ exposure: { mode: 'direct' }, ...settings, server }, dir, {
    level: 'debug',
    ...(own ? { clock: own } : {}),
  })
  const listening = await serveAppOverHttp(app, { token: TOKEN, ...http }, { clock })
  return Object.assign(listening, { app, dir, logged })
}

/** Number of runs of a tool. */
export async function countRuns({ app }: HttpApp): Promise<unknown> {
  const { localCaller } = await import('../../src/core/caller.ts')
  const result = await app.call({ name: 'probe.runs', input: {}, caller: localCaller })
  return (result as { readonly value: { readonly runs: number } }).value.runs
}

/** Connects a client with a token. */
export const connectWithToken = (
  url: string,
  token: string,
  era: Era = 'modern',
  options: ClientOptions = {},
): Promise<Client> => connectOverHttp(new URL('/mcp', url), token, era, options)

/** Tokens of two principals, for `server.http.tokens`. */
export const ANN = 'the-token-that-ann-comes-with'
export const EVE = 'the-token-that-eve-comes-with'
export const TOKENS_OF_TWO = [
  { token: ANN, principal: 'ann' },
  { token: EVE, principal: 'eve' },
]
