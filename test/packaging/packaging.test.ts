import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import addFormats from 'ajv-formats'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../app.ts'

/** The forms in which Pegboard is published. `.ci/package.mjs` builds and runs them. */
const root = join(import.meta.dirname, '../..')
const text = (file: string): string => readFileSync(join(root, file), 'utf8')
const json = (file: string) => JSON.parse(text(file))
const manifest = json('package.json')

const isThere = (command: string): boolean => spawnSync(command, ['--version']).error === undefined

it('every published form has the version and the repository of the package', () => {
  const plugin = json('packaging/claude-plugin/.claude-plugin/plugin.json')
  const registry = json('server.json')
  expect([plugin.version, registry.version, registry.packages[0].version]).toEqual(Array(3).fill(manifest.version))
  expect(json('packaging/claude-plugin/.mcp.json').mcpServers.pegboard.args).toContain(
    `${manifest.name}@${manifest.version}`,
  )
  expect(manifest.repository.url).toBe(`git+${registry.repository.url}.git`)
  expect([plugin.repository, plugin.homepage]).toEqual([registry.repository.url, registry.websiteUrl])
  expect(manifest.homepage).toBe(registry.websiteUrl)
  expect(manifest.bugs.url).toBe(`${registry.repository.url}/issues`)
})

it('server.json is valid for the MCP registry, which finds its name in the npm package', () => {
  const ajv = new Ajv({ strict: false })
  addFormats.default(ajv)
  const validate = ajv.compile(json('test/fixtures/registry/server.schema.json'))
  expect(validate(json('server.json')), JSON.stringify(validate.errors)).toBe(true)
  expect(validate({ ...json('server.json'), name: 'pegboard' })).toBe(false)
  expect(manifest.mcpName).toBe(json('server.json').name)
})

describe('the install links of the guide', () => {
  const page = text('docs/guides/install.md')
  const start = { command: 'npx', args: ['-y', 'pegboard', 'serve', '--stdio'] }
  const link = (begin: string): URL => {
    const found = page.split(/[\s()]/).find((word) => word.startsWith(begin))
    if (found === undefined) throw new Error(`no link ${begin}`)
    return new URL(found)
  }

  it('open VS Code with the settings of Pegboard', () => {
    const { searchParams } = link('https://insiders.vscode.dev/')
    expect(searchParams.get('name')).toBe('pegboard')
    expect(JSON.parse(searchParams.get('config') ?? '')).toEqual(start)
    expect(JSON.parse(decodeURIComponent(link('vscode:').search.slice(1)))).toEqual({ name: 'pegboard', ...start })
  })

  it('open Cursor with the settings of Pegboard', () => {
    for (const begin of ['https://cursor.com/', 'cursor://anysphere.cursor-deeplink/mcp/install']) {
      const { searchParams } = link(begin)
      expect(searchParams.get('name')).toBe('pegboard')
      expect(JSON.parse(Buffer.from(searchParams.get('config') ?? '', 'base64').toString())).toEqual(start)
    }
  })
})

describe('the plug-in for Claude Code', () => {
  // https://code.claude.com/docs/en/plugins/manifest-reference
  it('has a manifest with only documented fields, and starts the package', () => {
    const plugin = json('packaging/claude-plugin/.claude-plugin/plugin.json')
    expect(Object.keys(plugin).sort()).toEqual(
      ['author', 'description', 'homepage', 'keywords', 'license', 'name', 'repository', 'version'].sort(),
    )
    expect(plugin.name).toMatch(/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/)
    expect(json('packaging/claude-plugin/.mcp.json')).toEqual({
      mcpServers: {
        pegboard: { command: 'npx', args: ['-y', `pegboard@${manifest.version}`, 'serve', '--stdio'] },
      },
    })
  })

  it('is listed in a marketplace by the folder it is in', () => {
    const { name, owner, plugins } = json('.claude-plugin/marketplace.json')
    expect([name, typeof owner.name]).toEqual(['pegboard', 'string'])
    expect(plugins).toHaveLength(1)
    expect(existsSync(join(root, plugins[0].source, '.claude-plugin/plugin.json'))).toBe(true)
  })
})

describe('the image', () => {
  const dockerfile = text('Dockerfile')

  it('has two stages, does not run as root, and checks its health', () => {
    const last = dockerfile.slice(dockerfile.lastIndexOf('\nFROM '))
    expect(dockerfile.match(/^FROM /gm)).toHaveLength(2)
    expect(last).toMatch(/^USER node$/m)
    expect(last).toMatch(/^HEALTHCHECK .*\/ready/m)
    expect(last).not.toMatch(/^COPY \. /m)
  })

  it('gets the configuration of the guide at the path that its command names', () => {
    const page = text('docs/guides/install.md')
    const path = '/etc/pegboard/mcp.config.json'
    expect(dockerfile).toContain(`"--config", "${path}"]`)
    const block = page.split('```').find((one) => one.includes('"docker"')) ?? ''
    const { args } = JSON.parse(block.replace(/^json/, '')).mcpServers.pegboard
    expect(args).toContain(`/path/to/mcp.config.json:${path}:ro`)
    expect(args.slice(args.indexOf('pegboard'))).toEqual(['pegboard', 'serve', '--stdio', '--config', path])
  })

  it('leaves out what must not be in an image', () => {
    const ignored = text('.dockerignore').split('\n')
    for (const name of ['.git', '**/node_modules', 'dist', '.env*', 'pegboard.lock.json'])
      expect(ignored).toContain(name)
  })
})

it('the bundle for Claude Desktop and the plug-in for Claude Code have the same square icon of 512 pixels', () => {
  const icon = readFileSync(join(root, 'packaging/icon.png'))
  expect(icon.subarray(1, 4).toString()).toBe('PNG')
  expect([icon.readUInt32BE(16), icon.readUInt32BE(20)]).toEqual([512, 512])
  // Claude Code copies only the folder of the plug-in.
  expect(readFileSync(join(root, 'packaging/claude-plugin/.claude-plugin/icon.png')).equals(icon)).toBe(true)
})

it.skipIf(process.env['CI'] !== 'true' && !isThere('systemd-analyze'))('the systemd unit is valid', () => {
  const file = join(temporaryFolder(), 'pegboard.service')
  // The program is not installed here.
  writeFileSync(file, text('packaging/pegboard.service').replace('/usr/bin/pegboard', process.execPath))
  expect(execFileSync('systemd-analyze', ['verify', file], { encoding: 'utf8', stdio: 'pipe' })).toBe('')
})
