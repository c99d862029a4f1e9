// npm run train:atlas: builds models/atlas from training/atlas.
import { createHash } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ownPackage } from '../src/app/package-info.ts'
import { buildAtlas, readWrittenServers } from './atlas.ts'

const { root, encoder } = ownPackage()
const target = join(root, 'models/atlas')
const { index, files } = buildAtlas(readWrittenServers(), encoder.model)
const hash = createHash('sha256').update(index.encoder)
rmSync(target, { recursive: true, force: true })
mkdirSync(target, { recursive: true })
for (const [server, content] of files) {
  const text = JSON.stringify(content)
  hash.update(text)
  writeFileSync(join(target, `${server}.json`), text)
}
writeFileSync(join(target, 'index.json'), JSON.stringify({ ...index, id: hash.digest('hex').slice(0, 12) }))
const count = [...files.values()].reduce((sum, { tools }) => sum + tools.length, 0)
process.stderr.write(`models/atlas: ${count} tools of ${files.size} servers\n`)
