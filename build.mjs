// Builds dist/: the command line, the library and the bundled modules as six scripts, thin files that hand out their parts,
// and the types. A script can be started from V8's code cache, which ES modules cannot be on Node 20; see src/cli/code.ts.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { build, version } from 'esbuild'

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

/** What is prepared for the modules of ours is below; zod is not read for it. */
const bundledModules = {
  name: 'bundled-modules',
  setup: ({ onResolve }) =>
    onResolve({ filter: /^pegboard$/ }, ({ importer }) =>
      importer.startsWith(resolve('modules') + sep) ? { path: resolve('src/bundled.ts') } : undefined,
    ),
}

const common = {
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  minify: true,
  keepNames: false,
  // Node prints the line that an uncaught error was thrown in: without a limit that is all there is.
  lineLimit: 160,
  legalComments: 'none',
  logLevel: 'warning',
}

const write = (file, text) => {
  mkdirSync(file.slice(0, file.lastIndexOf('/')), { recursive: true })
  writeFileSync(file, text)
}

rmSync('dist', { recursive: true, force: true })

// --- the code ---------------------------------------------------------------------------------------------------------

const shared = {
  ...common,
  format: 'iife',
  globalName: 'pack',
  write: false,
  metafile: true,
  alias: { 'pegboard/agent': './src/agent.ts', pegboard: './src/index.ts' },
  // Stays a package of its own: it faces the network, and its fixes should reach users without a new release of ours.
  // The keyring is native code, and optional.
  external: ['undici', '@napi-rs/keyring', 'libsql', 'ioredis', 'bullmq', 'pg', 'mysql2', '@opentelemetry/*'],
  define: { 'import.meta.url': 'bundleUrl' },
}
const plugins = [englishOnly, stripperApart('./loader/amaro.cjs'), bundledModules]
const entry = (contents) => ({ contents, resolveDir: '.' })
const table = (pairs, how) =>
  `{ ${pairs.map(([name, file]) => `${JSON.stringify(name)}: () => ${how}(${JSON.stringify(file)})`).join(', ')} }`
const bundled = modules.map(({ name, file }) => [name, file])

/** Which file imports which: every file of the whole program, with what it imports at once and what it imports later. */
const { inputs } = (
  await build({
    ...shared,
    plugins,
    stdin: entry(
      `export const all = ${table([...bundled, ...['cli/main', 'index', 'agent', 'loader/stand-in'].map((name) => [`src/${name}`, `./src/${name}.ts`])], 'import')}`,
    ),
  })
).metafile
/** Names the build. What is kept between starts is of one build alone. */
const id = createHash('sha256').update(version)
for (const file of [
  'build.mjs',
  ...Object.keys(inputs)
    .filter((file) => file !== '<stdin>')
    .sort(),
])
  id.update(`${file}\0`).update(readFileSync(file))
const named = { BUILD: JSON.stringify(id.digest('hex').slice(0, 16)) }

/**
 * What a start imports and does not run before its first list, with all that nothing else of it imports. What a file says is
 * read when the first of it is looked at, so none of it may be used while a file of the start is evaluated.
 */
const NOT_YET = [
  'node_modules/@cfworker/json-schema/dist/esm/index.js',
  ...[
    'bundled',
    'exec/question',
    'exec/schedule',
    'exec/watchers',
    'loader/tool-context',
    'meta/schedule',
    'meta/watch',
    'observe/audit',
    'policy/glob',
    'search/index',
    'search/sources',
    'search/table',
    'search/vectors',
    'server/follow-tasks',
    'services/endpoint',
    'services/graph',
    'state/redis',
    'state/sqlite',
    'trust/checks',
    'upstream/connection',
    'upstream/definition',
    'upstream/hints',
    'upstream/lane',
    'upstream/listable',
    'view/resolve',
    'view/wording',
  ].map((name) => `src/${name}.ts`),
]
/** What a server runs until its first list, and soon after, what reads a configuration that is new, the bundled modules, zod, and everything else. */
const home = new Map()
const settle = (pack, file) => {
  if (home.has(file) || (pack === 'start' && NOT_YET.includes(file))) return
  home.set(file, file.startsWith('node_modules/zod/') ? 'zod' : pack)
  for (const { path, kind, external } of inputs[file].imports)
    if (!external && kind !== 'dynamic-import') settle(pack, path)
}
for (const file of ['main', 'serve', 'banner'].map((name) => `src/cli/${name}.ts`)) settle('start', file)
for (const name of ['app', 'server/stdio', 'loader/stand-in']) settle('start', `src/${name}.ts`)
for (const file of NOT_YET) settle('later', file)
settle('config', 'src/config/load.ts')
for (const { file } of modules) settle('modules', file.slice(2))
for (const file of Object.keys(inputs)) if (file !== '<stdin>') settle('rest', file)
/** A script is read when something of it is asked for, and there is one copy of each file among them all. */
const packOf = (file) => home.get(file)
const later = new Set()
for (const { imports } of Object.values(inputs))
  for (const { path, kind, external } of imports)
    if (!external && kind === 'dynamic-import' && packOf(path) !== 'start') later.add(path)

/** What each script is asked for by the others. */
const asked = {
  start: new Set(),
  later: new Set(NOT_YET),
  config: new Set(),
  modules: new Set(modules.map(({ file }) => file.slice(2))),
  zod: new Set(['node_modules/zod/index.js']),
  rest: new Set(),
}
for (const file of later) asked[packOf(file)].add(file)
const apart = (pack) => ({
  name: 'packs',
  setup: ({ onResolve, resolve }) =>
    onResolve({ filter: /./ }, async ({ path, kind, resolveDir, importer, pluginData }) => {
      if (pluginData === apart || path.startsWith('node:') || kind === 'entry-point') return undefined
      const found = await resolve(path, { kind, resolveDir, importer, pluginData: apart })
      if (found.external || found.errors.length > 0) return found
      const file = relative('.', found.path).replaceAll(sep, '/')
      const other = packOf(file)
      if (other === pack) return found
      asked[other].add(file)
      return { path: `${other}:${file}`, external: true, sideEffects: false }
    }),
})
const packed = async (name, contents) => {
  const made = await build({
    ...shared,
    define: { ...shared.define, ...named },
    plugins: [apart(name), ...plugins],
    stdin: entry(contents),
  })
  // A script has no import() of its own that would not warn; it is handed one. Two texts that are run elsewhere keep theirs.
  const code = made.outputFiles[0].text.replaceAll(/(?<![\w$.])import\((?!url\)|settings\.)/g, 'bundleImport(')
  // A default or all of a file is copied where it is imported, before any of it is there.
  const whole = /[\w$]\(require\("(later:[^"]+)/.exec(code)
  if (whole) throw new Error(`${name} imports all of ${whole[1]} or its default: name what it needs of it`)
  write(`dist/${name}.cjs`, `(function(require,bundleUrl,bundleImport){${code}\nreturn pack})`)
  return { code, metafile: made.metafile }
}
const filesOf = (pack) =>
  table(
    [...asked[pack]].sort().map((file) => [file, `./${file}`]),
    'require',
  )
// In this order, each asks only those that follow for what nobody else asks for.
const others = []
for (const name of ['rest', 'modules', 'config', 'later', 'zod'])
  others.push(await packed(name, `export const files = ${filesOf(name)}`))
/** @param how the code of the object with a function for each module, of its name and what reads it */
const firstWith = (given) =>
  packed(
    'start',
    `${given}
export const main = () => import('./src/cli/main.ts')
export const api = () => import('./src/index.ts')
export const agent = () => import('./src/agent.ts')
export const modules = { ${bundled
      .map(
        ([name, file]) =>
          `${JSON.stringify(name)}: async () => given(${JSON.stringify(name)}, () => require(${JSON.stringify(file)}))`,
      )
      .join(', ')} }
export const files = ${filesOf('start')}`,
  )
await build({
  ...common,
  entryPoints: ['src/cli/code.ts'],
  outfile: 'dist/load.cjs',
  format: 'cjs',
  define: named,
})
/** What our modules say without being switched on; asked once here, so that no start has to read them. */
await firstWith('const given = (_name, read) => read()')
const elsewhere = mkdtempSync(join(tmpdir(), 'pegboard-build-'))
const prepared = JSON.parse(
  execFileSync(process.execPath, ['scripts/prepared.mjs'], { env: { ...process.env, PEGBOARD_STATE_DIR: elsewhere } }),
)
rmSync(elsewhere, { recursive: true, force: true })
write('dist/modules.json', prepared.modules)
write('dist/schemas.txt', prepared.schemas)
const first = await firstWith(`import { readFileSync } from 'node:fs'
import { once } from './src/core/once.ts'
import { standIn } from './src/loader/stand-in.ts'
const textOf = (file) => readFileSync(new URL(file, import.meta.url), 'latin1')
const prepared = once(() => JSON.parse(textOf('modules.json')))
const schemas = once(() => textOf('schemas.txt'))
const schemaAt = ([from, to]) => JSON.parse(schemas().slice(from, to))
const given = (name, read) => ({ default: standIn(prepared()[name], schemaAt, () => read().default) })`)
const packs = [first, ...others]

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

/** What modules run in threads of their own: a thread is started from a file, and finds it beside the scripts. */
const threads = await build({
  ...common,
  entryPoints: modules.flatMap(({ file }) =>
    file.endsWith('/index.ts')
      ? readdirSync(file.slice(0, -'index.ts'.length))
          .filter((name) => name.endsWith('.cjs'))
          .map((name) => file.replace(/index\.ts$/, name))
      : [],
  ),
  outdir: 'dist',
  outExtension: { '.js': '.cjs' },
  entryNames: '[name]',
  format: 'cjs',
  metafile: true,
})

// --- whose work it holds ----------------------------------------------------------------------------------------------

/** The bundle has no comments: the licences of what is in it lie beside it, as they ask for. */
const packages = new Map()
const addPackage = ({ name, version, license }, folder, inside) =>
  packages.set(`${name} ${version}`, packages.get(`${name} ${version}`) ?? { name, version, license, folder, inside })
const readManifest = (folder) => JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'))
for (const { metafile } of [...packs, stripper, threads]) {
  const used = new Set(
    Object.values(metafile.outputs).flatMap(({ inputs }) =>
      Object.keys(inputs).filter((file) => inputs[file].bytesInOutput > 0),
    ),
  )
  for (const file of Object.keys(metafile.inputs)) {
    const folder = /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0]
    if (folder === undefined) continue
    addPackage(readManifest(folder), folder)
    if (!used.has(file)) continue
    // Some packages contain other packages: the copy has its own manifest, or a comment of the bundler names it.
    for (let inner = dirname(file); inner !== folder; inner = dirname(inner))
      if (existsSync(`${inner}/package.json`) && readManifest(inner).version)
        addPackage(readManifest(inner), inner, file)
    for (const [, name, version] of readFileSync(file, 'utf8').matchAll(
      /^\/\/#region \S*\/\.pnpm\/((?:@[^/+]+\+)?[^/@]+)@([^/_]+)/gm,
    )) {
      const own = name.replace('+', '/')
      addPackage(
        { name: own, version, license: readManifest(`node_modules/${own}`).license },
        `node_modules/${own}`,
        file,
      )
    }
  }
}
const notices = [...packages.values()]
  .sort((a, b) => (`${a.name} ${a.version}` < `${b.name} ${b.version}` ? -1 : 1))
  .map(({ name, version, license, folder, inside }) => {
    const texts = readdirSync(folder)
      .filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
      .map((file) => `${folder}/${file}`)
    // Kept here for packages that are published without it.
    if (texts.length === 0) texts.push(`scripts/licences/${name}.txt`)
    return [
      `${name} ${version} (${license})`,
      ...(inside === undefined ? [] : [`Inside ${inside}`]),
      ...texts.map((file) => readFileSync(file, 'utf8').trim()),
    ]
  })
write('dist/THIRD_PARTY.txt', `${notices.map((parts) => parts.join('\n\n')).join(`\n\n${'-'.repeat(80)}\n\n`)}\n`)

// --- what hands it out ------------------------------------------------------------------------------------------------

write('dist/cli/package.json', '{"type":"commonjs"}\n')
write('dist/cli/main.js', "#!/usr/bin/env node\nrequire('../load.cjs').main()\n")
chmodSync('dist/cli/main.js', 0o755)
for (const { name } of modules)
  write(
    `dist/modules/${name}.js`,
    `import code from '../load.cjs'\nexport default (await code.load().modules[${JSON.stringify(name)}]()).default\n`,
  )
const built = require('./dist/load.cjs').load()
for (const [file, part] of [
  ['index', 'api'],
  ['agent', 'agent'],
]) {
  const names = Object.keys(await built[part]())
  write(
    `dist/${file}.js`,
    `import code from './load.cjs'\nexport const { ${names.join(', ')} } = await code.load().${part}()\n`,
  )
}

const tsc = require.resolve('typescript/package.json').replace(/package\.json$/, 'bin/tsc')
execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { stdio: 'inherit' })
/** Declarations that a user's program reads. The compiler writes all, and the others name packages that nobody installs. */
const declared = new Set()
const declares = (file) => {
  if (declared.has(file)) return
  declared.add(file)
  for (const [, path] of readFileSync(file, 'utf8').matchAll(/(?:from|import\() ?['"](\.[^'"]+)\.ts['"]/g))
    declares(resolve(dirname(file), `${path}.d.ts`))
}
for (const file of ['index', 'agent']) declares(resolve(`dist/types/src/${file}.d.ts`))
for (const entry of readdirSync('dist/types', { recursive: true, withFileTypes: true })) {
  const file = resolve(entry.parentPath, entry.name)
  if (entry.isFile() && !declared.has(file)) rmSync(file)
}
const files = readdirSync('dist', { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
const bytes = files.reduce((sum, entry) => sum + statSync(`${entry.parentPath}/${entry.name}`).size, 0)
process.stderr.write(`built dist: ${files.length} files, ${Math.round(bytes / 1024)} KiB\n`)
