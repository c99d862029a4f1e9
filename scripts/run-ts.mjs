// node scripts/run-ts.mjs FILE: bundles a script that is TypeScript, and runs it.
import { rmSync } from 'node:fs'
import { basename } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'

const [script] = process.argv.splice(2, 1)
const outfile = `dist/scripts/${basename(script, '.ts')}-${process.pid}.mjs`
await build({
  entryPoints: [script],
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20.19',
  external: ['wabt'],
  outfile,
  logLevel: 'warning',
  banner: { js: "import{createRequire as __r}from'node:module';const require=__r(import.meta.url);" },
})
try {
  await import(pathToFileURL(outfile).href)
} finally {
  rmSync(outfile, { force: true })
}
