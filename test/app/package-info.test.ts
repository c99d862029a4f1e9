import { execFile, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { Spec, Validation } from '@cyclonedx/cyclonedx-library'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { temporaryFolder } from '../app.ts'

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

test('the package contains its listed files, and no tests, source maps, secrets or build paths', () => {
  const said = JSON.parse(
    execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
  ) as { files: { path: string }[] }[] | Record<string, { files: { path: string }[] }>
  const paths = Object.values(said).flatMap(({ files }) => files.map(({ path }) => path))
  expect(paths).toEqual(expect.arrayContaining(['dist/cli/main.js', 'dist/THIRD_PARTY.txt', 'SECURITY.md', 'LICENSE']))
  const meant = [...(manifest.files as string[]), 'package.json']
  expect(paths.filter((path) => !meant.some((file) => path === file || path.startsWith(`${file}/`)))).toEqual([])
  expect(
    paths.filter((path) => /\.map$|\.test\.|(^|\/)(test|fixtures|node_modules|\.[^/]+)(\/|$)|\.lock\.json$/.test(path)),
  ).toEqual([])
  const secret =
    /-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/]{40}|\bnpm_[A-Za-z0-9]{36}\b|\bgh[pousr]_[A-Za-z0-9]{36}\b|\bAKIA[A-Z0-9]{16}\b|:_authToken=/
  const telling = paths.filter((path) => {
    const text = readFileSync(path, 'latin1')
    return (
      secret.test(text) ||
      [resolve('.'), homedir()].some((folder) => folder.length > 1 && text.includes(`${folder}/`)) ||
      text.includes('sourceMappingURL=')
    )
  })
  expect(telling).toEqual([])
}, 120_000)

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

test('the bill of materials is valid CycloneDX and lists the bundled packages', async () => {
  const out = join(temporaryFolder(), 'sbom.json')
  execFileSync(process.execPath, ['scripts/sbom.mjs', out], { stdio: 'ignore' })
  const text = readFileSync(out, 'utf8')
  expect(await new Validation.JsonStrictValidator(Spec.Version.v1dot5).validate(text)).toBeNull()
  const { components, dependencies, metadata } = JSON.parse(text) as {
    components: { name: string; version: string; hashes?: unknown[]; properties: { name: string; value: string }[] }[]
    dependencies: { ref: string }[]
    metadata: { component: { name: string } }
  }
  expect(metadata.component.name).toBe('pegboard')
  const compiled = components
    .filter(({ properties }) => properties.some(({ name }) => name === 'cdx:npm:package:bundled'))
    .map(({ name, version }) => `${name} ${version}`)
  const heads = readFileSync('dist/THIRD_PARTY.txt', 'utf8')
    .split(`${'-'.repeat(80)}\n\n`)
    .map((notice) => notice.slice(0, notice.indexOf(' (')))
  expect(compiled.sort()).toEqual(heads.sort())
  const names = components.map(({ name }) => name)
  expect(names).toEqual(
    expect.arrayContaining([
      'undici',
      '@napi-rs/keyring',
      '@napi-rs/keyring-win32-x64-msvc',
      'zod',
      'turndown',
      'amaro',
      '@swc/wasm-typescript',
      'content-type',
    ]),
  )
  expect(names.filter((name) => /^vitest|^typescript|biome|esbuild|libsql/.test(name))).toEqual([])
  expect(components.filter(({ hashes = [] }) => hashes.length === 0)).toEqual([])
  expect(dependencies).toHaveLength(components.length + 1)
}, 120_000)

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

/** Answers or rejects the requests of `npm audit` to a registry. */
async function registry(answer: Record<string, unknown> | undefined): Promise<string> {
  const server = createServer((request, response) => {
    request.resume()
    if (answer !== undefined && request.url?.endsWith('/advisories/bulk'))
      response.setHeader('content-type', 'application/json').end(JSON.stringify(answer))
    else response.writeHead(405).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}
const advisory = (id: string): Record<string, unknown> => ({
  croner: [
    {
      id: 1,
      url: `https://github.com/advisories/${id}`,
      title: 'it loops',
      severity: 'high',
      vulnerable_versions: '*',
    },
  ],
})

test.each([
  ['a finding that nobody explained fails, and is named', advisory('GHSA-zzzz-zzzz-zzzz'), 1, /croner, high: it loops/],
  ['a registry that answers no audits fails nothing, and is named', undefined, 0, /does not answer: 405/],
  ['nothing known passes', {}, 0, /nothing known/],
])(
  'audit: %s',
  async (_, answer, code, says) => {
    const ran = promisify(execFile)(process.execPath, ['.ci/audit.mjs', '.'], {
      env: { ...process.env, npm_config_registry: await registry(answer), npm_config_fetch_retries: '0' },
    })
    const { stdout, exit } = await ran.then(
      (ended) => ({ stdout: ended.stdout, exit: 0 }),
      (error: { stdout: string; code: number }) => ({ stdout: error.stdout, exit: error.code }),
    )
    expect(stdout).toMatch(says)
    expect(exit).toBe(code)
  },
  120_000,
)

test('every file that SECURITY.md mentions exists', () => {
  const links = [...readFileSync('SECURITY.md', 'utf8').matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, to = '']) => to)
  expect(links.length).toBeGreaterThan(60)
  expect(links.filter((to) => !existsSync(to))).toEqual([])
})
