import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { table } from './measure.mjs'
import { inFolder, ROOT } from './pegboard.mjs'

const run = promisify(execFile)
const NPM = process.platform === 'win32' ? 'npm.cmd' : 'npm'
const npm = async (args, cwd) =>
  (await run(NPM, args, { cwd, maxBuffer: 2 ** 26, shell: process.platform === 'win32' })).stdout
const MB = 1e6

async function bytesBelow(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(files.map(async (entry) => (await stat(join(entry.parentPath, entry.name))).size))
  return { files: files.length, bytes: sizes.reduce((sum, size) => sum + size, 0) }
}

/** Installs the tarball as a user would, without letting any package run code. */
async function install(folder, tarball) {
  await writeFile(join(folder, 'package.json'), '{"private":true}\n')
  await npm(['install', tarball, '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund'], folder)
  const { packages } = JSON.parse(await readFile(join(folder, 'node_modules/.package-lock.json'), 'utf8'))
  const native = await readdir(join(folder, 'node_modules'), { recursive: true })
  return {
    packages: Object.keys(packages).length,
    // npm notes every package with preinstall, install, postinstall or a binding.gyp.
    withScripts: Object.entries(packages)
      .filter(([, entry]) => entry.hasInstallScript)
      .map(([path]) => path),
    elsewhere: Object.entries(packages)
      .filter(([path, entry]) => path !== 'node_modules/pegboard' && !/^https?:/.test(entry.resolved ?? 'https:'))
      .map(([path]) => path),
    compiled: native.filter((path) => /\.node$|(^|[\\/])binding\.gyp$/.test(path)),
  }
}

/** Whether the installed program, started in a third folder, lists a module dropped in beside its configuration. */
async function findsDropIn(installed, folder) {
  await mkdir(join(folder, 'modules'), { recursive: true })
  const module = `import { defineModule } from 'pegboard'
import { z } from 'zod'
export default defineModule({
  name: 'dropped',
  description: 'A module that was dropped in, to see that it is found.',
  tools: { in: { description: 'Says that it is here, and nothing else.', input: z.object({}), effect: 'read', run: () => 'here' } },
})
`
  await writeFile(join(folder, 'modules/dropped.mjs'), module)
  await writeFile(join(folder, 'mcp.config.json'), '{}\n')
  const main = join(installed, 'node_modules/pegboard/dist/cli/main.js')
  const { stdout } = await run(
    process.execPath,
    [main, 'list', '--json', '--config', join(folder, 'mcp.config.json')],
    { cwd: folder },
  )
  return stdout.includes('dropped.in')
}

/** What a user downloads and has on disk afterwards. */
export const measureSize = () =>
  inFolder(async (folder) => {
    const [packed] = JSON.parse(await npm(['pack', '--json', '--ignore-scripts', '--pack-destination', folder], ROOT))
    const installed = join(folder, 'installed')
    await mkdir(installed)
    const facts = await install(installed, join(folder, packed.filename))
    const own = await bytesBelow(join(installed, 'node_modules/pegboard'))
    const all = await bytesBelow(join(installed, 'node_modules'))
    const rows = [
      { what: 'tarball', files: packed.entryCount, MB: packed.size / MB },
      { what: 'pegboard on disk', files: own.files, MB: own.bytes / MB },
      {
        what: `with its dependencies (${facts.packages} packages; limit: 48)`,
        files: all.files,
        MB: all.bytes / MB,
      },
    ]
    const none = (list) => (list.length === 0 ? 'none' : list.join(', '))
    const dropIn = await findsDropIn(installed, join(folder, 'elsewhere'))
    const text = `${table('Size: npm pack, then npm install --omit=dev --ignore-scripts in an empty folder', rows)}Packages with install scripts: ${none(facts.withScripts)}
Compiled or to be compiled: ${none(facts.compiled)}
From elsewhere than the registry: ${none(facts.elsewhere)}
Finds a module dropped in beside a configuration elsewhere: ${dropIn ? 'yes' : 'no'}
`
    return { rows, ...facts, dropIn, text }
  })
