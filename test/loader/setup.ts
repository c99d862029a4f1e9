import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type Catalog, createCatalog } from '../../src/catalog/catalog.ts'
import type { CallContext } from '../../src/core/caller.ts'
import { createLog } from '../../src/core/log.ts'
import { noRelay, type Tool } from '../../src/core/tool.ts'
import type { Loader, LoaderOptions } from '../../src/loader/loader-types.ts'
import { createLoader } from '../../src/loader/module-loader.ts'
import { testContext } from '../context.ts'

/** A folder outside the repository, removed after the test. */
export async function tempDir(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'pegboard-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  await put(dir, files)
  return dir
}

export async function put(dir: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(dir, name)), { recursive: true })
    await writeFile(join(dir, name), text)
  }
}

export interface Bench {
  readonly dir: string
  readonly loader: Loader
  readonly catalog: Catalog
  /** Log lines at level warn and above, parsed. */
  readonly warnings: { readonly message: string; readonly [field: string]: unknown }[]
  tool(id: string): Tool
  run(id: string, input?: unknown, ctx?: Partial<CallContext>): Promise<unknown>
}

/** A real loader over a folder of files and a real catalogue; stopped when the test ends. */
export async function bench(
  files: Readonly<Record<string, string>>,
  options: Partial<LoaderOptions> = {},
): Promise<Bench> {
  const dir = options.modulesDir ?? (await tempDir(files))
  const catalog = options.catalog ?? createCatalog()
  const warnings: Bench['warnings'] = []
  const tool = (id: string): Tool => {
    const found = catalog.snapshot().byId.get(id)
    if (!found) throw new Error(`no tool ${id}`)
    return found
  }
  const run: Bench['run'] = async (id, input = {}, ctx = {}) => {
    const parsed = tool(id).parse(input)
    if (!parsed.ok)
      throw new Error(parsed.issues.map(({ path, message }) => (path ? `${path}: ${message}` : message)).join('; '))
    const result = await tool(id).run(parsed.value, testContext(ctx), noRelay)
    return result.kind === 'value' ? result.value : result
  }
  const loader = createLoader({
    catalog,
    log: createLog((line) => warnings.push(JSON.parse(line)), 'warn'),
    bundledDirs: [],
    // A first connection to a module from its source takes long on a busy machine.
    importTimeoutMs: 60_000,
    modulesDir: dir,
    autoload: true,
    settings: {},
    vars: { workspace: dir, state_dir: join(dir, '.state'), cache_dir: join(dir, '.cache'), env: {} },
    runStep: run,
    hostModules: { pegboard: new URL('host.ts', import.meta.url).href },
    ...options,
  })
  onTestFinished(() => loader.stop())
  return { dir, loader, catalog, warnings, tool, run }
}

/** Waits for the effect of a file event. */
export async function until(check: () => boolean, ms = 30_000): Promise<void> {
  const end = Date.now() + ms
  while (!check()) {
    if (Date.now() > end) throw new Error('it did not happen in time')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Source of a small module with one tool that answers `answer`. */
export const moduleSource = (name: string, answer: string): string => `export default {
  name: '${name}', description: 'A module of a test.',
  tools: { say: { description: 'Says one fixed word.', effect: 'read', run: () => '${answer}' } },
}\n`
