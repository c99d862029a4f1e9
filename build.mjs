// Builds dist/: three scripts with all code, their loader (src/boot/), ES modules that export parts of them, licences and types.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { build } from 'esbuild'
import { writeDeclarations } from './scripts/declarations.mjs'
import { asciiOnly, englishOnly, fromChunk, importByLoader, stripperApart } from './scripts/esbuild-plugins.mjs'
import { writeExports } from './scripts/exports.mjs'
import { writeNotices } from './scripts/notices.mjs'
import { buildPage } from './scripts/page.mjs'

/** The modules in modules/: a file, or a folder with an index. Files starting with `_` are bundled into their users. */
const modules = readdirSync('modules')
  .filter((name) => !name.startsWith('_') && !name.startsWith('.') && !name.endsWith('.d.ts'))
  .flatMap((name) => {
    if (statSync(`modules/${name}`).isDirectory()) return [{ name, file: `./modules/${name}/index.ts` }]
    return name.endsWith('.ts') ? [{ name: name.slice(0, -3), file: `./modules/${name}` }] : []
  })

/** They are on by default, so they are in the first chunk. `writeExports` checks this list. */
const onByDefault = ['contacts', 'filesystem', 'hello', 'mcp', 'moderation', 'plan', 'todo']

const common = {
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  format: 'cjs',
  minify: true,
  // Node prints the line that an uncaught error was thrown in: without a limit that is the whole bundle.
  lineLimit: 160,
  legalComments: 'none',
  logLevel: 'warning',
  metafile: true,
}

rmSync('dist', { recursive: true, force: true })
execFileSync(process.execPath, ['scripts/run-ts.mjs', 'scripts/default-settings.ts'])

// undici faces the network: its fixes should reach users without a new release of Pegboard. The rest is optional.
const external = ['undici', '@napi-rs/keyring', 'libsql', 'ioredis', 'bullmq', 'pg', 'mysql2', '@opentelemetry/*']
/** Packages that a start does not need. Nothing in them imports code of Pegboard. */
const libraries = [
  '@modelcontextprotocol/client',
  '@modelcontextprotocol/server',
  '@modelcontextprotocol/server/stdio',
  'yaml',
  'jose',
  'diff',
  'smol-toml',
]

const chunk = (name, lines, plugins) =>
  build({
    ...common,
    stdin: { contents: lines.join('\n'), resolveDir: '.' },
    outfile: `dist/${name}.cjs`,
    external,
    // Its `main` is UMD, whose parts a bundler cannot follow.
    alias: {
      'jsonc-parser': 'jsonc-parser/lib/esm/main.js',
      ...(name === 'pegboard' && { pegboard: './src/index.ts' }),
    },
    define: { 'import.meta.url': 'bundleUrl' },
    // The other imports become require().
    supported: { 'dynamic-import': false },
    // A function, so that the loader passes it a `require` without copying the text.
    banner: { js: '(function (module, require, __filename, bundleUrl) {' },
    footer: { js: '})' },
    plugins: [englishOnly, importByLoader, stripperApart('./loader/amaro.cjs'), ...plugins, asciiOnly],
  })
/** Exports modules, each of which is evaluated when it is called. */
const exportModules = (some) => [
  'export const modules = {',
  ...some.map(({ name, file }) => `'${name}': () => import('${file}'),`),
  '}',
]
const chunks = [
  await chunk(
    'pegboard',
    [
      "export * as api from './src/index.ts'",
      "export * as zod from 'zod/v4'",
      "export const main = () => import('./src/cli/main.ts')",
      "export const agent = () => import('./src/agent.ts')",
      "export const building = () => import('./src/loader/switched-off.ts')",
      ...exportModules(modules.filter(({ name }) => onByDefault.includes(name))),
    ],
    [fromChunk(libraries, (name) => `require('./libraries.cjs')['${name}']()`)],
  ),
  await chunk(
    'libraries',
    ['module.exports = {', ...libraries.map((name) => `'${name}': () => require('${name}'),`), '}'],
    [fromChunk(['zod/v4'], () => "require('./pegboard.cjs').zod")],
  ),
  await chunk('modules', exportModules(modules.filter(({ name }) => !onByDefault.includes(name))), [
    fromChunk(['pegboard'], () => "require('./pegboard.cjs').api"),
    fromChunk(libraries, (name) => `require('./libraries.cjs')['${name}']()`),
  ]),
]
const stripper = await build({ ...common, entryPoints: ['amaro'], outfile: 'dist/loader/amaro.cjs' })
await build({
  ...common,
  entryPoints: ['src/loader/strip-types.ts'],
  outfile: 'dist/loader/strip.js',
  format: 'esm',
  plugins: [stripperApart('./amaro.cjs')],
})
/** What runs in threads: a thread starts from a file, which it finds beside the bundle. */
const threads = await build({
  ...common,
  entryPoints: ['src/openapi', ...modules.map(({ file }) => dirname(file)).filter((dir) => dir !== './modules')]
    .flatMap((dir) =>
      readdirSync(dir)
        .filter((name) => name.endsWith('.cjs'))
        .map((name) => `${dir}/${name}`),
    )
    .concat(
      'src/search/encoder/encoder-thread.ts',
      'src/code/code-thread.ts',
      'src/results/result-thread.ts',
      'src/receipts/token-thread.ts',
    ),
  outdir: 'dist',
  outExtension: { '.js': '.cjs' },
  entryNames: '[name]',
  plugins: [stripperApart('./loader/amaro.cjs')],
})
const hash = createHash('sha256')
for (const name of ['pegboard', 'libraries', 'modules']) hash.update(readFileSync(`dist/${name}.cjs`))
const BUILD = hash.digest('hex').slice(0, 16)
await build({
  ...common,
  entryPoints: ['src/boot/load-bundle.ts'],
  outfile: 'dist/load.cjs',
  define: { BUILD: JSON.stringify(BUILD) },
})

await writeExports(modules, onByDefault)
writeNotices('dist/THIRD_PARTY.txt', [...chunks, stripper, threads, await buildPage()])
writeDeclarations()
process.stderr.write(`built dist for Pegboard ${BUILD}\n`)
