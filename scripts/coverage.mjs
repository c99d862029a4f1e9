// Writes docs/internals/coverage.md: which requirement row is shown by which test. A test cites a row in its name, as [DIG-01].
//   node scripts/coverage.mjs [--check]
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

const rows = JSON.parse(readFileSync('test/rows.json', 'utf8'))
const known = new Set(rows.map(({ id }) => id))
// Cases of the security checks are cited in the same way and counted elsewhere.
const prefixes = new Set(rows.map(({ id }) => id.slice(0, 3)))
const cited = new Map()

/** The title of a describe, it or test, also after a table of `each`. The indentation shows what is inside what. */
const TITLE = /^( *)(?:(?:describe|it|test)\b.*?|\][^)\n]*\))\(\s*(['"`])((?:(?!\2)[^\\]|\\.)*)\2/gm

for (const file of readdirSync('test', { recursive: true })
  .filter((name) => name.endsWith('.test.ts') && !name.includes('node_modules'))
  .sort()) {
  const around = []
  for (const [, { length: depth }, , name] of readFileSync(`test/${file}`, 'utf8').matchAll(TITLE)) {
    while (around.length > 0 && around.at(-1).depth >= depth) around.pop()
    around.push({ depth, name })
    for (const [, list] of name.matchAll(/\[((?:[A-Z]{3}-\d+(?:, )?)+)\]/g)) {
      for (const id of list.split(', ')) {
        if (!prefixes.has(id.slice(0, 3))) continue
        if (!known.has(id)) throw new Error(`test/${file} cites ${id}, which is no row`)
        const title = around.map(({ name }) => name.replaceAll(/\s*\[[^\]]*\]/g, '')).join(' ')
        cited.set(id, [...(cited.get(id) ?? []), `${title} (\`test/${file}\`)`])
      }
    }
  }
}

const shown = rows.filter(({ id }) => cited.has(id)).length
const line = ({ id, title, area }) =>
  `| ${[id, title, cited.get(id)?.join('<br>') ?? `not yet: ${area}`].map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
const text = `# Coverage

Each row is one requirement. \`npm run docs\` generates the table from the row ids in test names. ${shown} of ${rows.length} rows have a test.
In a test name, \`%s\`, \`%j\` and \`%i\` stand for the values of each case.

| Row | Requirement | Tests |
|---|---|---|
${rows.map(line).join('\n')}
`
const file = 'docs/internals/coverage.md'
const before = readFileSync(file, { encoding: 'utf8', flag: 'a+' })
if (before === text) process.exit(0)
if (process.argv.includes('--check')) {
  process.stderr.write(`${file} is stale: run npm run docs\n`)
  process.exit(1)
}
writeFileSync(file, text)
