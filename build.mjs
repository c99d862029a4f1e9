// Builds dist/: one bundle of the command line, the library and the bundled modules, thin files that hand out its parts, and
// the types. One script can be started from V8's code cache, which ES modules cannot be on Node 20; see src/cli/code.ts.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { build } from 'esbuild'

const require = createRequire(import.meta.url)

/** Every module in modules/: a file, or a folder with an index. Files starting with `_` are helpers and are bundled into their users. */
const modules = readdirSync('modules')
  .filter((name) => !name.startsWith('_') && !name.startsWith('.') && !name.endsWith('.d.ts'))
  .flatMap((name) => {
    if (statSync(`modules/${name}`).isDirectory()) return [{ name, file: `./modules/${name}/index.ts` }]
    return name.endsWith('.ts') ? [{ name: name.slice(0, -3), file: `./modules/${name}` }] : []
  })

/** zod carries its messages in forty languages; loading them takes a tenth of the time a client waits for its first answer. */
const englishOnly = {
  name: 'zod-english-only',
  setup: ({ onLoad }) =>
    onLoad({ filter: /zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, () => ({
      contents: "export { default as en } from './en.js'",
    })),
}

/** The stripper of types is three times as large as all the rest, and most servers have no .ts drop-in. */
const stripperApart = (path) => ({
  name: 'stripper-apart',
  setup: ({ onResolve }) => onResolve({ filter: /^amaro$/ }, () => ({ path, external: true })),
})

const common = {
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  minify: true,
  keepNames: false,
  legalComments: 'none',
  logLevel: 'warning',
}

const write = (file, text) => {
  mkdirSync(file.slice(0, file.lastIndexOf('/')), { recursive: true })
  writeFileSync(file, text)
}

rmSync('dist', { recursive: true, force: true })

// --- the bundle -------------------------------------------------------------------------------------------------------

const parts = modules.map(({ name, file }) => `${JSON.stringify(name)}: () => import(${JSON.stringify(file)})`)
const bundle = await build({
  ...common,
  stdin: {
    contents: `export const main = () => import('./src/cli/main.ts')
export const api = () => import('./src/index.ts')
export const modules = { ${parts.join(', ')} }`,
    resolveDir: '.',
  },
  format: 'iife',
  globalName: 'bundle',
  write: false,
  metafile: true,
  plugins: [englishOnly, stripperApart('./loader/amaro.cjs')],
  alias: { pegboard: './src/index.ts' },
  // Stays a package of its own: it faces the network, and its fixes should reach users without a new release of ours.
  // The keyring is native code, and optional.
  external: ['undici', '@napi-rs/keyring'],
  define: { 'import.meta.url': 'bundleUrl' },
})
// A script has no import() of its own that would not warn; it is handed one. Two texts that are run elsewhere keep theirs.
const code = bundle.outputFiles[0].text.replaceAll(/(?<![\w$.])import\((?!url\)|settings\.)/g, 'bundleImport(')
write('dist/bundle.cjs', `(function(require,exports,bundleUrl,bundleImport){${code}\nObject.assign(exports,bundle)})`)
const id = createHash('sha256').update(code).digest('hex').slice(0, 16)

await build({
  ...common,
  entryPoints: ['src/cli/code.ts'],
  outfile: 'dist/load.cjs',
  format: 'cjs',
  define: { BUILD: JSON.stringify(id) },
})
const stripper = await build({
  ...common,
  entryPoints: ['amaro'],
  outfile: 'dist/loader/amaro.cjs',
  format: 'cjs',
  metafile: true,
})
await build({
  ...common,
  entryPoints: ['src/loader/strip.ts'],
  outfile: 'dist/loader/strip.js',
  format: 'esm',
  plugins: [stripperApart('./amaro.cjs')],
})

// --- whose work it holds ----------------------------------------------------------------------------------------------

/** The bundle has no comments: the licences of what is in it lie beside it, as they ask for. */
const packages = new Map()
for (const { metafile } of [bundle, stripper])
  for (const file of Object.keys(metafile.inputs)) {
    const folder = /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0]
    if (folder !== undefined) packages.set(folder, JSON.parse(readFileSync(`${folder}/package.json`, 'utf8')))
  }
const notices = [...packages]
  .sort(([a], [b]) => (a < b ? -1 : 1))
  .map(([folder, { name, version, license }]) => {
    const texts = readdirSync(folder).filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
    return [`${name} ${version} (${license})`, ...texts.map((file) => readFileSync(`${folder}/${file}`, 'utf8').trim())]
  })
write('dist/THIRD_PARTY.txt', `${notices.map((parts) => parts.join('\n\n')).join(`\n\n${'-'.repeat(80)}\n\n`)}\n`)

// --- what hands it out ------------------------------------------------------------------------------------------------

write('dist/cli/package.json', '{"type":"commonjs"}\n')
write('dist/cli/main.js', "#!/usr/bin/env node\nrequire('../load.cjs').load().main()\n")
chmodSync('dist/cli/main.js', 0o755)
for (const { name } of modules)
  write(
    `dist/modules/${name}.js`,
    `import code from '../load.cjs'\nexport default (await code.load().modules[${JSON.stringify(name)}]()).default\n`,
  )
const names = Object.keys(await require('./dist/load.cjs').load().api())
write(
  'dist/index.js',
  `import code from './load.cjs'\nexport const { ${names.join(', ')} } = await code.load().api()\n`,
)

const tsc = require.resolve('typescript/package.json').replace(/package\.json$/, 'bin/tsc')
execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { stdio: 'inherit' })
const files = readdirSync('dist', { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
const bytes = files.reduce((sum, entry) => sum + statSync(`${entry.parentPath}/${entry.name}`).size, 0)
process.stderr.write(`built dist: ${files.length} files, ${Math.round(bytes / 1024)} KiB\n`)
