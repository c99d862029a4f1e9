import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join, posix, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

/** What each folder of src may import of the others. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  core: [],
  state: ['core'],
  policy: ['core'],
  catalog: ['core'],
  search: ['core', 'catalog', 'state'],
  loader: ['core', 'catalog'],
  trust: ['core', 'state'],
  services: ['core', 'policy', 'state'],
  programs: ['core'],
  upstream: ['core', 'policy', 'catalog', 'state', 'trust', 'programs'],
  openapi: ['core', 'policy', 'catalog'],
  view: ['core', 'policy', 'catalog'],
  observe: ['core'],
  exec: ['core', 'policy', 'catalog', 'view', 'state', 'observe'],
  meta: ['core', 'catalog', 'search', 'view', 'exec'],
  agent: ['core', 'view', 'exec', 'meta'],
  server: ['core', 'observe', 'state', 'policy', 'catalog', 'view', 'exec', 'meta', 'agent', 'services'],
  // Option schemas only; the rule below holds it to that.
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

  it('and every folder has its line in the table', () => {
    const folders = new Set(files.map((file) => file.folder).filter((folder) => folder !== '' && folder !== 'cli'))
    expect([...folders].sort()).toEqual(
      Object.keys(MAY_IMPORT)
        .filter((folder) => folders.has(folder))
        .sort(),
    )
  })

  it('and stay two levels deep, the optional models of search and the logins of upstream three', () => {
    for (const file of files)
      expect(
        file.name.replace(/^(search\/embedders|upstream\/oauth)\//, 'deep/').split('/').length,
        file.name,
      ).toBeLessThanOrEqual(2)
  })
})

describe('what only some may do', () => {
  const only = (pattern: RegExp, folders: readonly string[], what: 'imports' | 'code') => {
    for (const file of files) {
      const hit = what === 'imports' ? file.imports.some((one) => pattern.test(one)) : pattern.test(file.code)
      if (hit) expect(folders, file.name).toContain(file.folder)
    }
  }

  it('the MCP SDK is imported by server and upstream alone', () =>
    only(/^@modelcontextprotocol\//, ['server', 'upstream'], 'imports'))
  it('MiniSearch is imported by search/suggest.ts alone', () => {
    const users = files.filter((file) => file.imports.some((one) => /^minisearch(\/|$)/.test(one)))
    expect(users.map((file) => file.name)).toEqual(['search/suggest.ts'])
  })
  it('the environment is read by config and cli alone', () => only(/process\.env/, ['config', 'cli'], 'code'))
  it('the process is ended by cli alone; child.ts is the program of another one', () => {
    const ending = files.filter((file) => /process\.exit\(/.test(file.code) && file.folder !== 'cli')
    expect(ending.map((file) => file.name)).toEqual(['search/embedders/child.ts'])
  })
  it('nobody writes with console', () => only(/\bconsole\.\w+\(/, [], 'code'))
  it('stdout is written by cli and the stdio server alone', () => only(/process\.stdout/, ['cli'], 'code'))

  it('config imports schemas of options, not the things they set up', () => {
    for (const file of files.filter((one) => one.folder === 'config'))
      for (const target of file.imports.filter((one) => one.startsWith('../') && !one.startsWith('../core/')))
        expect(target, file.name).toMatch(/(options|settings|policy|exposure)\.ts$/)
  })

  it('shared code names no tool of a module, and no meta-tool outside meta: what a caller does not have is not named', () => {
    const listed = readdirSync(join(root, 'test/snapshots/tools')).flatMap((name) =>
      name.endsWith('.json') ? [name.replace(/\.json$/, '').replace(/@.*$/, '')] : [],
    )
    const spelled = (names: readonly string[]): RegExp =>
      new RegExp(`(?<![\\w.])(?:${names.flatMap((name) => [name, name.replace('__', '\\.')]).join('|')})(?![\\w.])`)
    const tools = spelled(listed.filter((name) => name.includes('__')))
    const meta = spelled(listed.filter((name) => !name.includes('__')))
    expect(tools.test("'filesystem.read'") && meta.test("'get_tool'")).toBe(true)
    for (const file of files) {
      expect(file.code, file.name).not.toMatch(tools)
      // Work in parallel and in the background is only ever begun by tools whose like are there too.
      // What OpenTelemetry calls a run has the name of one of them.
      if (!['meta', 'exec', 'cli'].includes(file.folder) && file.name !== 'core/observer.ts')
        expect(file.code, file.name).not.toMatch(meta)
    }
  })

  it('nobody switches this off', () => {
    for (const file of files) expect(file.text, file.name).not.toMatch(/biome-ignore.*(noRestrictedImports|noConsole)/)
  })
})

describe('modules', () => {
  it('import pegboard, Node and their own libraries, never src', () => {
    for (const path of filesBelow(join(root, 'modules'))) {
      const text = readFileSync(path, 'utf8')
      expect(text, path).not.toMatch(/from '\.\.\/(\.\.\/)?src\//)
    }
  })
})
