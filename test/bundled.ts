import { buildSync } from 'esbuild'

/** Bundles a program that imports from `./src/` into a file that Node can run. */
export function bundle(program: string, contents: string): void {
  buildSync({
    stdin: { contents, resolveDir: process.cwd() },
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile: program,
    define: { 'import.meta.url': JSON.stringify(import.meta.url) },
  })
}
