import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type App, type AppOptions, createApp } from '../src/app.ts'
import { type Config, readConfig } from '../src/config/load.ts'
import { systemClock } from '../src/core/clock.ts'
import { createLog, type LogLevel } from '../src/core/log.ts'
import { listenHttp } from '../src/server/listen.ts'
import { httpOptions } from '../src/server/options.ts'

/** A folder of its own for a test, gone afterwards. */
export function temporaryFolder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'pegboard-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true, maxRetries: 3 }))
  return dir
}

export interface TestApp {
  readonly app: App
  readonly config: Config
  readonly dir: string
  /** Everything logged, at warn and above unless asked for more. */
  readonly logged: string[]
}

/** The whole product on a configuration, as a file in a folder of its own would make it; stopped when the test ends. */
export async function startApp(
  settings: Record<string, unknown>,
  dir = temporaryFolder(),
  { level = 'warn', ...options }: AppOptions & { readonly level?: LogLevel } = {},
): Promise<TestApp> {
  const env = { PATH: process.env.PATH, HOME: dir, TMPDIR: tmpdir(), PEGBOARD_STATE_DIR: join(dir, 'state') }
  // A first look at a module from its source takes long on a busy machine.
  const patient = { ...settings, loader: { importTimeoutMs: 60_000, ...(settings['loader'] as object | undefined) } }
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

/** Over HTTP on this machine, for whoever comes. */
export const listenToAll = (app: App): ReturnType<typeof listenHttp> =>
  listenHttp({
    host: app.server,
    settings: httpOptions.parse({ port: 0, auth: 'none' }),
    token: undefined,
    clock: systemClock,
    forget: () => undefined,
  })

const packageFile = (name: string, file: string): string => join(import.meta.dirname, '..', 'node_modules', name, file)

/** Real servers of other people, as people configure them. */
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

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers whose shape they state themselves
export type Answer = any

/** The structured part of a tool result, or its text parsed. */
export function answerOf(result: unknown): Answer {
  const { structuredContent, content } = result as { structuredContent?: unknown; content?: Array<{ text?: string }> }
  return structuredContent ?? JSON.parse(content?.[0]?.text ?? 'null')
}
