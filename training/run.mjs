// npm run train, npm run train:fusion: bundles a trainer, which is TypeScript, and runs it.
import { rmSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'

const [trainer] = process.argv.splice(2, 1)
const outfile = `dist/training/train-${process.pid}.mjs`
await build({
  entryPoints: [`training/${trainer}`],
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
