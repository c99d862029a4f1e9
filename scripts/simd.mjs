// Assembles WebAssembly text into the constant MODULE of the file that uses it.
//   node scripts/simd.mjs [--check]
import { readFileSync, writeFileSync } from 'node:fs'
import { assemble } from './wat.mjs'

for (const [source, user] of [
  ['simd.wat', 'src/search/simd-kernel.ts'],
  ['encoder.wat', 'src/search/encoder/encoder-kernel.ts'],
]) {
  const target = new URL(`../${user}`, import.meta.url)
  const before = readFileSync(target, 'utf8')
  const bytes = assemble(readFileSync(new URL(source, import.meta.url), 'utf8'))
  const lines = Buffer.from(bytes)
    .toString('base64')
    .match(/.{1,110}/g)
  const after = before.replace(
    /(const MODULE =\n)(?: {2}'.*\n?)*/,
    (_, head) => `${head}${lines.map((line) => `  '${line}'`).join(' +\n')}\n`,
  )
  if (!process.argv.includes('--check')) writeFileSync(target, after)
  else if (after !== before) throw new Error(`${user} does not match scripts/${source}: run node scripts/simd.mjs`)
}
