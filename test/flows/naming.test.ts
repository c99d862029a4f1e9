import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'

const named = (...tools: string[]) => ({
  command: process.execPath,
  args: [fileURLToPath(new URL('../fixtures/upstreams/named.mjs', import.meta.url)), ...tools],
  start: 'background',
})

const CONFIG = {
  exposure: { mode: 'direct' },
  mcpServers: {
    hub: {
      ...named('issues_find', 'say', 'old', 'hidden_one'),
      prefix: 'gh',
      deny: ['hidden_*'],
      tools: {
        issues_find: { rename: 'find_issues', describe: 'Looks through the tracker.', alias: ['tickets', 'other'] },
        say: { replaces: 'plain.speak' },
        missing: { rename: 'x' },
        hidden_one: { rename: 'y' },
      },
    },
    plain: named('speak', 'other'),
  },
}

async function ready(config: Record<string, unknown>) {
  const { app } = await startApp(config)
  await app.settled(20_000)
  return app
}

const run = async (client: Awaited<ReturnType<typeof connectTo>>, name: string): Promise<Answer> => {
  const result = await client.callTool({ name, arguments: {} })
  return (result.content as { text: string }[])[0]?.text
}

describe('tool overrides', () => {
  it('change name, description and aliases', async () => {
    const app = await ready(CONFIG)
    const client = await connectTo(app, 'legacy')
    const { tools } = await client.listTools()
    const mine = tools.find((tool) => tool.name === 'gh__find_issues')
    expect(mine?.description).toBe('Looks through the tracker.')
    expect(tools.map((tool) => tool.name)).not.toContain('gh__issues_find')
    for (const name of ['gh__find_issues', 'mcp_hub.find_issues', 'tickets', 'gh__tickets', 'hub.tickets'])
      expect(await run(client, name), name).toBe('issues_find')
    const found = answerOf(await client.callTool({ name: 'search_tools', arguments: { query: 'tickets' } }))
    expect(found.tools[0].name).toBe('mcp_hub.find_issues')
    // Listed once, under its new name.
    expect(tools.filter((tool) => tool.name.includes('tickets'))).toEqual([])
    await client.close()
  })

  it('never take a name from the tool that really has it', async () => {
    const app = await ready(CONFIG)
    const client = await connectTo(app, 'legacy')
    expect(await run(client, 'other')).toBe('other')
    await client.close()
  })

  it('hide the replaced tool while the replacement exists', async () => {
    const app = await ready(CONFIG)
    const view = app.view(localCaller)
    expect(view.byId.has('mcp_plain.speak')).toBe(false)
    expect(view.hidden.get('mcp_plain.speak')?.reason).toBe('replaced by mcp_hub.say')
  })

  it('without effect are reported', async () => {
    const app = await ready(CONFIG)
    expect(app.nameProblems()).toEqual([
      'mcpServers.hub.tools.issues_find.alias "other" is not used: it is the name of mcp_plain.other.',
      'mcpServers.hub.tools names "missing", which hub does not have.',
      'mcpServers.hub.tools.hidden_one has no effect: deny leaves the tool out.',
    ])
  })
})

it('with the same alias for two tools resolve to neither, and both are reported', async () => {
  const app = await ready({
    exposure: { mode: 'direct' },
    mcpServers: {
      a: { ...named('one'), tools: { one: { alias: 'tick' } } },
      b: { ...named('two'), tools: { two: { alias: 'Tick' } } },
    },
  })
  expect(app.nameProblems()).toEqual([
    'mcpServers.a.tools.one.alias "tick" is ignored for both tools, because mcp_b.two has it too.',
    'mcpServers.b.tools.two.alias "Tick" is ignored for both tools, because mcp_a.one has it too.',
  ])
  const client = await connectTo(app, 'legacy')
  expect((await callTool(client, { name: 'tick', arguments: {} })).error.message).toContain(
    "'tick' could be mcp_a.one or mcp_b.two",
  )
  expect(await run(client, 'a.tick')).toBe('one')
  await client.close()
})

it('with an alias of a meta-tool are not used, and reported', async () => {
  const app = await ready({
    exposure: { mode: 'direct' },
    mcpServers: { a: { ...named('one'), tools: { one: { alias: ['execute_tool', 'Search_Tools', 'tick'] } } } },
  })
  expect(app.nameProblems()).toEqual([
    'mcpServers.a.tools.one.alias "execute_tool" is not used: it is the name of a built-in tool.',
  ])
  const client = await connectTo(app, 'legacy')
  expect(await run(client, 'execute_tool')).not.toBe('one')
  for (const name of ['Search_Tools', 'tick']) expect(await run(client, name), name).toBe('one')
  await client.close()
})

it('keep a renamed tool denied under its original name', async () => {
  const app = await ready({ ...CONFIG, policy: { deny: ['mcp_hub.issues_find'] } })
  expect(app.view(localCaller).resolve('gh__find_issues').kind).toBe('unknown')
})

describe('a server with the name of a bundled module', () => {
  const both = { exposure: { mode: 'direct' }, mcpServers: { filesystem: named('read_file', 'grep') } }
  const warning =
    'mcpServers.filesystem has the name of the bundled module filesystem, whose tools are now called pegboard.filesystem.<tool> (pegboard_filesystem__<tool> for clients). Rename the server, or set modules.filesystem.enabled to false.'

  it('gets the plain names, and the module keeps working under another name', async () => {
    const app = await ready(both)
    const client = await connectTo(app, 'legacy')
    const names = (await client.listTools()).tools.map(({ name }) => name)
    expect(names.filter((name) => name.startsWith('filesystem__'))).toEqual([
      'filesystem__read_file',
      'filesystem__grep',
    ])
    expect(names).toContain('pegboard_filesystem__read')
    for (const name of ['filesystem__read_file', 'filesystem.read_file', 'mcp_filesystem.read_file'])
      expect(await run(client, name), name).toBe('read_file')
    expect(await run(client, 'filesystem.grep')).toBe('grep')
    for (const name of ['pegboard.filesystem.stat', 'pegboard__filesystem__stat', 'pegboard_filesystem.stat'])
      expect(app.view(localCaller).resolve(name), name).toMatchObject({
        kind: 'found',
        tool: { tool: { id: 'pegboard_filesystem.stat' } },
      })
    expect(app.nameProblems()).toEqual([warning])
    await client.close()
  })

  it('leaves the rules about the module in force', async () => {
    const app = await ready({
      ...both,
      policy: { deny: ['filesystem.write'], default: 'block', allow: ['filesystem.read', 'pegboard.filesystem.stat'] },
      modules: { filesystem: { constraints: { blocked_actions: ['list'] } } },
    })
    const kinds = ['write', 'read', 'list', 'stat'].map(
      (tool) => app.view(localCaller).resolve(`pegboard.filesystem.${tool}`).kind,
    )
    expect(kinds).toEqual(['unknown', 'unknown', 'unknown', 'found'])
  })

  it('keeps the plain names while it is disabled or its entry is invalid', async () => {
    for (const filesystem of [
      { ...named('read_file'), enabled: false },
      { command: 'node', args: 7 },
    ]) {
      const app = await ready({ mcpServers: { filesystem } })
      expect(app.view(localCaller).byId.has('pegboard_filesystem.read')).toBe(true)
      const client = await connectTo(app, 'legacy')
      expect((await callTool(client, { name: 'filesystem.read', arguments: { path: 'a' } })).isError).toBe(true)
      expect(app.nameProblems()).toEqual([expect.stringContaining('has the name of the bundled module filesystem')])
      await client.close()
    }
  })
})

describe("a server with the name of a module in the operator's own folder", () => {
  it('shares the rules about this name, and Pegboard reports it', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    const tool = (name: string) =>
      `${name}: { description: 'Does it.', effect: 'read', input: { type: 'object' }, run: () => '${name}' }`
    writeFileSync(
      join(dir, 'modules', 'dice.mjs'),
      `export default { name: 'dice', description: 'Dice.', tools: { ${['roll', 'drop'].map(tool).join(', ')} } }`,
    )
    const { app } = await startApp(
      {
        modulesDir: 'modules',
        mcpServers: { dice: named('drop', 'spin') },
        modules: { dice: { constraints: { blocked_actions: ['drop'] } } },
      },
      dir,
    )
    await app.settled(20_000)
    expect([...app.view(localCaller).byId.keys()].filter((id) => id.includes('dice')).sort()).toEqual([
      'dice.roll',
      'mcp_dice.spin',
    ])
    expect(app.nameProblems()).toContain(
      'The module dice and mcp_dice have the same name: rules for dice apply to both. Write mcp_dice in rules for it alone.',
    )
  })
})
