// Assembles scripts/simd.wat into the constant of src/search/simd.ts.
//   node scripts/simd.mjs [--check]
import { readFileSync, writeFileSync } from 'node:fs'
import { assemble } from './wat.mjs'

const target = new URL('../src/search/simd.ts', import.meta.url)
const before = readFileSync(target, 'utf8')
const bytes = assemble(readFileSync(new URL('simd.wat', import.meta.url), 'utf8'))
const lines = Buffer.from(bytes)
  .toString('base64')
  .match(/.{1,110}/g)
const after = before.replace(
  /(const MODULE =\n)(?: {2}'.*\n?)*/,
  (_, head) => `${head}${lines.map((line) => `  '${line}'`).join(' +\n')}\n`,
)
if (!process.argv.includes('--check')) writeFileSync(target, after)
else if (after !== before)
  throw new Error('src/search/simd.ts is not what scripts/simd.wat says: run node scripts/simd.mjs')
