// Writes the search vectors of the bundled tools to models/, so that a new installation need not compute them.
import { copyFileSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { inFolder, ROOT, startPegboard, writeConfig } from '../bench/pegboard.mjs'

const isVectors = (name) => name.startsWith('vectors-')
const models = join(ROOT, 'models')
for (const name of readdirSync(models).filter(isVectors)) rmSync(join(models, name))

async function searchOf(client) {
  const { contents } = await client.request('resources/read', { uri: 'server://status' })
  return JSON.parse(contents[0].text).search
}

const modules = readdirSync(join(ROOT, 'dist/modules')).flatMap((name) =>
  name.endsWith('.js') ? [name.slice(0, -3)] : [],
)
await inFolder(async (folder) => {
  const state = join(folder, 'state')
  // The texts of a module depend on whether it is on.
  for (const on of [[], modules]) {
    const config = await writeConfig(folder, {}, { modules: Object.fromEntries(on.map((name) => [name, {}])) })
    const client = startPegboard({ config, state, cwd: folder })
    await client.connect()
    await client.request('tools/list', {})
    while ((await searchOf(client)).encoder !== 'ready') await sleep(200)
    await client.close()
  }
  for (const name of readdirSync(join(state, 'search')).filter(isVectors))
    copyFileSync(join(state, 'search', name), join(models, name))
})
