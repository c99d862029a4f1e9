import { execFile, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { Spec, Validation } from '@cyclonedx/cyclonedx-library'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../app.ts'

const manifest = JSON.parse(readFileSync('package.json', 'utf8'))

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
