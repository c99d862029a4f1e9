// The tarball as a user gets it: installed without development packages in an empty folder, no scripts run, started from
// another folder where it finds a dropped-in module, and compiled against.
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/** Millions of bytes, as in docs/internals/bench.md. */
const MAX_MB = 48
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'pegboard-package-')))
const npm = (args, cwd) => execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })

const sizeOf = (dir) =>
  readdirSync(dir, { withFileTypes: true }).reduce((sum, entry) => {
    const path = join(dir, entry.name)
    return sum + (entry.isDirectory() ? sizeOf(path) : entry.isFile() ? statSync(path).size : 0)
  }, 0)

try {
  const [{ filename }] = JSON.parse(
    npm(['pack', '--json', '--ignore-scripts', '--pack-destination', folder], process.cwd()),
  )
  const home = join(folder, 'installed')
  mkdirSync(home)
  writeFileSync(join(home, 'package.json'), '{"private": true}')
  npm(['install', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund', join(folder, filename)], home)
  const withScripts = JSON.parse(
    npm(['query', ':attr(scripts, [postinstall]), :attr(scripts, [install]), :attr(scripts, [preinstall])'], home),
  )
  if (withScripts.length > 0)
    throw new Error(`packages with install scripts: ${withScripts.map(({ name }) => name).join(', ')}`)
  const mb = sizeOf(join(home, 'node_modules')) / 1e6
  if (mb > MAX_MB) throw new Error(`${mb.toFixed(1)} MB installed, more than ${MAX_MB}`)

  writeFileSync(
    join(home, 'use.ts'),
    `import { type App, createApp, defineModule, z } from 'pegboard'
import { createToolset, type Toolset } from 'pegboard/agent'
export const module = defineModule({
  name: 'weather',
  description: 'Weather forecasts for the test of the types.',
  tools: {
    forecast: {
      description: 'Daily forecast for a city. Not for past weather.',
      input: z.object({ place: z.string() }),
      effect: 'read',
      run: ({ place }) => place.toUpperCase(),
    },
  },
})
export const toolset: Promise<Toolset> = createToolset({ config: {} })
export const servers = (app: ReturnType<typeof createApp>): App['upstreams'] => app.upstreams
// @ts-expect-error what is missing is told, so what is there is known
export const none = (app: App) => app.upstreams.missing
`,
  )
  const compilerOptions = {
    module: 'nodenext',
    target: 'es2023',
    strict: true,
    skipLibCheck: false,
    noEmit: true,
    types: ['node'],
    typeRoots: [resolve('node_modules/@types')],
  }
  writeFileSync(join(home, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['use.ts'] }))
  execFileSync(process.execPath, [resolve('node_modules/typescript/bin/tsc'), '-p', home], { stdio: 'inherit' })

  const elsewhere = join(folder, 'elsewhere')
  mkdirSync(join(elsewhere, 'modules'), { recursive: true })
  writeFileSync(join(elsewhere, 'mcp.config.json'), '{}')
  writeFileSync(
    join(elsewhere, 'modules', 'weather.ts'),
    `import { defineModule, z } from 'pegboard'
export default defineModule({
  name: 'weather',
  description: 'Weather forecasts for the test of the package.',
  tools: {
    forecast: {
      description: 'Daily forecast for a city. Not for past weather.',
      input: z.object({ place: z.string() }),
      effect: 'read',
      run: ({ place }: { place: string }) => 'sunny in ' + place,
    },
  },
})
`,
  )
  const bin = join(home, 'node_modules', '.bin', 'pegboard')
  const env = { ...process.env, PEGBOARD_STATE_DIR: join(folder, 'state') }
  const run = (args) =>
    execFileSync(bin, [...args, '--config', join(elsewhere, 'mcp.config.json')], {
      cwd: tmpdir(),
      env,
      encoding: 'utf8',
    })
  const [first] = JSON.parse(run(['search', 'what will the weather be tomorrow', '--json']))
  if (first?.name !== 'weather.forecast') throw new Error(`search found ${JSON.stringify(first)}`)
  const called = run(['call', 'weather.forecast', '{"place":"Ulm"}'])
  if (!called.includes('sunny in Ulm')) throw new Error(`call answered ${called}`)

  const agent = `import { createToolset } from 'pegboard/agent'
const toolset = await createToolset({ config: ${JSON.stringify(join(elsewhere, 'mcp.config.json'))} })
console.log((await toolset.call('weather__forecast', { place: 'Bonn' })).text)
await toolset.close()`
  const said = execFileSync(process.execPath, ['--input-type=module', '-e', agent], {
    cwd: home,
    env,
    encoding: 'utf8',
  })
  if (!said.includes('sunny in Bonn')) throw new Error(`pegboard/agent answered ${said}`)

  const child = spawn(bin, ['serve', '--stdio'], { cwd: elsewhere, env, stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.stdin.end()
  const code = await ended
  if (code !== 0) throw new Error(`serve ended with ${code} when its client left`)
  process.stdout.write(
    `${filename}: ${mb.toFixed(1)} MB installed, its types compile, a dropped-in module was found and called\n`,
  )
} finally {
  rmSync(folder, { recursive: true, force: true })
}
