// Asks the registry what is known against the packages of each lock file given. A finding fails unless docs/internals/dependencies.md
// names its advisory, with the reason why it does not matter here. A registry that answers no audits says nothing either way.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const explained = new Set(
  readFileSync('docs/internals/dependencies.md', 'utf8').match(/GHSA(?:-[0-9a-z]{4}){3}/g) ?? [],
)
const folders = process.argv.slice(2)
let open = 0
for (const folder of folders.length > 0 ? folders : ['.']) {
  let said
  try {
    said = execFileSync('npm', ['audit', '--json', '--package-lock-only', '--prefix', folder], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      maxBuffer: 2 ** 26,
    })
  } catch (error) {
    said = error.stdout
  }
  const { vulnerabilities, message } = JSON.parse(said || '{"message": "npm said nothing"}')
  if (vulnerabilities === undefined) {
    process.stdout.write(`${folder}: not audited, the registry does not answer: ${message}\n`)
    continue
  }
  const advisories = new Map(
    Object.values(vulnerabilities)
      .flatMap(({ via }) => via)
      .filter((via) => typeof via === 'object')
      .map((via) => [via.url, via]),
  )
  for (const { url, name, severity, title } of advisories.values()) {
    const known = explained.has(url.split('/').at(-1))
    if (!known) open += 1
    process.stdout.write(`${folder}: ${name}, ${severity}: ${title} (${url})${known ? ', explained' : ''}\n`)
  }
  if (advisories.size === 0) process.stdout.write(`${folder}: nothing known\n`)
}
if (open > 0) {
  process.stdout.write(`${open} not explained in docs/internals/dependencies.md\n`)
  process.exitCode = 1
}
