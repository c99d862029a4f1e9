// npm run bench [-- start|call|lists|search|search-scale|tokens|later|size|files …] [--json FILE]
// Ratios in one run are what counts: absolute times say more about the machine than about the program.
import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { load, machine } from './measure.mjs'
import { assertBuilt } from './pegboard.mjs'

const BENCHES = {
  start: async () => (await import('./start.mjs')).measureStart(),
  call: async () => (await import('./call.mjs')).measureCall(),
  lists: async () => (await import('./lists.mjs')).measureLists(),
  search: async () => (await import('./search.mjs')).measureSearch(),
  'search-scale': async () => (await import('./search-scale.mjs')).measureSearchScale(),
  tokens: async () => (await import('./tokens.mjs')).measureTokens(),
  later: async () => (await import('./later.mjs')).measureLater(),
  size: async () => (await import('./size.mjs')).measureSize(),
  files: async () => (await import('./files.mjs')).measureFiles(),
}

const { values, positionals } = parseArgs({ allowPositionals: true, options: { json: { type: 'string' } } })
const names = positionals.length === 0 ? Object.keys(BENCHES) : positionals
const unknown = names.find((name) => !Object.hasOwn(BENCHES, name))
if (unknown !== undefined) throw new Error(`${unknown} is no bench. There are: ${Object.keys(BENCHES).join(', ')}.`)
assertBuilt()

const about = machine()
process.stdout.write(
  `node ${about.node}, ${about.platform}, ${about.cores} × ${about.cpu}, load ${about.load}, ${about.date.slice(0, 10)}\n`,
)
const results = {}
for (const name of names) {
  const { text, ...result } = await BENCHES[name]()
  results[name] = { ...result, loadAfter: load() }
  process.stdout.write(text)
}
process.stdout.write(`\nload at the end ${load().toFixed(2)}\n`)
if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify({ machine: about, results }, null, 2)}\n`)
