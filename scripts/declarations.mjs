// Writes the type declarations of the package to dist/types.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, resolve } from 'node:path'

const require = createRequire(import.meta.url)

export function writeDeclarations() {
  const tsc = require.resolve('typescript/package.json').replace(/package\.json$/, 'bin/tsc')
  execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { stdio: 'inherit' })
  /** The compiler writes declarations of every file; only those that a user's program reads are kept. */
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
}
