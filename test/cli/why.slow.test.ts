import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { folder, notesModule, pegboard } from './terminal.ts'

const scripted = join(import.meta.dirname, '../fixtures/upstreams/scripted.mjs')
const server = (more: object = {}) => ({ command: 'node', args: [scripted], ...more })

let at: ReturnType<typeof folder>
beforeAll(() => {
  at = folder({
    'mcp.config.json': {
      exposure: { mode: 'discovery', pinned: ['notes.read'] },
      modules: { notes: {}, hello: { enabled: false } },
      tools: { 'filesystem.find': { enabled: false } },
      clients: { 'cursor*': { exposure: { mode: 'compact' } } },
      profiles: {
        work: {
          policy: {
            deny: ['notes.read'],
            ask: ['notes.add'],
            rateLimits: [{ tools: 'notes.*', perMinute: 30 }],
          },
          tools: { 'filesystem.ls': { enabled: false } },
          deliberate: { enabled: true },
        },
      },
    },
    'servers.json': {
      mcpServers: {
        open: server({ deny: ['burst'] }),
        shut: server({ trust: 'review' }),
        off: server({ disabled: true }),
        broken: { command: 'node', args: ['-e', 'process.exit(2)'] },
      },
    },
    'editor.json': { servers: { open: server({ deny: ['burst'] }), off: server({ disabled: true }) } },
    'waits.json': { modules: { notes: { config: { token: '${NOTES_TOKEN_NOBODY_SET}' } } } },
    'modules/notes.mjs': notesModule,
    'modules/art.mjs': `export default { name: 'art', description: 'Art.', tools: {
      draw: { description: 'Draws what was asked for.', effect: 'read', intent: 'image', run: () => '' },
      print: { description: 'Prints what was drawn.', effect: 'read', needs: { flags: ['paper'] }, run: () => '' },
      frame: { description: 'Puts a frame around it.', effect: 'read', available: () => 'set modules.art.config.wood', run: () => '' },
      bend: { description: 'Bends what was drawn.', effect: 'read', assemble: () => { throw new Error('too stiff') }, run: () => '' },
      sell: { description: 'Sells what was drawn.', effect: 'read', assemble: () => null, run: () => '' },
    } }`,
    'modules/torn.mjs': 'export default {',
  })
})
afterAll(() => at.remove())

const run = (...argv: string[]) => pegboard(at.dir, 'why', ...argv)
const why = async (name: string, ...more: string[]) => {
  const { code, out } = await run(name, '--config', 'mcp.config.json', '--json', ...more)
  return { code, ...JSON.parse(out) }
}

describe('why', () => {
  it('says so when the name is that of a server', async () => {
    const { code, out } = await run('open', '--config', 'servers.json')
    expect(out).toContain('it is a server, not a tool: see ')
    expect(out).toContain(' list servers')
    expect(code).toBe(1)
  })

  it('prints how a visible tool is called, and whether it is listed', async () => {
    const added = await why('notes.add')
    expect(added).toMatchObject({ code: 0, tool: 'notes.add', profile: 'default', visible: true, listed: false })
    expect(added.names).toEqual(['notes.add', 'notes__add', 'add', 'jot down'])
    expect(added.listing).toMatch(/^behind search_tools; mode discovery \(exposure\.mode is "discovery"; /)
    expect(await why('notes__read')).toMatchObject({
      tool: 'notes.read',
      listed: true,
      listing: expect.stringMatching(/^pinned by exposure\.pinned; /),
    })
    expect(await why('search_tools')).toMatchObject({ visible: true, listed: true })
  })

  it('explains the list of one client, named as in check', async () => {
    const [usual, cursor, other] = await Promise.all(
      [[], ['--client', 'cursor'], ['--client', 'my-agent']].map((more) => why('notes.add', ...more)),
    )
    expect([usual.listed, other.listed]).toEqual([false, false])
    expect(cursor).toMatchObject({ visible: true, listed: true, listing: expect.stringMatching(/; mode compact \(/) })
  })

  it('prints the checks of each call', async () => {
    expect(await why('notes.add')).not.toHaveProperty('calls')
    expect((await why('notes.add', '--profile', 'work')).calls).toEqual([
      'each needs the approval of a person (profiles.work.policy.ask)',
      '30 a minute (profiles.work.policy.rateLimits[0])',
    ])
    expect((await run('notes.add', '--profile', 'work', '--config', 'mcp.config.json')).out).toContain(
      'Calls      each needs the approval of a person (profiles.work.policy.ask); 30 a minute',
    )
  })

  it('names the stage and rule that hide a tool, the checks it passed, and what clients get [TOM-02]', async () => {
    expect(await why('notes.read', '--profile', 'work')).toEqual({
      code: 0,
      tool: 'notes.read',
      profile: 'work',
      visible: false,
      stage: 'policy',
      rule: 'matched by profiles.work.policy.deny',
      passed: [],
      refusal: 'E_NOT_FOUND, as if it did not exist',
    })
    expect(await why('filesystem__ls', '--profile', 'work')).toMatchObject({
      stage: 'switch',
      setting: 'profiles.work.tools.filesystem.ls.enabled',
      passed: ['policy', 'provider', 'capabilities', 'flags', 'permissions'],
      refusal: 'E_TOOL_DISABLED: filesystem.ls tool is disabled',
    })
    expect(await why('find')).toMatchObject({
      tool: 'filesystem.find',
      stage: 'switch',
      setting: 'tools.filesystem.find.enabled',
    })
    expect(await why('art.print')).toMatchObject({
      stage: 'flags',
      rule: 'the flag paper is off (profiles.default.flags.paper)',
    })
    expect(await why('frame')).toMatchObject({
      tool: 'art.frame',
      stage: 'backend',
      rule: 'set modules.art.config.wood',
    })
    expect(await why('art.sell')).toMatchObject({
      stage: 'assembly',
      passed: expect.arrayContaining(['backend', 'replacement', 'deliberate']),
    })
    expect(await why('art.bend')).toMatchObject({
      stage: 'assembly',
      rule: 'its assembly check failed: too stiff',
      refusal: 'E_TOOL_HIDDEN: art.bend is not available: its assembly check failed.',
    })
    expect(await why('notes.rebuild')).toMatchObject({
      stage: 'policy',
      rule: 'it is for set-up steps and modules only',
    })
  })

  it('shows which intents a message matches', async () => {
    const seen = async (...more: string[]) => {
      const { visible, stage, only } = await why('art.draw', '--profile', 'work', ...more)
      return [visible, stage, only]
    }
    expect(await seen()).toEqual([true, undefined, 'when a message asks for it (image); to try one: --message "…"'])
    expect(await seen('--message', 'hello')).toEqual([false, 'deliberate', undefined])
    expect(await seen('--message', 'draw a cat')).toEqual([true, undefined, undefined])
  })

  it('explains disabled and broken modules, and suggests similar names for unknown ones', async () => {
    expect(await why('hello.say_hello')).toMatchObject({ code: 0, stage: 'policy', setting: 'modules.hello.enabled' })
    expect(await why('torn.x')).toMatchObject({ code: 0, stage: 'backend', rule: expect.stringContaining('torn.mjs') })
    expect(await why('notes.reed')).toMatchObject({ code: 1, stage: 'unknown', nearest: ['notes.read'] })
    expect(await why('notes.zzz')).toMatchObject({ code: 1, stage: 'unknown', nearest: [] })
  })

  it('explains quarantined, excluded, disabled and unknown tools of servers', async () => {
    const of = async (name: string) => {
      const { code, out } = await run(name, '--config', 'servers.json', '--json')
      return { code, ...JSON.parse(out) }
    }
    expect(await of('open.burst')).toMatchObject({ stage: 'upstream', setting: 'mcpServers.open.deny' })
    expect(await of('mcp_open.crash')).toMatchObject({ visible: true, server: { id: 'mcp_open' } })
    expect(await of('shut.crash')).toMatchObject({
      tool: 'mcp_shut.crash',
      stage: 'upstream',
      hint: expect.stringContaining('pegboard review'),
      refusal: expect.stringMatching(/^E_TOOL_QUARANTINED: /),
    })
    expect(await of('off.crash')).toMatchObject({ rule: 'its server is switched off by mcpServers.off' })
    expect(await of('broken.crash')).toMatchObject({
      stage: 'upstream',
      rule: expect.stringMatching(/^the tools of mcp_broken are not known: /),
    })
  })

  it('names the key of the file', async () => {
    const of = async (name: string) => JSON.parse((await run(name, '--config', 'editor.json', '--json')).out)
    expect(await of('open.burst')).toMatchObject({
      rule: 'left out by servers.open.deny',
      setting: 'servers.open.deny',
    })
    expect(await of('off.crash')).toMatchObject({ rule: 'its server is switched off by servers.off' })
  })

  it('names the missing variable of a skipped module, as the lists do', async () => {
    const reason = 'modules.notes.config.token needs the environment variable NOTES_TOKEN_NOBODY_SET, which is not set'
    const of = async (...argv: string[]) => {
      const { out } = await pegboard(at.dir, ...argv, '--config', 'waits.json', '--json')
      return JSON.parse(out)
    }
    expect(await of('why', 'notes.add')).toMatchObject({ visible: false, stage: 'backend', rule: reason })
    expect(await of('list', '--hidden')).toContainEqual({
      name: 'notes.*',
      module: 'notes',
      hidden: `hidden: ${reason}`,
    })
    expect(await of('list', 'modules')).toContainEqual({ id: 'notes', state: 'skipped', tools: 0, summary: '', reason })
  })

  it('with a query prints the score of each answer', async () => {
    const { code, out } = await run('keep a note', '--config', 'mcp.config.json')
    expect(code).toBe(0)
    expect(out).toMatch(/^score +tool +words +meaning/)
    expect(out).toMatch(/notes\.add/)
  })

  it('with a query shows the results for the message of --message', async () => {
    const foundFor = async (message: string) => {
      const options = ['--config', 'mcp.config.json', '--profile', 'work', '--json', '--message', message]
      const { out } = await run('draw what was asked for', ...options)
      return JSON.parse(out).map(({ name }: { name: string }) => name)
    }
    expect(await foundFor('draw me a picture of a cat')).toContain('art.draw')
    expect(await foundFor('what is the time')).not.toContain('art.draw')
  })

  it('prints readable text', async () => {
    const { out } = await run('notes.read', '--config', 'mcp.config.json', '--profile', 'work')
    expect(out).toBe(
      `notes.read is hidden.
Profile         work
Hidden because  matched by profiles.work.policy.deny
Clients get     E_NOT_FOUND, as if it did not exist
`,
    )
    expect((await run()).code).toBe(2)
  })
})
