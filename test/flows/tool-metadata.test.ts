import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'

const modules = {
  echo: `export default { name: 'echo', description: 'Says things again.', tools: {
    say: { description: 'Says the text again, unchanged.', effect: 'read', aliases: ['repeat after me'],
      input: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] }, run: ({ text }) => text },
    shout: { title: 'Shout a text', description: 'Says the text again in capitals.', effect: 'read', openWorld: true, run: () => 'A' } } }`,
  garden: `export default { name: 'garden', description: 'Looks after plants.', tools: {
    water: { description: 'Waters the plants of a bed in the garden.', effect: 'write', run: () => 'wet' } } }`,
  pool: `export default { name: 'pool', description: 'Looks after a pool.', tools: {
    fill: { description: 'Fills the pool in the garden with water.', effect: 'write', run: () => 'full' } } }`,
}

async function open(settings: Record<string, unknown>) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  for (const [name, text] of Object.entries(modules)) writeFileSync(join(dir, 'modules', `${name}.mjs`), text)
  return (await startApp(settings, dir)).app
}

describe('what a tool declares', () => {
  it('sets the effect of its calls; without a declaration its name decides [DIG-51]', async () => {
    const client = await connectTo(await open({}))
    const result = await client.callTool({
      name: 'run_parallel',
      arguments: {
        actions: [{ name: 'echo.say', params: { text: 'a' } }, { name: 'echo.shout' }, { name: 'no.such' }],
      },
    })
    expect(answerOf(result).results.map(({ label }: Answer) => label)).toEqual([
      'Calling echo.say',
      'Shout a text',
      'Calling no.such',
    ])
  })

  it('becomes the hints of MCP [DIG-52]', async () => {
    const client = await connectTo(
      await open({ exposure: { mode: 'direct' }, modules: { filesystem: { config: { roots: ['.'] } } } }),
    )
    const { tools } = await client.listTools()
    const hintsOf = (name: string) => tools.find((tool) => tool.name === name)?.annotations
    expect(hintsOf('filesystem__rm')).toMatchObject({ readOnlyHint: false, destructiveHint: true })
    expect(hintsOf('filesystem__read')).toMatchObject({ readOnlyHint: true })
    expect(hintsOf('filesystem__mkdir')).toMatchObject({ readOnlyHint: false, destructiveHint: false })
    expect(hintsOf('echo__shout')).toMatchObject({ readOnlyHint: true, openWorldHint: true })
    expect(tools.find(({ name }) => name === 'echo__shout')?.title).toBe('Shout a text')
  })

  it('limits it to profiles that have it [DIG-49]', async () => {
    const app = await open({ profiles: { gardener: { use: ['garden', 'echo'] }, keeper: { use: ['pool', 'echo'] } } })
    const found = async (profile: string, query: string): Promise<string[]> => {
      const client = await connectTo(app, 'legacy', {}, profile)
      const answer = await client.callTool({ name: 'search_tools', arguments: { query, max_results: 5 } })
      return answerOf(answer).tools.map(({ name }: Answer) => name)
    }
    expect((await found('gardener', 'water in the garden'))[0]).toBe('garden.water')
    expect((await found('keeper', 'water in the garden'))[0]).toBe('pool.fill')
    for (const [profile, other] of [
      ['gardener', 'pool.fill'],
      ['keeper', 'garden.water'],
    ] as const)
      for (const query of ['water in the garden', other, 'fill the pool'])
        expect(await found(profile, query), `${profile}: ${query}`).not.toContain(other)
    expect(await found('gardener', 'repeat after me')).toContain('echo.say')
    expect(await found('keeper', 'repeat after me')).toContain('echo.say')
  })
})
