import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join, posix, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Which folders each folder of src may import. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  core: [],
  state: ['core'],
  policy: ['core'],
  catalog: ['core', 'results'],
  search: ['core', 'catalog', 'state'],
  loader: ['core', 'catalog'],
  code: ['core', 'loader'],
  trust: ['core', 'state'],
  services: ['core', 'policy', 'state'],
  programs: ['core'],
  upstream: ['core', 'policy', 'catalog', 'state', 'trust', 'programs', 'results'],
  record: ['core', 'upstream'],
  openapi: ['core', 'policy', 'catalog'],
  view: ['core', 'policy', 'catalog', 'results'],
  observe: ['core'],
  results: ['core', 'state'],
  receipts: ['core', 'state'],
  exec: ['core', 'policy', 'catalog', 'view', 'state', 'observe', 'results'],
  meta: ['core', 'catalog', 'search', 'view', 'exec', 'code', 'results'],
  agent: ['core', 'view', 'exec', 'meta'],
  server: [
    'core',
    'observe',
    'state',
    'policy',
    'catalog',
    'view',
    'exec',
    'meta',
    'agent',
    'services',
    'results',
    'receipts',
  ],
  setup: ['core', 'state', 'policy', 'upstream', 'config'],
  doctor: ['core', 'app', 'state', 'policy', 'catalog', 'search', 'trust', 'upstream', 'config'],
  ui: ['core', 'server'],
  // Option schemas only; the rule below enforces that.
  config: [
    'core',
    'state',
    'policy',
    'catalog',
    'search',
    'loader',
    'trust',
    'upstream',
    'openapi',
    'view',
    'exec',
    'observe',
    'meta',
    'agent',
    'server',
    'services',
    'results',
  ],
}

function filesBelow(dir: string): string[] {
  return readdirSync(dir).flatMap((name) => {
    const path = join(dir, name)
    return statSync(path).isDirectory() ? filesBelow(path) : path.endsWith('.ts') ? [path] : []
  })
}

const files = filesBelow(join(root, 'src')).map((path) => {
  const text = readFileSync(path, 'utf8')
  const name = relative(join(root, 'src'), path).replaceAll('\\', '/')
  const imports = [...text.matchAll(/(?:from|import\()\s*'([^']+)'/g)].map((match) => match[1] ?? '')
  const code = text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
  return { name, folder: name.includes('/') ? (name.split('/')[0] ?? '') : '', text, code, imports }
})

describe('imports run one way', () => {
  for (const [folder, allowed] of Object.entries(MAY_IMPORT)) {
    it(`from ${folder}`, () => {
      for (const file of files.filter((one) => one.folder === folder)) {
        for (const target of file.imports.filter((one) => one.startsWith('../'))) {
          const other = posix.join(posix.dirname(file.name), target).split('/')[0] ?? ''
          expect([folder, ...allowed], `${file.name} imports ${target}`).toContain(other)
        }
      }
    })
  }

  it('without cycles', () => {
    // Types are erased and `import()` runs later, so both may point back. Not in cli/, because commands share a table.
    const everything = /(?:from|import\()\s*'(\.[^']+)'/g
    const atOnce = /^(?:import|export) (?!type )[^']*?from '(\.[^']+)'/gm
    const imports = new Map(
      files.map(({ name, folder, code }) => [
        name,
        [...code.matchAll(folder === 'cli' ? everything : atOnce)].map(([, target = '']) =>
          posix.join(posix.dirname(name), target),
        ),
      ]),
    )
    const done = new Set<string>()
    const visit = (name: string, path: readonly string[]): void => {
      if (path.includes(name))
        throw new Error(`import cycle: ${[...path.slice(path.indexOf(name)), name].join(' -> ')}`)
      if (done.has(name)) return
      for (const target of imports.get(name) ?? []) visit(target, [...path, name])
      done.add(name)
    }
    for (const name of imports.keys()) visit(name, [])
  })

  it('and every folder is in the table', () => {
    const folders = new Set(
      files.map((file) => file.folder).filter((folder) => !['', 'app', 'boot', 'cli'].includes(folder)),
    )
    expect([...folders].sort()).toEqual(
      Object.keys(MAY_IMPORT)
        .filter((folder) => folders.has(folder))
        .sort(),
    )
  })

  it('and the protocol eras of server do not import each other', () => {
    for (const file of files)
      for (const target of file.imports.filter(
        (one) => /^server\/[\w-]+-20\d\d\//.test(file.name) && one.startsWith('../'),
      ))
        expect(target, file.name).not.toMatch(/^\.\.\/[\w-]+-20\d\d\//)
  })

  it('and folders are two levels deep, except models of search, logins of upstream and protocol eras of server', () => {
    for (const file of files)
      expect(
        file.name
          .replace(
            /^(search\/(embedders|encoder)|upstream\/oauth|server\/(http-sse-2024|legacy-2025|modern-2026))\//,
            'deep/',
          )
          .split('/').length,
        file.name,
      ).toBeLessThanOrEqual(2)
  })
})

describe('restrictions', () => {
  const only = (pattern: RegExp, folders: readonly string[], what: 'imports' | 'code') => {
    for (const file of files) {
      const hit = what === 'imports' ? file.imports.some((one) => pattern.test(one)) : pattern.test(file.code)
      if (hit) expect(folders, file.name).toContain(file.folder)
    }
  }

  it('the MCP SDK is imported only by server and upstream', () =>
    only(/^@modelcontextprotocol\//, ['server', 'upstream'], 'imports'))
  it('MiniSearch is imported only by search/corrector.ts', () => {
    const users = files.filter((file) => file.imports.some((one) => /^minisearch(\/|$)/.test(one)))
    expect(users.map((file) => file.name)).toEqual(['search/corrector.ts'])
  })
  it('the environment is read by boot, config and cli alone', () =>
    only(/process\.env/, ['boot', 'config', 'cli'], 'code'))
  it('the process is ended only by cli; embedder-child.ts is a program of its own', () => {
    const ending = files.filter((file) => /process\.exit\(/.test(file.code) && file.folder !== 'cli')
    expect(ending.map((file) => file.name)).toEqual(['search/embedders/embedder-child.ts'])
  })
  it('nothing writes with console', () => only(/\bconsole\.\w+\(/, [], 'code'))
  it('stdout is written only by cli and the stdio server', () => only(/process\.stdout/, ['cli'], 'code'))

  it('config imports only option schemas', () => {
    for (const file of files.filter((one) => one.folder === 'config'))
      for (const target of file.imports.filter((one) => one.startsWith('../') && !one.startsWith('../core/')))
        expect(target, file.name).toMatch(/(options|settings|policy|exposure)\.ts$/)
  })

  it('shared code names no tool of a module, and no meta-tool outside meta, so that no caller reads about tools it does not have', () => {
    const listed = readdirSync(join(root, 'test/snapshots/tools')).flatMap((name) =>
      name.endsWith('.json') ? [name.replace(/\.json$/, '').replace(/@.*$/, '')] : [],
    )
    const spelled = (names: readonly string[]): RegExp =>
      new RegExp(`(?<![\\w.])(?:${names.flatMap((name) => [name, name.replace('__', '\\.')]).join('|')})(?![\\w.])`)
    const tools = spelled(listed.filter((name) => name.includes('__')))
    const meta = spelled(listed.filter((name) => !name.includes('__')))
    expect(tools.test("'filesystem.read'") && meta.test("'get_tool'")).toBe(true)
    for (const file of files) {
      expect(tools.exec(file.code)?.[0], file.name).toBeUndefined()
      // Only tools with siblings of the same kind start parallel and background work. OpenTelemetry's name for a run is the
      // name of one of them.
      if (!['meta', 'exec', 'cli'].includes(file.folder) && file.name !== 'core/observer-types.ts')
        expect(meta.exec(file.code)?.[0], file.name).toBeUndefined()
    }
  })

  it('these rules are never disabled', () => {
    for (const file of files) expect(file.text, file.name).not.toMatch(/biome-ignore.*(noRestrictedImports|noConsole)/)
  })
})

it('the README of upstream names each file of the folder', () => {
  const text = readFileSync(join(root, 'src/upstream/README.md'), 'utf8')
  const named = new Set([...text.matchAll(/`([\w-]+)(?:\.ts)?`/g)].map(([, name]) => name))
  const present = readdirSync(join(root, 'src/upstream')).flatMap((file) =>
    file.endsWith('.ts') ? [file.slice(0, -3)] : [],
  )
  expect(present.filter((name) => !named.has(name))).toEqual([])
})

describe('modules', () => {
  it('import only pegboard, Node and their own libraries, never src', () => {
    for (const path of filesBelow(join(root, 'modules'))) {
      const text = readFileSync(path, 'utf8')
      expect(text, path).not.toMatch(/from '\.\.\/(\.\.\/)?src\//)
    }
  })
})
