// The tarball as a user gets it: installed without development packages in an empty folder, no scripts run, started from
// another folder where it finds a dropped-in module, and compiled against. Then the other published forms: `npx` in an empty
// folder, the bundle for Claude Desktop, and the image where a container engine runs.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { buildBundle, mcpb } from '../scripts/mcpb.mjs'

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
  await viaNpx(join(folder, filename))
  await asBundle(join(folder, filename))
  const image = asImage()
  process.stdout.write(
    `${filename}: ${mb.toFixed(1)} MB installed, its types compile, a dropped-in module was found and called; npx and the bundle for Claude Desktop serve clients; ${image}\n`,
  )
} finally {
  rmSync(folder, { recursive: true, force: true })
}

/** Starts a server over stdio and asks for its tools. */
async function listTools(command, args, options) {
  const child = spawn(command, args, { ...options, stdio: ['pipe', 'pipe', 'inherit'] })
  const say = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'package test', version: '1' } }
  say({ id: 1, method: 'initialize', params })
  say({ method: 'notifications/initialized' })
  say({ id: 2, method: 'tools/list' })
  let text = ''
  for await (const chunk of child.stdout) {
    text += chunk
    const answer = text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line))
      .find(({ id }) => id === 2)
    if (answer === undefined) continue
    child.stdin.end()
    await new Promise((resolve) => (child.exitCode === null ? child.once('exit', resolve) : resolve()))
    if (child.exitCode !== 0) throw new Error(`${command} ended with ${child.exitCode} when its client left`)
    return answer.result.tools.map(({ name }) => name)
  }
  throw new Error(`${command} ${args.join(' ')} answered ${text}`)
}

/** `npx pegboard` in an empty folder: by a client, without one, and in a terminal. */
async function viaNpx(tarball) {
  const cwd = join(folder, 'empty')
  mkdirSync(cwd)
  const env = { ...process.env, HOME: cwd, PEGBOARD_STATE_DIR: join(folder, 'npx-state') }
  // npm's cache is in the home folder.
  env.npm_config_cache = execFileSync('npm', ['config', 'get', 'cache'], { encoding: 'utf8' }).trim()
  const args = ['--yes', `--package=${tarball}`, 'pegboard']
  const tools = await listTools('npx', args, { cwd, env })
  if (!tools.includes('hello__say_hello')) throw new Error(`npx pegboard lists ${tools}`)
  const alone = spawnSync('npx', args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  if (alone.status !== 0 || !alone.stderr.includes('serve --http'))
    throw new Error(`npx pegboard without a client: ${alone.status} ${alone.stderr}`)
  if (process.platform !== 'linux') return
  const shown = execFileSync('script', ['-qec', `npx ${args.join(' ')}`, '/dev/null'], { cwd, env, encoding: 'utf8' })
  if (!shown.includes('npx pegboard serve')) throw new Error(`npx pegboard in a terminal shows ${shown}`)
}

/** The bundle for Claude Desktop, packed and unpacked by the official packer, and started as its manifest says. */
async function asBundle(tarball) {
  const file = join(folder, 'pegboard.mcpb')
  buildBundle(tarball, file)
  const unpacked = join(folder, 'unpacked')
  mcpb('unpack', file, unpacked)
  const { server } = JSON.parse(readFileSync(join(unpacked, 'manifest.json'), 'utf8'))
  const { command, args } = server.mcp_config
  const env = { ...process.env, PEGBOARD_CONFIG: '', PEGBOARD_STATE_DIR: join(folder, 'bundle-state') }
  const started = args.map((word) => word.replace('${__dirname}', unpacked))
  const tools = await listTools(command, started, { cwd: tmpdir(), env })
  if (!tools.includes('hello__say_hello')) throw new Error(`the bundle lists ${tools}`)
}

/** The image: linted, and built where a container engine runs. */
function asImage() {
  execFileSync('npx', ['--yes', 'dockerfilelint@1.8.0', 'Dockerfile'], { stdio: ['ignore', 'ignore', 'inherit'] })
  if (spawnSync('docker', ['info'], { stdio: 'ignore' }).status !== 0)
    return 'no container engine runs here, so the image was only linted'
  execFileSync('docker', ['build', '--tag', 'pegboard:package-test', '.'], { stdio: ['ignore', 'ignore', 'inherit'] })
  const version = execFileSync('docker', ['run', '--rm', 'pegboard:package-test', '--version'], { encoding: 'utf8' })
  const user = execFileSync('docker', ['run', '--rm', '--entrypoint', 'id', 'pegboard:package-test', '-u'], {
    encoding: 'utf8',
  })
  if (user.trim() === '0') throw new Error('the image runs as root')
  return `the image runs Pegboard ${version.trim()}`
}
