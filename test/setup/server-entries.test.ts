import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { findEntry } from '../../src/setup/server-entries.ts'
import { type EditedEntries, removeEntries, rootOf, switchEntries } from '../../src/setup/switch-entries.ts'
import { temporaryFolder } from '../app.ts'
import { createManualClock } from '../clock.ts'

const START = `{
  // What Pegboard runs.
  "mcpServers": {
    "GitHub (work)": { "command": "github", "disabled": true },
    "box": { "command": "box", "tools": { "rm": { "rename": "erase" } } }, // boxes
  },
  "servers": { "code": { "command": "code" } },
  "openapi": { "pets": { "document": "pets.json" } },
  "modules": { "filesystem": { "config": { "roots": ["."] } } },
  "profiles": { "work": { "mcpServers": { "mail": { "url": "https://mail.example/mcp" } } } }
}
`

/** A configuration file and what the commands do to it. */
function desk(text = START) {
  const dir = temporaryFolder()
  const file = join(dir, 'mcp.config.json')
  writeFileSync(file, text)
  const config = {
    file,
    stateDir: join(dir, '.state'),
    modules: ['filesystem', 'web'],
    clock: createManualClock(Date.UTC(2026, 0, 1)),
  }
  const read = (): string => readFileSync(file, 'utf8')
  return {
    read,
    root: () => rootOf(read()),
    enable: (...names: string[]): Promise<EditedEntries> => switchEntries(names, true, config),
    disable: (...names: string[]): Promise<EditedEntries> => switchEntries(names, false, config),
    remove: (...names: string[]): Promise<EditedEntries> => removeEntries(names, config),
  }
}

describe('a name', () => {
  const found = (name: string) => findEntry(rootOf(START), ['filesystem', 'web'], name)

  it('means a server, an API, a module or a tool, in any usual spelling', () => {
    expect(found('GitHub (work)')).toMatchObject({ kind: 'server', owner: 'mcp_github_work' })
    expect(found('mcp_github_work')).toMatchObject({ kind: 'server', path: ['mcpServers', 'GitHub (work)'] })
    expect(found('code')).toMatchObject({ kind: 'server', path: ['servers', 'code'] })
    expect(found('mail')).toMatchObject({ kind: 'server', path: ['profiles', 'work', 'mcpServers', 'mail'] })
    expect(found('pets')).toMatchObject({ kind: 'api', path: ['openapi', 'pets'] })
    expect(found('web')).toMatchObject({ kind: 'module', path: ['modules', 'web'] })
    for (const name of ['box.read', 'mcp_box.read', 'box__read', 'BOX.read'])
      expect(found(name), name).toMatchObject({ kind: 'tool', name: 'mcp_box.read', action: 'read' })
    expect(found('*.delete_*')).toEqual({ kind: 'tool', name: '*.delete_*', action: 'delete_*' })
  })

  it('means a module by the name that its tools have, also if a server has the same name', () => {
    for (const name of ['pegboard_web', 'pegboard.web', 'PEGBOARD_web'])
      expect(found(name), name).toMatchObject({ kind: 'module', owner: 'web', path: ['modules', 'web'] })
    const root = rootOf('{ "mcpServers": { "web": {}, "files": { "prefix": "filesystem" } } }')
    expect(findEntry(root, ['web'], 'web')).toMatchObject({ kind: 'server', owner: 'mcp_web' })
    for (const name of ['pegboard_web.fetch', 'pegboard.web.fetch', 'pegboard_web__fetch'])
      expect(findEntry(root, ['web'], name), name).toMatchObject({ kind: 'tool', name: 'pegboard_web.fetch' })
    expect(findEntry(root, ['filesystem'], 'filesystem')).toMatchObject({ owner: 'pegboard_filesystem' })
    const off = rootOf('{ "mcpServers": { "web": { "disabled": true } } }')
    expect(findEntry(off, ['web'], 'pegboard_web.fetch')).toMatchObject({ kind: 'tool', name: 'pegboard_web.fetch' })
  })

  it('means nothing if there is no such server', () => {
    for (const name of ['nothing', 'nothing.read', 'read', '', '__proto__', 'constructor.name'])
      expect(found(name), name).toBeUndefined()
  })
})

describe('disable and enable', () => {
  it('change only the entry of a server, and keep comments', async () => {
    const { disable, enable, read } = desk()
    expect((await disable('box')).entries).toEqual([{ kind: 'server', name: 'box', changed: true }])
    expect(read()).toContain('"enabled": false')
    expect(read()).toContain('// boxes')
    await enable('box')
    expect(JSON.stringify(rootOf(read()))).toBe(JSON.stringify(rootOf(START)))
    expect(await enable('box')).toEqual({ entries: [{ kind: 'server', name: 'box', changed: false }] })
  })

  it('understand the other clients\' "disabled"', async () => {
    const { enable, root } = desk()
    await enable('mcp_github_work')
    expect(root()['mcpServers']).toMatchObject({ 'GitHub (work)': { command: 'github' } })
    expect(JSON.stringify(root())).not.toContain('disabled')
  })

  it('switch an API and a module', async () => {
    const { disable, root } = desk()
    await disable('pets', 'web')
    expect(root()).toMatchObject({ openapi: { pets: { enabled: false } }, modules: { web: { enabled: false } } })
  })

  it('switch single tools by name and by pattern, and a tool is an exception from a pattern', async () => {
    const { disable, enable, root } = desk()
    await disable('box.delete_*', 'filesystem.write')
    expect(root()['tools']).toEqual({
      'mcp_box.delete_*': { enabled: false },
      'filesystem.write': { enabled: false },
    })
    await enable('box.delete_draft', 'filesystem.write')
    expect(root()['tools']).toEqual({
      'mcp_box.delete_*': { enabled: false },
      'mcp_box.delete_draft': { enabled: true },
    })
    await disable('box.delete_*')
    expect(root()['tools']).toEqual({ 'mcp_box.delete_*': { enabled: false } })
    await enable('box.*')
    expect(root()['tools']).toEqual({})
  })

  it('keep the other settings of a tool', async () => {
    const { enable, root } = desk(
      '{ "mcpServers": { "box": {} }, "tools": { "box.read": { "enabled": false, "rate_limit": { "per_minute": 3 } } } }',
    )
    await enable('mcp_box.read')
    expect(root()['tools']).toEqual({ 'box.read': { rate_limit: { per_minute: 3 } } })
  })

  it('change nothing if one name is unknown', async () => {
    const { disable, read } = desk()
    await expect(disable('box', 'bux')).rejects.toMatchObject({ code: 'E_NOT_FOUND', hint: 'Did you mean "box"?' })
    expect(read()).toBe(START)
  })
})

describe('commands at the same time', () => {
  it('all apply', async () => {
    const { disable, enable, root } = desk()
    await disable('box')
    await Promise.all([enable('box'), disable('web'), disable('pets'), enable('mcp_github_work')])
    expect(root()).toMatchObject({
      mcpServers: { box: { command: 'box' }, 'GitHub (work)': { command: 'github' } },
      openapi: { pets: { enabled: false } },
      modules: { web: { enabled: false } },
    })
    expect(JSON.stringify(root()['mcpServers'])).not.toContain('abled')
  })
})

describe('remove', () => {
  it('removes the entry of a server and the settings of its tools', async () => {
    const { disable, remove, root, read } = desk()
    await disable('box.read', 'web.fetch_url')
    await remove('box')
    expect(root()['tools']).toEqual({ 'web.fetch_url': { enabled: false } })
    expect(root()['mcpServers']).toEqual({ 'GitHub (work)': { command: 'github', disabled: true } })
    expect(read()).toContain('// What Pegboard runs.')
  })

  it("denies a tool by the server's own name, and enable brings it back", async () => {
    const { remove, enable, root } = desk()
    await remove('box.erase', 'box.list_*', 'filesystem.write')
    expect(root()).toMatchObject({
      mcpServers: { box: { deny: ['rm', 'list_*'] } },
      modules: { filesystem: { constraints: { blocked_actions: ['write'] } } },
    })
    await enable('box.erase', 'box.list_*')
    expect(root()['mcpServers']).toMatchObject({ box: { command: 'box' } })
    expect(JSON.stringify(root()['mcpServers'])).not.toContain('deny')
  })

  it('denies a tool of a module, and not the tool of a server with the same name', async () => {
    const { remove, enable, root } = desk('{ "mcpServers": { "web": {} } }')
    await remove('pegboard_web.fetch')
    expect(root()['modules']).toEqual({ pegboard_web: { constraints: { blocked_actions: ['fetch'] } } })
    await enable('pegboard.web.fetch')
    expect(JSON.stringify(root())).not.toContain('fetch')
  })

  it('does not remove a bundled module', async () => {
    const { remove, read } = desk()
    await expect(remove('web')).rejects.toMatchObject({
      code: 'E_VALIDATION',
      hint: 'To turn it off: pegboard disable web',
    })
    expect(read()).toBe(START)
  })
})
