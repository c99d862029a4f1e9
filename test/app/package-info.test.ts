import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'

interface Locked {
  readonly version: string
  readonly integrity?: string
  readonly resolved?: string
  readonly dev?: boolean
  readonly hasInstallScript?: boolean
  readonly optionalDependencies?: Record<string, string>
}
const lockOf = (folder: string): Record<string, Locked> =>
  JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')).packages
const page = readFileSync('docs/internals/dependencies.md', 'utf8')
const manifest = JSON.parse(readFileSync('package.json', 'utf8'))
const nameOf = (path: string): string => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)

/** Where node would find a package asked for by another, in a lock file. */
function found(lock: Record<string, Locked>, from: string, name: string): Locked | undefined {
  const inside = lock[`${from === '' ? '' : `${from}/`}node_modules/${name}`]
  if (inside !== undefined || from === '') return inside
  return found(lock, from.slice(0, Math.max(0, from.lastIndexOf('/node_modules/'))), name)
}

test.each(['.', 'test/optional'])(
  'the lock file of %s lists every package for all platforms with its hash, and no registry',
  (folder) => {
    const lock = lockOf(folder)
    const packages = Object.entries(lock).filter(([path]) => path !== '')
    expect(packages.filter(([, { integrity }]) => integrity === undefined).map(([path]) => path)).toEqual([])
    expect(packages.filter(([, { resolved }]) => resolved !== undefined).map(([path]) => path)).toEqual([])
    const missing = packages.flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies)
        .filter((name) => found(lock, path, name) === undefined)
        .map((name) => `${path} -> ${name}`),
    )
    expect(missing).toEqual([])
  },
)

test('no installed package has an install script, and those of development packages are listed', () => {
  const scripted = Object.entries(lockOf('.')).filter(([, { hasInstallScript }]) => hasInstallScript)
  expect(scripted.filter(([, { dev }]) => dev !== true).map(([path]) => path)).toEqual([])
  const listed = /Install scripts(?:.+\n)+/.exec(page)?.[0] ?? ''
  expect(scripted.map(([path]) => nameOf(path)).filter((name) => !listed.includes(`\`${name}\``))).toEqual([])
})

test('every direct dependency has its reason in docs/internals/dependencies.md', () => {
  const asked = ['dependencies', 'optionalDependencies', 'peerDependencies', 'devDependencies'].flatMap((kind) =>
    Object.keys(manifest[kind]),
  )
  const named = (name: string): boolean =>
    page.includes(`\`${name}\``) || (name.startsWith('@types/') && page.includes('`@types/*`'))
  expect(asked.filter((name) => !named(name))).toEqual([])
})

/** Packages that the type declarations in dist/ import. */
const namedByTypes = (): string[] => {
  const texts = readdirSync('dist/types', { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.d.ts'))
    // An example in a comment imports this package.
    .map((name) => readFileSync(join('dist/types', name), 'utf8').replaceAll(/^ *\*.*$/gm, ''))
  const asked = texts.flatMap((text) => [...text.matchAll(/(?:from|import\() ?['"]([^.'"][^'"]*)['"]/g)])
  return [...new Set(asked.map(([, name = '']) => name))].filter((name) => !name.startsWith('node:')).sort()
}

test('the installed packages are those that the bundle and the types import, and nothing that is bundled', () => {
  expect(namedByTypes()).toEqual(['undici', 'zod'])
  expect(Object.keys(manifest.dependencies)).toEqual(['undici', 'zod'])
  expect(Object.keys(manifest.optionalDependencies)).toEqual(['@napi-rs/keyring'])
  const compiled = readFileSync('dist/THIRD_PARTY.txt', 'utf8')
  const inside = (name: string): boolean => compiled.includes(`\n${name} `)
  expect(['undici', '@napi-rs/keyring', 'libsql'].filter(inside)).toEqual([])
  expect(
    ['zod', '@modelcontextprotocol/client', '@modelcontextprotocol/server'].filter((name) => !inside(name)),
  ).toEqual([])
})

test('every bundled package is listed with its licence text, nested ones too', () => {
  const notices = readFileSync('dist/THIRD_PARTY.txt', 'utf8').split(`\n\n${'-'.repeat(80)}\n\n`)
  const noticeOf = (name: string): string => notices.find((notice) => notice.startsWith(`${name} `)) ?? ''
  expect(noticeOf('@swc/wasm-typescript')).toMatch(/^@swc\/wasm-typescript 1\.7\.35 \(Apache-2\.0\)\n/)
  expect(noticeOf('@swc/wasm-typescript')).toContain('Apache License')
  expect(noticeOf('@cfworker/json-schema')).toContain('Permission is hereby granted, free of charge')
  expect(noticeOf('content-type')).toContain('Douglas Christopher Wilson')
  const short = notices.filter((notice) => !/Permission|Redistribution|Apache License/.test(notice))
  expect(short.map((notice) => notice.split('\n')[0])).toEqual([])
})

test('workflows pin actions by commit, request minimal permissions, and run no third-party code with write access', () => {
  const files = readdirSync('.github/workflows')
  expect(files).toEqual(['ci.yml', 'publish.yml'])
  for (const file of files) {
    const text = readFileSync(join('.github/workflows', file), 'utf8')
    const uses = [...text.matchAll(/uses: *(\S+)/g)].map(([, used]) => used)
    expect(uses.length).toBeGreaterThan(0)
    for (const used of uses) expect(used).toMatch(/^actions\/[a-z-]+@[0-9a-f]{40}$/)
    expect(text).not.toMatch(/pull_request_target|workflow_run|secrets\.|\$\{\{ *github\.event/)
    expect(text.match(/uses: *actions\/checkout/g)?.length).toBe(text.match(/persist-credentials: false/g)?.length)
  }
  const ci = parse(readFileSync('.github/workflows/ci.yml', 'utf8'))
  expect(ci.permissions).toEqual({ contents: 'read' })
  const publish = parse(readFileSync('.github/workflows/publish.yml', 'utf8'))
  expect(publish.on).toEqual({ push: { tags: ['v*'] } })
  expect(publish.permissions).toEqual({})
  expect(publish.jobs.publish.permissions).toEqual({ contents: 'read', 'id-token': 'write' })
  const steps: { run?: string }[] = publish.jobs.publish.steps
  expect(steps.at(-1)?.run).toContain('npm publish --provenance')
})

test('every file that SECURITY.md mentions exists', () => {
  const links = [...readFileSync('SECURITY.md', 'utf8').matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, to = '']) => to)
  expect(links.length).toBeGreaterThan(60)
  expect(links.filter((to) => !existsSync(to))).toEqual([])
})
