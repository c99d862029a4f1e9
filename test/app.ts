import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type App, type AppOptions, createApp } from '../src/app/app.ts'
import { type Config, readConfig } from '../src/config/load-config.ts'
import { localCaller } from '../src/core/caller.ts'
import { systemClock } from '../src/core/clock.ts'
import type { PegboardError } from '../src/core/errors.ts'
import { createLog, type LogLevel } from '../src/core/log.ts'
import type { CallRequest } from '../src/exec/tool-calls.ts'
import { type ListenOptions, listenHttp } from '../src/server/listen-http.ts'
import type { HttpServer } from '../src/server/serve-http.ts'
import { httpOptions } from '../src/server/server-options.ts'

/** A temporary folder for a test, removed afterwards. */
export function temporaryFolder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'pegboard-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true, maxRetries: 10 }))
  return dir
}

export interface TestApp {
  readonly app: App
  readonly config: Config
  readonly dir: string
  /** Collects log entries from level `warn` on, or from another level. */
  readonly logged: string[]
}

/** The whole product with a configuration file in its own folder; stopped when the test ends. */
export async function startApp(
  settings: Record<string, unknown>,
  dir = temporaryFolder(),
  { level = 'warn', ...options }: AppOptions & { readonly level?: LogLevel } = {},
): Promise<TestApp> {
  const env = { PATH: process.env.PATH, HOME: dir, TMPDIR: tmpdir(), PEGBOARD_STATE_DIR: join(dir, 'state') }
  const search = settings['search'] as { readonly embedderOptions?: object } | undefined
  // On a busy machine, a module's first import and the vector of a query take longer than the defaults allow.
  const patient = {
    ...settings,
    loader: { importTimeoutMs: 60_000, ...(settings['loader'] as object | undefined) },
    search: { ...search, embedderOptions: { queryTimeoutMs: 60_000, ...search?.embedderOptions } },
  }
  const { config } = readConfig(JSON.stringify(patient), join(dir, 'mcp.config.json'), { env, cwd: dir })
  const logged: string[] = []
  const app = createApp(config, {
    env,
    log: createLog((line) => logged.push(line), level),
    connectDelayMs: { cold: 0, known: 0 },
    ...options,
  })
  onTestFinished(() => app.stop())
  await app.start()
  return { app, config, dir, logged }
}

/**
 * Serves an app over HTTP on this machine; stopped when the test ends.
 * @param http settings of `server.http` (default: no authentication)
 */
export async function serveAppOverHttp(
  app: App,
  http: Record<string, unknown> = { auth: 'none' },
  options: Partial<Pick<ListenOptions, 'clock' | 'profile' | 'page'>> = {},
): Promise<HttpServer> {
  const settings = httpOptions.parse({ port: 0, ...http })
  const { token } = settings
  const server = await listenHttp({
    host: app.server,
    settings,
    token,
    clock: systemClock,
    forget: app.forget,
    ...options,
  })
  onTestFinished(() => server.close())
  return server
}

const packageFile = (name: string, file: string): string => join(import.meta.dirname, '..', 'node_modules', name, file)

/** Third-party servers with typical configurations. */
export const servers = {
  everything: {
    command: 'node',
    args: [packageFile('@modelcontextprotocol/server-everything', 'dist/index.js'), 'stdio'],
  },
  filesystem: (root: string) => ({
    command: 'node',
    args: [packageFile('@modelcontextprotocol/server-filesystem', 'dist/index.js'), root],
  }),
  memory: (file: string) => ({
    command: 'node',
    args: [packageFile('@modelcontextprotocol/server-memory', 'dist/index.js')],
    env: { MEMORY_FILE_PATH: file },
  }),
  thinking: {
    command: 'node',
    args: [packageFile('@modelcontextprotocol/server-sequential-thinking', 'dist/index.js')],
  },
}

/** Calls tools of a module in this process: `call` returns the value, `fails` the error. */
export function callsOfModule(app: App, module: string) {
  const call = async (action: string, input: unknown = {}, request: Partial<CallRequest> = {}): Promise<Answer> =>
    ((await app.call({ name: `${module}.${action}`, input, caller: localCaller, ...request })) as Answer).value
  const fails = async (...given: Parameters<typeof call>): Promise<PegboardError> =>
    await call(...given).then(
      (value) => {
        throw new Error(`it did not fail: ${JSON.stringify(value)}`)
      },
      (error: PegboardError) => error,
    )
  return { call, fails }
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers whose shape they state themselves
export type Answer = any

/**
 * The structured part of a tool result, or its parsed text; for an unknown tool name, the same as for an error result.
 */
export function answerOf(result: unknown): Answer {
  const { structuredContent, content, error } = result as {
    structuredContent?: unknown
    content?: Array<{ text?: string }>
    error?: { data?: unknown }
  }
  if (error) return { success: false, error: error.data }
  return structuredContent ?? JSON.parse(content?.[0]?.text ?? 'null')
}
