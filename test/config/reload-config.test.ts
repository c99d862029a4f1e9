import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Config, loadConfig, readConfig } from '../../src/config/load-config.ts'
import {
  type FollowOptions,
  followConfig,
  planReload,
  type ReloadPlan,
  watchConfig,
} from '../../src/config/reload-config.ts'
import { createLog, silentLog } from '../../src/core/log.ts'
import { createManualClock } from '../clock.ts'
import { canLimit, useUpDescriptors } from '../process-limits.ts'

const machine = { env: {}, cwd: '/start', platform: 'linux', home: '/home/ada' } as const
const config = (value: unknown): Config => readConfig(JSON.stringify(value), '/etc/p/c.json', machine).config

const follow = (options: FollowOptions): (() => void) => followConfig(options).stop

describe('planReload', () => {
  it('finds no change between equal configurations', () => {
    expect(planReload(config({}), config({ autoload: true }))).toEqual({ live: [], restart: [] })
  })

  it('applies tools, servers, policy and exposure live, and reports that the rest needs a restart', () => {
    const before = config({
      mcpServers: { a: { command: 'a' }, b: { command: 'b' }, same: { command: 's' } },
      modules: { fs: { config: { roots: ['.'] } } },
    })
    const after = config({
      mcpServers: { a: { command: 'a', deny: ['x'] }, c: { command: 'c' }, same: { command: 's' } },
      modules: { fs: { config: { roots: ['..'] } }, hello: { enabled: false } },
      policy: { maxEffect: 'read' },
      exposure: { mode: 'direct' },
      tools: { 'fs.rm': { enabled: false } },
      server: { http: { port: 1 } },
      dirs: { state: '/s' },
      modulesDir: 'other',
      search: { embedder: 'none', embedderOptions: { dtype: 'fp32' } },
      execution: { timeoutMs: 1 },
    })
    expect(planReload(before, after)).toEqual({
      live: [
        'modules.fs',
        'modules.hello',
        'mcpServers.a',
        'mcpServers.b',
        'mcpServers.c',
        'policy.maxEffect',
        'exposure.mode',
        'tools.fs.rm',
      ],
      restart: [
        'server.http',
        'modulesDir',
        'search.embedder',
        'search.embedderOptions',
        'execution.timeoutMs',
        'dirs.state',
      ],
    })
  })

  it('names the servers whose entries became invalid or are new and invalid', () => {
    const before = config({ mcpServers: { a: { command: 'a' }, same: { command: 5 } } })
    const after = config({ mcpServers: { a: { command: 5 }, same: { command: 5 }, new: { command: 5 } } })
    expect(planReload(before, after)).toEqual({ live: ['mcpServers.a', 'mcpServers.new'], restart: [] })
  })

  it('names servers by the key of the file', () => {
    const before = config({ servers: { a: { command: 'a' }, b: { command: 'b' } } })
    const after = config({
      servers: { a: { command: 'x' } },
      profiles: { work: { mcpServers: { c: { command: 'c' } } } },
    })
    expect(planReload(before, after).live).toEqual([
      'servers.a',
      'servers.b',
      'profiles.work.mcpServers.c',
      'profiles.work',
    ])
  })
})

describe('watching the file', () => {
  let dir: string
  let file: string
  let stop: (() => void) | undefined
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'pegboard-reload-'))
    file = join(dir, 'c.json')
    writeFileSync(file, '{}')
  })
  afterEach(() => {
    stop?.()
    rmSync(dir, { recursive: true, force: true })
  })

  it('reports a burst of writes once, and nothing if the text is unchanged', async () => {
    const changed = vi.fn()
    stop = watchConfig(file, changed, { debounceMs: 50 })
    writeFileSync(file, '{ ')
    writeFileSync(file, '{ }')
    writeFileSync(join(dir, 'other.json'), 'x')
    await vi.waitFor(() => expect(changed).toHaveBeenCalledTimes(1), { timeout: 15_000 })
    writeFileSync(file, '{ }')
    await new Promise((resolve) => setTimeout(resolve, 120))
    expect(changed).toHaveBeenCalledTimes(1)
  })

  it('applies valid edits, also of replaced files, and keeps the last valid version otherwise', async () => {
    const lines: string[] = []
    const seen: Array<[Config, ReloadPlan]> = []
    const { config: first } = await loadConfig({ ...machine, cwd: dir }, file)
    stop = follow({
      config: first,
      machine,
      log: createLog((line) => lines.push(line)),
      debounceMs: 20,
      onConfig: (after, plan) => void seen.push([after, plan]),
    })
    writeFileSync(join(dir, 'new'), '{"policy": {"maxEffect": "read"}}')
    renameSync(join(dir, 'new'), file)
    await vi.waitFor(() => expect(seen).toHaveLength(1), { timeout: 15_000 })
    expect(seen[0]?.[1]).toEqual({ live: ['policy.maxEffect'], restart: [] })

    writeFileSync(file, '{"policy": {"maxEffect": ')
    await vi.waitFor(() => expect(lines.join('\n')).toContain('E_CONFIG_SYNTAX'), { timeout: 15_000 })
    expect(lines.join('\n')).toContain('line 1, column 26')
    writeFileSync(file, '{"policy": {"maxEfect": "read"}}')
    await vi.waitFor(() => expect(lines.join('\n')).toContain('did you mean \\"maxEffect\\"'), { timeout: 15_000 })
    expect(seen).toHaveLength(1)
    writeFileSync(file, '{ "policy": {"maxEffect": "read"} }')
    await vi.waitFor(() => expect(lines.join('\n')).toContain('the configuration is valid again and unchanged'), {
      timeout: 15_000,
    })
    expect(seen).toHaveLength(1)

    writeFileSync(file, '{"policy": {"maxEffect": "write"}}')
    await vi.waitFor(() => expect(seen).toHaveLength(2), { timeout: 15_000 })
    expect(seen[1]?.[0].policy.maxEffect).toBe('write')

    writeFileSync(file, '{"policy": {"maxEffect": "write"}, "mcpServers": {"new": {"command": 5}}}')
    await vi.waitFor(() => expect(lines.join('\n')).toContain('mcpServers.new.command'), { timeout: 15_000 })
    await vi.waitFor(() => expect(seen).toHaveLength(3), { timeout: 15_000 })
    expect(seen[2]?.[0].skipped.map(({ id }) => id)).toEqual(['new'])
  })

  it('applies an edit made between reading and watching', async () => {
    const read = await loadConfig({ ...machine, cwd: dir }, file)
    writeFileSync(file, '{"policy": {"maxEffect": "read"}}')
    const seen: ReloadPlan[] = []
    const onConfig = (_after: Config, plan: ReloadPlan): void => void seen.push(plan)
    stop = follow({ ...read, machine, log: silentLog, onConfig })
    await vi.waitFor(() => expect(seen).toEqual([{ live: ['policy.maxEffect'], restart: [] }]), { timeout: 15_000 })
  })

  it('does not read an unchanged file again', async () => {
    const read = await loadConfig({ ...machine, cwd: dir }, file)
    let reads = 0
    const refine = (after: Config): Config => {
      reads++
      return after
    }
    const seen: ReloadPlan[] = []
    const onConfig = (_after: Config, plan: ReloadPlan): void => void seen.push(plan)
    stop = follow({ ...read, machine, log: silentLog, debounceMs: 20, refine, onConfig })
    writeFileSync(file, '{"policy": {"maxEffect": "read"}}')
    await vi.waitFor(() => expect(seen).toHaveLength(1), { timeout: 15_000 })
    expect(reads).toBe(1)
  })

  it('reports once that the file is missing, and that it is back', async () => {
    const clock = createManualClock(0)
    const lines: string[] = []
    const log = createLog((line) => lines.push(JSON.parse(line).message))
    const changed = vi.fn()
    stop = watchConfig(file, changed, { debounceMs: 20, clock, log })
    const told = (count: number) =>
      vi.waitFor(
        () => {
          clock.pass(1_000)
          expect(lines).toHaveLength(count)
        },
        { timeout: 15_000 },
      )
    rmSync(file)
    await told(1)
    expect(lines).toEqual(['a watched file was deleted; its last content stays in effect'])
    writeFileSync(file, '{}')
    await told(2)
    expect(lines[1]).toBe('a watched file exists again')
    expect(changed).not.toHaveBeenCalled()
    rmSync(file)
    await told(3)
    expect(lines[2]).toBe('a watched file was deleted; its last content stays in effect')
  })

  it.runIf(canLimit)('reports that the file cannot be watched, and applies later edits', async () => {
    const clock = createManualClock(0)
    const { config: first } = await loadConfig({ ...machine, cwd: dir }, file)
    const lines: string[] = []
    const seen: ReloadPlan[] = []
    const free = useUpDescriptors()
    stop = follow({
      config: first,
      machine,
      clock,
      log: createLog((line) => lines.push(JSON.parse(line).message)),
      onConfig: (_after, plan) => void seen.push(plan),
    })
    try {
      await vi.waitFor(() =>
        expect(lines).toContain('the edited configuration is invalid; the last valid one stays in effect'),
      )
      expect(lines).toContain('cannot watch a file for now')
    } finally {
      free()
    }
    writeFileSync(file, '{"policy": {"maxEffect": "read"}}')
    clock.pass(5_000)
    await vi.waitFor(() => expect(seen).toEqual([{ live: ['policy.maxEffect'], restart: [] }]), { timeout: 15_000 })
    expect(lines).toContain('watching the file again')
  })

  it('does nothing without a file', () => {
    stop = follow({ config: { ...config({}), file: undefined }, machine, log: silentLog, onConfig() {} })
    stop()
  })
})
