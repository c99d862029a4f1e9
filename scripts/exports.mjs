// Writes the files of dist/ that package.json names: the command, and ES modules that export parts of the bundles.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'

const require = createRequire(import.meta.url)

const write = (file, text) => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

const names = (part) => Object.keys(part).join(', ')

/** Needs the bundles and their loader in dist/. */
export async function writeExports(modules, onByDefault) {
  const unknown = onByDefault.filter((name) => !modules.some((module) => module.name === name))
  if (unknown.length > 0) throw new Error(`build.mjs: "onByDefault" has names of no module: ${unknown.join(', ')}`)
  write('dist/cli/package.json', '{"type":"commonjs"}\n')
  write('dist/cli/main.js', "#!/usr/bin/env node\nrequire('../load.cjs').main()\n")
  chmodSync('dist/cli/main.js', 0o755)
  const loader = require('../dist/load.cjs')
  const built = loader.load()
  write('dist/index.js', `import code from './load.cjs'\nexport const { ${names(built.api)} } = code.load().api\n`)
  const agent = names(await built.agent())
  write('dist/agent.js', `import code from './load.cjs'\nexport const { ${agent} } = await code.load().agent()\n`)
  const { describeSwitchedOff } = await built.building()
  const switchedOff = {}
  for (const { name } of modules) {
    write(
      `dist/modules/${name}.js`,
      `import code from '../load.cjs'\nexport default (await code.loadModule('${name}')).default\n`,
    )
    switchedOff[name] = describeSwitchedOff((await loader.loadModule(name)).default)
    if (onByDefault.includes(name) !== (switchedOff[name] === undefined))
      throw new Error(`build.mjs: "onByDefault" must have exactly the modules that are on by default: ${name}`)
  }
  write('dist/modules/switched-off.json', JSON.stringify(switchedOff))
}
