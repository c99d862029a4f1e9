// Writes the licences of the packages in a bundle, which has no comments: the licences ask to be passed on.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

const readManifest = (folder) => JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'))

/** @param builds results of esbuild, with their metafiles */
export function writeNotices(file, builds) {
  const packages = new Map()
  const add = ({ name, version, license }, folder, inside) =>
    packages.set(`${name} ${version}`, packages.get(`${name} ${version}`) ?? { name, version, license, folder, inside })
  for (const { metafile } of builds) {
    const used = new Set(
      Object.values(metafile.outputs).flatMap(({ inputs }) =>
        Object.keys(inputs).filter((input) => inputs[input].bytesInOutput > 0),
      ),
    )
    for (const input of Object.keys(metafile.inputs)) {
      const folder = /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(input)?.[0]
      if (folder === undefined) continue
      add(readManifest(folder), folder)
      if (used.has(input)) addInner(input, folder, add)
    }
  }
  const notices = [...packages.values()]
    .sort((a, b) => (`${a.name} ${a.version}` < `${b.name} ${b.version}` ? -1 : 1))
    .map(noticeOf)
  writeFileSync(file, `${notices.join(`\n\n${'-'.repeat(80)}\n\n`)}\n`)
}

/** Some packages contain other packages: the copy has its own manifest, or a comment of the bundler names it. */
function addInner(input, folder, add) {
  for (let inner = dirname(input); inner !== folder; inner = dirname(inner))
    if (existsSync(`${inner}/package.json`) && readManifest(inner).version) add(readManifest(inner), inner, input)
  for (const [, name, version] of readFileSync(input, 'utf8').matchAll(
    /^\/\/#region \S*\/\.pnpm\/((?:@[^/+]+\+)?[^/@]+)@([^/_]+)/gm,
  )) {
    const own = name.replace('+', '/')
    const { license } = readManifest(`node_modules/${own}`)
    add({ name: own, version, license }, `node_modules/${own}`, input)
  }
}

function noticeOf({ name, version, license, folder, inside }) {
  const texts = readdirSync(folder)
    .filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
    .map((file) => `${folder}/${file}`)
  // Kept here for packages that are published without it.
  if (texts.length === 0) texts.push(`scripts/licences/${name}.txt`)
  return [
    `${name} ${version} (${license})`,
    ...(inside === undefined ? [] : [`Inside ${inside}`]),
    ...texts.map((text) => readFileSync(text, 'utf8').trim()),
  ].join('\n\n')
}
