// Builds pegboard.mcpb, the bundle for Claude Desktop: the published package with what it needs, and a manifest that the official
// packer checks. `node scripts/mcpb.mjs [tarball] [output]` packs this checkout if no tarball is named.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/** Fixed, so that a release is built with the packer that was tested. */
const PACKER = '@anthropic-ai/mcpb@2.1.2'

const npm = (args, cwd) => execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
export const mcpb = (...args) => execFileSync('npx', ['--yes', PACKER, ...args], { encoding: 'utf8' })

/** The manifest for a package.json. https://github.com/modelcontextprotocol/mcpb/blob/main/MANIFEST.md describes it. */
export function manifestFor({ name, version, description, license, homepage, repository, bugs, keywords, engines }) {
  const entry = `server/node_modules/${name}/dist/cli/main.js`
  return {
    manifest_version: '0.3',
    name,
    display_name: 'Pegboard',
    version,
    description,
    author: { name: 'Pegboard contributors', url: homepage },
    repository: { type: 'git', url: repository.url.replace(/^git\+/, '') },
    homepage,
    documentation: homepage,
    support: bugs.url,
    license,
    keywords,
    icon: 'icon.png',
    server: {
      type: 'node',
      entry_point: entry,
      mcp_config: {
        command: 'node',
        args: [`\${__dirname}/${entry}`, 'serve', '--stdio'],
        env: { PEGBOARD_CONFIG: '${user_config.config}' },
      },
    },
    // Which tools there are depends on the configuration.
    tools_generated: true,
    prompts_generated: true,
    user_config: {
      config: {
        type: 'file',
        title: 'Configuration file',
        description: 'Your mcp.config.json. Leave it empty to use the one in your configuration folder.',
        required: false,
        default: '',
      },
    },
    compatibility: { platforms: ['darwin', 'win32', 'linux'], runtimes: { node: engines.node } },
  }
}

/** Writes the bundle. @param tarball of the package @returns its manifest */
export function buildBundle(tarball, output) {
  const folder = mkdtempSync(join(tmpdir(), 'pegboard-mcpb-'))
  try {
    const server = join(folder, 'server')
    mkdirSync(server)
    writeFileSync(join(server, 'package.json'), '{"private": true}')
    // The keyring has code for one platform only; without it, logins are in a private file.
    npm(['install', '--omit=dev', '--omit=optional', '--ignore-scripts', '--no-audit', '--no-fund', tarball], server)
    const installed = join(server, 'node_modules/pegboard')
    const manifest = manifestFor(JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')))
    writeFileSync(join(folder, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`)
    cpSync(join(import.meta.dirname, '../packaging/icon.png'), join(folder, 'icon.png'))
    for (const file of ['README.md', 'LICENSE']) cpSync(join(installed, file), join(folder, file))
    mcpb('validate', join(folder, 'manifest.json'))
    mcpb('pack', folder, output)
    return manifest
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

if (process.argv[1] === import.meta.filename || process.argv[1]?.endsWith('scripts/mcpb.mjs')) {
  const [given, output = 'pegboard.mcpb'] = process.argv.slice(2)
  const made = given ?? JSON.parse(npm(['pack', '--json', '--ignore-scripts'], process.cwd()))[0].filename
  try {
    buildBundle(resolve(made), resolve(output))
    process.stdout.write(`${output} is ready\n`)
  } finally {
    if (given === undefined) rmSync(made, { force: true })
  }
}
