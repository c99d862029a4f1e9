// Rewrites the generated parts of README.md and docs, and mcp.config.schema.json. Needs dist/.
//   node scripts/run-ts.mjs scripts/docs.ts [--check]
import { readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { ToolModule } from '../src/core/module.ts'
import { rewritePages } from './generated-pages.ts'

const modules: ToolModule[] = []
for (const name of readdirSync('dist/modules').sort())
  if (name.endsWith('.js')) modules.push((await import(pathToFileURL(resolve('dist/modules', name)).href)).default)
const check = process.argv.includes('--check')
const stale = rewritePages('.', modules, check)
if (stale.length > 0) {
  process.stderr.write(check ? `Stale: ${stale.join(', ')}. Run npm run docs.\n` : `Written: ${stale.join(', ')}\n`)
  if (check) process.exitCode = 1
} else process.stderr.write('All generated pages are current.\n')
