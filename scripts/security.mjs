// Writes docs/internals/security.md: the tests of each security case, and the figures of the last measured run.
//   node scripts/security.mjs [--check]
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'

const json = (file) => JSON.parse(readFileSync(file, 'utf8'))
const cases = json('test/security/cases.json')
const requirements = json('test/security/requirements.json')
const known = new Set(cases.map(({ id }) => id))

/** Titles by case, and by requirement that no case is of. A test is of one when its title begins with the id. */
const tests = new Map()
const add = (id, title, name) => {
  const text = title
    .replaceAll(/\\(.)/g, '$1')
    .replaceAll('|', '\\|')
    // Values of repeated tests, and requirement rows of other checks.
    .replaceAll(/"?(?:%[sj]|\$\{\w+\})"?/g, '…')
    .replace(/ \[[A-Z]{3}-[^\]]*\]$/, '')
  tests.set(id, [...(tests.get(id) ?? []), { title: text, name }])
}
for (const name of readdirSync('test/security')
  .filter((name) => name.endsWith('.test.ts'))
  .sort()) {
  const text = readFileSync(`test/security/${name}`, 'utf8')
  for (const [, , id, title] of text.matchAll(/\(\s*(['"`])([A-Z]{2,5}-\d+): ((?:(?!\1)[^\\]|\\.)*)\1/g)) {
    if (!known.has(id)) throw new Error(`test/security/${name} has a test of ${id}, which is no case`)
    add(id, title, name)
  }
  for (const [, , id, title] of text.matchAll(/\(\s*(['"`])(R\d+): ((?:(?!\1)[^\\]|\\.)*)\1/g)) add(id, title, name)
}

const words = (name) =>
  name
    .split('MiB')
    .map((part) =>
      part.replaceAll(/(?<=[a-z\d])[A-Z]|^[A-Z]/g, (letter, at) => `${at > 0 ? ' ' : ''}${letter.toLowerCase()}`),
    )
    .join(' MiB ')
    .trim()
const shown = (value) => (value === null ? 'not known' : typeof value === 'number' ? value.toLocaleString('en') : value)
const machineOf = ({ cores, memoryGiB, node, platform }) =>
  [cores && `${cores} cores`, memoryGiB && `${memoryGiB} GiB`, node && `Node ${node.replace(/^v/, '')}`, platform]
    .filter(Boolean)
    .join(', ')

/** The numbers of a record and of those in it, each by the path to it; lists are left to the file. */
const leaves = (record, path = '') =>
  Object.entries(record).flatMap(([name, value]) => {
    const at = `${path}${words(name)}`
    if (Array.isArray(value)) return []
    return value !== null && typeof value === 'object' ? leaves(value, `${at}: `) : [[at, value]]
  })

/** A table of the figures of one run; what is no figure is left to its file. */
function figures(what, file) {
  if (!existsSync(file)) return `${what}: not measured yet.\n`
  const { date, command, machine = {}, ...rest } = json(file)
  const rows = leaves(rest)
  return `${what}: \`${command}\` on ${machineOf(machine)}, ${date}.

| What | Figure |
|---|---|
${rows.map(([name, value]) => `| ${name} | ${shown(value)} |`).join('\n')}
`
}

const testsOf = (id) => (tests.get(id) ?? []).map(({ title }) => title).join('<br>') || 'no test'
const filesOf = (id) => [...new Set((tests.get(id) ?? []).map(({ name }) => `\`${name}\``))].join(', ')
const numbered = (numbers) => numbers.map((n) => `R${n}`).join(' ')
const caseRow = ({ id, requirements: numbers }) => `| ${id} | ${testsOf(id)} | ${filesOf(id)} | ${numbered(numbers)} |`
const ownRow = ({ id, words: what, requirements: numbers }) =>
  `| ${id} | ${what} | ${testsOf(id)} | ${filesOf(id)} | ${numbered(numbers)} |`
const requirementRow = (title, at) => {
  const ids = cases.filter(({ requirements: numbers }) => numbers.includes(at + 1)).map(({ id }) => id)
  const own = (tests.get(`R${at + 1}`) ?? []).map((test) => `${test.title} (\`${test.name}\`)`)
  return `| R${at + 1} | ${title} | ${[...(ids.length > 0 ? [ids.join(' ')] : []), ...own].join('<br>') || 'no separate case'} |`
}

const order = [...new Set(cases.map(({ id }) => id.split('-')[0]))]
const listed = cases
  .filter((one) => one.words === undefined)
  .sort((a, b) => {
    const [[group, number], [otherGroup, otherNumber]] = [a.id.split('-'), b.id.split('-')]
    return order.indexOf(group) - order.indexOf(otherGroup) || Number(number) - Number(otherNumber)
  })
const own = cases.filter((one) => one.words !== undefined)
const coverage = (some) => {
  const without = some.filter(({ id }) => !tests.has(id)).length
  return `${some.length} cases, ${without === 0 ? 'each with a test' : `${without} without a test`}.`
}
const text = `# Security and reliability

\`npm run docs\` generates this page. The cases come from the titles of the tests in \`test/security\`, and the figures from \`docs/internals/figures/security.json\`.

\`npm run test:security\` runs all cases. It fails if a test fails, a result is lost or doubled, or a process still runs at the end. \`--write\` saves its figures.
[Endurance](soak.md) has the figures of a long run with failing servers.

- A **call** is a tool call that a test client sends. It is **lost** if it gets neither a result nor an error.
- A **fault** is a broken message, a hostile definition or a failing server. A test injects it.
- A **leaked process** still runs after the tests.

## Figures

${figures('The last measured run, with the cases that existed on that day', 'docs/internals/figures/security.json')}
## Requirements

| | Requirement | Cases |
|---|---|---|
${requirements.map(requirementRow).join('\n')}

## Cases

${coverage(listed)} The files are in \`test/security\`. A title with … is that of a test that runs with several values.

| | Test | File | Requirements |
|---|---|---|---|
${listed.map(caseRow).join('\n')}

## Page, init and registry

${coverage(own)} The files are in \`test/security\`.

| | Case | Test | File | Requirements |
|---|---|---|---|---|
${own.map(ownRow).join('\n')}
`
const file = 'docs/internals/security.md'
const before = existsSync(file) ? readFileSync(file, 'utf8') : ''
if (before === text) process.exit(0)
if (process.argv.includes('--check')) {
  process.stderr.write(`${file} is stale: run npm run docs\n`)
  process.exit(1)
}
writeFileSync(file, text)
