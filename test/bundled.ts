import { buildSync } from 'esbuild'

/** Writes a program that imports from `./src/`, as a file that Node runs by itself. */
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
