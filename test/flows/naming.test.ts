import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/context.ts'
import { type Answer, answerOf, startApp } from '../app.ts'
import { folder, pegboard } from '../cli/terminal.ts'
import { connectTo } from '../client.ts'

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

describe('what the operator says of a tool', () => {
  it('changes its name, its description and what else it answers to', async () => {
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
    // Listed once, under the name it has.
    expect(tools.filter((tool) => tool.name.includes('tickets'))).toEqual([])
    await client.close()
  })

  it('never takes a name away from a tool that is really called so', async () => {
    const app = await ready(CONFIG)
    const client = await connectTo(app, 'legacy')
    expect(await run(client, 'other')).toBe('other')
    await client.close()
  })

  it('hides the tool it replaces while it is there', async () => {
    const app = await ready(CONFIG)
    const view = app.view(localCaller)
    expect(view.byId.has('mcp_plain.speak')).toBe(false)
    expect(view.hidden.get('mcp_plain.speak')?.reason).toBe('replaced by mcp_hub.say')
  })

  it('and has no effect is reported', async () => {
    const app = await ready(CONFIG)
    expect(app.nameProblems()).toEqual([
      'mcpServers.hub.tools.issues_find.alias "other" is not used: it is the name of mcp_plain.other.',
      'mcpServers.hub.tools names "missing", which hub does not have.',
      'mcpServers.hub.tools.hidden_one has no effect: allow and deny leave the tool out.',
    ])
  })
})

describe('names that two servers give', () => {
  it('are both there under their own prefix, and the bare one means neither [POI-09]', async () => {
    const app = await ready({ exposure: { mode: 'direct' }, mcpServers: { a: named('search'), b: named('search') } })
    const client = await connectTo(app, 'legacy')
    const { tools } = await client.listTools()
    expect(tools.map((tool) => tool.name)).toEqual(expect.arrayContaining(['a__search', 'b__search']))
    const refused = await client.callTool({ name: 'search', arguments: {} }).catch((error: unknown) => error)
    expect(JSON.stringify(refused instanceof Error ? refused.message : refused)).toContain(
      "'search' could be mcp_a.search or mcp_b.search.",
    )
    await client.close()
  })

  it('and that become equal go to neither; the warning and check name both [POI-10]', async () => {
    const servers = { a: named('b__c', 'One', 'one'), a__b: named('c') }
    const app = await ready({ exposure: { mode: 'direct' }, mcpServers: servers })
    const names = app
      .view(localCaller)
      .tools.filter(({ tool }) => tool.origin === 'upstream')
      .map(({ tool }) => [tool.id, tool.name])
    expect(names).toEqual([
      ['mcp_a.b__c', 'a__b__c_09a42d08'],
      ['mcp_a.One', 'a__One_9e640158'],
      ['mcp_a.one', 'a__one_dbb6dfee'],
      ['mcp_a__b.c', 'a__b__c_924aec7a'],
    ])
    const view = app.view(localCaller)
    expect(view.resolve('a__b__c')).toEqual({ kind: 'ambiguous', candidates: ['mcp_a.b__c', 'mcp_a__b.c'] })
    expect(app.nameProblems()).toEqual([
      'mcp_a.b__c and mcp_a__b.c both want the name "a__b__c"; each got a name of its own. Rename one, or set a prefix.',
      'mcp_a.One and mcp_a.one both want the name "a__One"; each got a name of its own. Rename one, or set a prefix.',
    ])
    const at = folder({ 'c.json': { mcpServers: servers } })
    try {
      const { out } = await pegboard(at.dir, 'check', '--json', '--config', 'c.json')
      expect(JSON.parse(out).warnings).toEqual(expect.arrayContaining([...app.nameProblems()]))
    } finally {
      at.remove()
    }
  })

  it('never shadow a built-in tool, even without a prefix [POI-12]', async () => {
    const app = await ready({
      exposure: { mode: 'discovery' },
      mcpServers: { a: { ...named('execute_tool', 'SEARCH_TOOLS'), prefix: '' } },
    })
    const client = await connectTo(app, 'legacy')
    const { tools } = await client.listTools()
    expect(tools.filter((tool) => /execute_tool|search_tools/i.test(tool.name))).toHaveLength(2)
    const through = await client.callTool({
      name: 'execute_tool',
      arguments: { name: 'mcp_a.execute_tool', params: {} },
    })
    expect(through.content).toEqual([{ type: 'text', text: 'execute_tool' }])
    expect(app.nameProblems()).toEqual([
      'mcp_a.execute_tool wants the name "execute_tool", which is a built-in tool\'s; it got another. Rename it, or set a prefix.',
      'mcp_a.SEARCH_TOOLS wants the name "SEARCH_TOOLS", which is a built-in tool\'s; it got another. Rename it, or set a prefix.',
    ])
    await client.close()
  })
})

it('a renamed tool stays denied under the name its server gave it', async () => {
  const app = await ready({ ...CONFIG, policy: { deny: ['mcp_hub.issues_find'] } })
  expect(app.view(localCaller).resolve('gh__find_issues').kind).toBe('unknown')
})
