import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'

/** Modules with one tool each; `notices` is the body of a function of `view`. */
async function appWith(notices: Readonly<Record<string, string>>, settings: Record<string, unknown> = {}) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  for (const [name, body] of Object.entries(notices))
    writeFileSync(
      join(dir, 'modules', `${name}.mjs`),
      `let times = 0
      export default { name: '${name}', description: 'A module called ${name}.',
        config: { type: 'object', properties: { off: { type: 'boolean' } } },
        notices: async (view) => { ${body} },
        tools: { look: { description: 'Looks around, and sees nothing.', effect: 'read',
          available: ({ config }) => !config.off || 'switched off', run: () => 'seen' } } }`,
    )
  return await startApp(settings, dir)
}
const noticesIn = (result: unknown): string[] =>
  (result as Answer).content.map(({ text }: Answer) => text).filter((text: string) => text.startsWith('[NOTICE] '))

describe("a module's notices", () => {
  it.each(['legacy', 'modern'] as const)('arrive with the next call, on every route (%s)', async (era) => {
    const { app } = await appWith({ a: "return times++ < 2 ? ['You have mail, ' + view.origin.userName + '.'] : []" })
    const client = await connectTo(app, era)
    const call = async (name: string, args: Record<string, unknown>, user_name: string) =>
      await client.callTool({ name, arguments: args, _meta: { toolctx: { user_name } } } as never)
    const direct = await call('hello__status', {}, 'Ada')
    expect(noticesIn(direct)).toEqual(['[NOTICE] You have mail, Ada.'])
    // The result itself is unchanged.
    expect((direct as Answer).structuredContent).not.toHaveProperty('notices')
    const through = await call('execute_tool', { name: 'hello.status', params: {} }, 'Bob')
    expect(noticesIn(through)).toEqual(['[NOTICE] You have mail, Bob.'])
    expect(noticesIn(await call('hello__status', {}, 'Ada'))).toEqual([])
  })

  it('come only from modules that the caller sees', async () => {
    const { app } = await appWith(
      { on: "return ['from on']", off: "return ['from off']", denied: "return ['from denied']" },
      { modules: { off: { config: { off: true } } }, policy: { deny: ['denied.*'] } },
    )
    const client = await connectTo(app)
    expect(noticesIn(await client.callTool({ name: 'hello__status', arguments: {} }))).toEqual(['[NOTICE] from on'])
  })

  it('are dropped and logged if their function fails, is invalid, or takes too long', async () => {
    const { app, logged } = await appWith({
      broken: "throw new Error('no')",
      odd: 'return [1]',
      slow: 'return await new Promise(() => {})',
      good: "return ['from good', 'x'.repeat(5000)]",
    })
    const client = await connectTo(app)
    const notices = noticesIn(await client.callTool({ name: 'hello__status', arguments: {} }))
    expect(notices.map((text) => text.length)).toEqual(['[NOTICE] from good'.length, '[NOTICE] '.length + 2_000])
    const why = logged
      .map((line) => JSON.parse(line) as Answer)
      .filter(({ message }) => message === 'skipped the notices of a module')
    expect(why.map(({ module, error }) => [module, error]).sort()).toEqual([
      ['broken', 'no'],
      ['odd', 'notices returns a list of texts'],
      ['slow', 'it took longer than 1000 ms'],
    ])
  })

  it('must be given as a function', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(
      join(dir, 'modules/a.mjs'),
      "export default { name: 'a', description: 'A module called a.', notices: ['x'], tools: { b: { description: 'Does nothing at all, ever.', effect: 'read', run: () => 1 } } }",
    )
    const { app } = await startApp({}, dir)
    expect(app.failed()).toMatchObject([
      { code: 'E_MODULE_SHAPE', error: 'a.mjs: the notices of a are not a function.' },
    ])
  })
})
