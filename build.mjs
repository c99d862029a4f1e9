// Bundles the command line, the library and the bundled modules into dist/, with shared chunks, and emits the types.
// One file to read at start costs less than four hundred: importing the SDK as installed takes three times as long.
import { execFileSync } from 'node:child_process'
import { readdirSync, rmSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { build } from 'esbuild'

const require = createRequire(import.meta.url)

/** Every module in modules/: a file, or a folder with an index. Files starting with `_` are helpers and are bundled into their users. */
function moduleEntries() {
  return readdirSync('modules')
    .filter((name) => !name.startsWith('_') && !name.startsWith('.'))
    .flatMap((name) => {
      const path = `modules/${name}`
      if (statSync(path).isDirectory()) return [{ in: `${path}/index.ts`, out: `modules/${name}` }]
      return name.endsWith('.ts') && !name.endsWith('.d.ts') ? [{ in: path, out: `modules/${name.slice(0, -3)}` }] : []
    })
}

/** zod carries its messages in forty languages; loading them takes a tenth of the time a client waits for its first answer. */
const englishOnly = {
  name: 'zod-english-only',
  setup: ({ onLoad }) =>
    onLoad({ filter: /zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, () => ({
      contents: "export { default as en } from './en.js'",
    })),
}

rmSync('dist', { recursive: true, force: true })
const result = await build({
  entryPoints: [
    { in: 'src/cli/main.ts', out: 'cli/main' },
    { in: 'src/index.ts', out: 'index' },
    { in: 'src/loader/strip.ts', out: 'loader/strip' },
    ...moduleEntries(),
  ],
  outdir: 'dist',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  minify: true,
  keepNames: false,
  metafile: true,
  plugins: [englishOnly],
  legalComments: 'linked',
  chunkNames: 'chunks/[name]-[hash]',
  alias: { pegboard: './src/index.ts' },
  // Stays a package of its own: it faces the network, and its fixes should reach users without a new release of ours.
  external: ['undici'],
  logLevel: 'warning',
  // CommonJS packages inside the bundle still call require for Node's own modules.
  banner: { js: "import{createRequire as __r}from'node:module';const require=__r(import.meta.url);" },
})
const tsc = require.resolve('typescript/package.json').replace(/package\.json$/, 'bin/tsc')
execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { stdio: 'inherit' })
const bytes = Object.values(result.metafile.outputs).reduce((sum, output) => sum + output.bytes, 0)
process.stderr.write(
  `built dist: ${Object.keys(result.metafile.outputs).length} files, ${Math.round(bytes / 1024)} KiB\n`,
)
