// Writes sbom.cdx.json: what an install of the package brings, on every platform, and what is compiled into dist/. npm says the
// first from the lock file; it takes the second for tools of development, so that the list beside the bundle corrects it.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'

const [out = 'sbom.cdx.json'] = process.argv.slice(2)
const bom = JSON.parse(
  execFileSync('npm', ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'], {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
    stdio: ['ignore', 'pipe', 'ignore'],
  }),
)

const notices = readFileSync('dist/THIRD_PARTY.txt', 'utf8').split(`\n\n${'-'.repeat(80)}\n\n`)
const compiled = new Set(notices.map((notice) => notice.split(' ', 2).join('@')))
/** Packages that others were published with: no lock file knows them, so the file that holds them is hashed. */
const inner = notices.flatMap((notice) => {
  const [, name, version, license, file] = /^(\S+) (\S+) \((.+)\)\n\nInside (\S+)$/m.exec(notice) ?? []
  if (file === undefined) return []
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
  return [
    {
      type: 'library',
      name,
      version,
      'bom-ref': `${name}@${version}`,
      purl,
      scope: 'required',
      licenses: [{ license: { id: license } }],
      hashes: [{ alg: 'SHA-512', content: createHash('sha512').update(readFileSync(file)).digest('hex') }],
      properties: [
        { name: 'cdx:npm:package:path', value: file },
        { name: 'cdx:npm:package:bundled', value: 'true' },
      ],
    },
  ]
})
const DEVELOPMENT = 'cdx:npm:package:development'
const components = bom.components
  .filter(
    ({ 'bom-ref': ref, properties = [] }) => compiled.has(ref) || !properties.some(({ name }) => name === DEVELOPMENT),
  )
  .map((component) =>
    compiled.has(component['bom-ref'])
      ? {
          ...component,
          scope: 'required',
          properties: [
            ...component.properties.filter(({ name }) => name !== DEVELOPMENT),
            { name: 'cdx:npm:package:bundled', value: 'true' },
          ],
        }
      : component,
  )
const listed = new Set(components.map((component) => component['bom-ref']))
components.push(...inner.filter((component) => !listed.has(component['bom-ref'])))
const known = new Set(components.map((component) => component['bom-ref']))
const missing = [...compiled].filter((ref) => !known.has(ref))
if (missing.length > 0) throw new Error(`compiled in, but not in package-lock.json: ${missing.join(', ')}`)

const parents = new Map(bom.dependencies.map((entry) => [entry.ref, entry]))
for (const component of inner)
  if (!parents.has(component['bom-ref'])) bom.dependencies.push({ ref: component['bom-ref'] })
const { name, version } = JSON.parse(readFileSync('package.json', 'utf8'))
const own = bom.metadata.component['bom-ref']
const dependencies = bom.dependencies
  .filter(({ ref }) => ref === own || known.has(ref))
  .map(({ ref, dependsOn = [] }) => ({
    ref,
    dependsOn: [...new Set([...dependsOn, ...(ref === own ? compiled : [])])].filter((to) => known.has(to)).sort(),
  }))
writeFileSync(
  out,
  `${JSON.stringify({ ...bom, metadata: { ...bom.metadata, component: { ...bom.metadata.component, name } }, components, dependencies }, null, 2)}\n`,
)
process.stderr.write(
  `${out}: ${components.length} packages in ${name} ${version}, ${compiled.size} of them compiled in\n`,
)
