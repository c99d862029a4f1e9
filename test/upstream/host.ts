import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Catalog, createCatalog } from '../../src/catalog/catalog.ts'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import { createLog } from '../../src/core/log.ts'
import { noRelay, type Relay, type Tool } from '../../src/core/tool.ts'
import type { McpResult, ToolResult } from '../../src/core/tool-result.ts'
import { parseServer, type ServerSettings } from '../../src/upstream/upstream-settings.ts'
import { createUpstreams, type Upstreams, type UpstreamsOptions } from '../../src/upstream/upstreams.ts'
import { testContext } from '../context.ts'

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url))
const official = (name: string): string => path(`../../node_modules/@modelcontextprotocol/server-${name}/dist/index.js`)

/** The real clock at a higher speed, so that tests of minutes take seconds; connection timeouts stay the same. */
export function hurried(times: number): { readonly clock: Clock; readonly connectTimeoutMs: number } {
  const startedAt = Date.now()
  return {
    clock: {
      now: () => startedAt + (Date.now() - startedAt) * times,
      after: (ms, fn) => systemClock.after(ms / times, fn),
    },
    connectTimeoutMs: 30_000 * times,
  }
}

/** A manifest store in memory. */
export function keeping() {
  const kept = new Map<string, Uint8Array>()
  return {
    kept,
    line: (key: string) => kept.get(key),
    get: (key: string) => kept.get(key),
    set: (key: string, bytes: Uint8Array) => void kept.set(key, bytes),
  }
}

/** Entries of `mcpServers` for the test servers. */
export const scripted = (...args: string[]) => ({
  command: process.execPath,
  args: [path('../fixtures/upstreams/scripted.mjs'), ...args],
})
export const modern = (...args: string[]) => ({
  command: process.execPath,
  args: [path('../fixtures/upstreams/modern.mjs'), ...args],
})
export const real = (name: string, ...args: string[]) => ({
  command: process.execPath,
  args: [official(name), ...args],
})

export interface Rig {
  readonly catalog: Catalog
  readonly upstreams: Upstreams
  /** Log lines, one JSON object per line. */
  readonly logged: readonly Record<string, unknown>[]
  tool(id: string): Tool
  call(id: string, input?: unknown, options?: CallOptions): Promise<ToolResult>
  /** Calls a tool and returns its single text. */
  text(id: string, input?: unknown, options?: CallOptions): Promise<string>
}

export interface CallOptions {
  readonly signal?: AbortSignal
  readonly relay?: Partial<Relay>
  readonly onProgress?: (done: number, total?: number, message?: string) => void
}

export function settingsOf(servers: Readonly<Record<string, object>>): Record<string, ServerSettings> {
  return Object.fromEntries(Object.entries(servers).map(([id, raw]) => [id, parseServer(id, raw).settings]))
}

/** Runs upstreams for one test and always stops them afterwards. */
export async function withServers(
  servers: Readonly<Record<string, object>>,
  test: (rig: Rig) => Promise<void>,
  options: Partial<UpstreamsOptions> & { readonly wait?: boolean } = {},
): Promise<void> {
  const catalog = options.catalog ?? createCatalog()
  const logged: Record<string, unknown>[] = []
  const upstreams = createUpstreams({
    catalog,
    log: createLog((line) => logged.push(JSON.parse(line)), 'debug'),
    servers: settingsOf(servers),
    environment: process.env,
    clientInfo: { name: 'pegboard-test', version: '1.0.0' },
    ...options,
  })
  const tool = (id: string): Tool => {
    const found = catalog.snapshot().byId.get(id)
    if (!found) throw new Error(`no tool ${id}; there are ${[...catalog.snapshot().byId.keys()].join(' ')}`)
    return found
  }
  const call: Rig['call'] = (id, input = {}, { signal, relay, onProgress } = {}) =>
    tool(id).run(input, testContext({ ...(signal && { signal }), ...(onProgress && { progress: onProgress }) }), {
      ...noRelay,
      ...relay,
    })
  try {
    upstreams.start()
    if (options.wait !== false)
      await until(
        () => upstreams.status().every((one) => one.state === 'ready'),
        30_000,
        () => JSON.stringify(upstreams.status()),
      )
    await test({
      catalog,
      upstreams,
      logged,
      tool,
      call,
      text: async (id, input, more) => textOf(await call(id, input, more)),
    })
  } finally {
    await upstreams.stop()
  }
}

export function resultOf(result: ToolResult): McpResult {
  if (result.kind !== 'mcp') throw new Error(`a result of kind ${result.kind}`)
  return result.result
}

export const textOf = (result: ToolResult): string => String(resultOf(result).content?.[0]?.['text'])

export async function until(done: () => boolean, withinMs = 30_000, explain: () => string = () => ''): Promise<void> {
  const end = performance.now() + withinMs
  while (!done()) {
    if (performance.now() > end) throw new Error(`did not happen within ${withinMs} ms ${explain()}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** Starts an HTTP server and runs a test with it. */
export async function withHttpServer(
  entry: { readonly command: string; readonly args: readonly string[] },
  ready: RegExp,
  test: (port: number, child: ChildProcess) => Promise<void>,
  env: Record<string, string> = {},
): Promise<void> {
  const child = spawn(entry.command, [...entry.args], {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let output = ''
  const hear = (chunk: Buffer): void => {
    output += chunk.toString()
  }
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  try {
    await until(
      () => ready.test(output) || child.exitCode !== null,
      30_000,
      () => output,
    )
    await test(Number(ready.exec(output)?.[1] ?? env['PORT']), child)
  } finally {
    child.kill('SIGKILL')
  }
}

/** True if a process runs; false for a zombie. */
export const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return process.platform !== 'linux' || !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch (error) {
    if (['ESRCH', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) return false
    throw error
  }
}
