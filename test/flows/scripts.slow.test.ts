import { expect, it } from 'vitest'
import { type Answer, answerOf } from '../app.ts'
import { callsOf, place, talkTo } from '../process.ts'

const def = (name: string): string =>
  `{ type: 'function', function: { name: '${name}', description: 'Says what a test wants to know.', parameters: { type: 'object', properties: {} } } }`
const files = {
  '_common.js': 'function mayEnter(env, least) {\n  return env.speaker.attrs.level >= least\n}\n',
  'door.js': `registerTool({ name: 'door', execute: function (args, env) { return { level: env.speaker.attrs.level, open: mayEnter(env, 50) } }, def: ${def('door')} })\n`,
}

it.each([
  ['all', { user_level: 90 }, { level: 90, open: true }],
  ['all', { toolctx: { user_level: 50 } }, { level: 50, open: true }],
  ['all', {}, { level: 0, open: false }],
  ['all', { user_level: '90' }, { level: 0, open: false }],
  ['all', { user_level: -1 }, { level: 0, open: false }],
  ['origin', { user_level: 90 }, { level: 0, open: false }],
  ['none', { user_level: 90 }, { level: 0, open: false }],
])(
  "a self-registering script gets its caller's access level: with trustMeta %s and %j %j [SBS-04]",
  async (trustMeta, meta, told) => {
    const server = await talkTo(place({ server: { trustMeta }, modules: {} }, files))
    // Arguments are not metadata.
    const forged = { env: { speaker: { attrs: { level: 99 } } } }
    server.send({ id: 1, method: 'tools/call', params: { name: 'door.door', arguments: forged, _meta: meta } })
    const { result } = (await server.answer(1)) as Answer
    expect(answerOf(result)).toEqual(told)
  },
)

const script = (name: string, answer: string, register = 'registerTool'): string =>
  `${register}({ name: '${name}', execute: function (args, env) { return ${answer} }, def: ${def(name)} })\n`

it('files register their tools, the later of two with one name wins, and they know the caller [SBS-01, SBS-05, SBS-06]', async () => {
  const talk = await talkTo(
    place(
      {
        exposure: { mode: 'direct', primitives: false },
        modules: { hello: { enabled: false }, filesystem: { enabled: false } },
      },
      {
        'a.js': script('t', "'from a'") + script('u', "'u'", 'llm_tool_register'),
        'who.js': script('who', '[env.speaker.alias, env.channel, env.channel_members, env.seen_members]'),
        'z.js': script('t', "'from z'"),
      },
    ),
  )
  talk.send({ id: 1, method: 'tools/list' })
  const { tools } = ((await talk.answer(1)) as Answer).result
  const names = tools.map(({ name }: Answer) => name).filter((name: string) => /^(?:a|who|z)__/.test(name))
  expect(names).toEqual(['a__t', 'a__u', 'who__who'])
  const call = callsOf(talk)
  const textOf = async (name: string, meta?: object) => (await call(name, {}, meta)).content[0].text
  expect([await textOf('a__t'), await textOf('t'), await textOf('a__u')]).toEqual(['from z', 'from z', 'u'])
  const toolctx = { user_name: 'Ada', channel_id: '#den', channel_members: ['Ada', 'Bob'], seen_members: ['Cy'] }
  expect(JSON.parse(await textOf('who__who', { toolctx }))).toEqual(['Ada', '#den', ['Ada', 'Bob'], ['Cy']])
  expect(talk.stderr()).toContain('replaces the one of a.js')
})

it('a good file is served beside five broken ones, which are reported on stderr and in the status, and not on stdout [SBS-03]', async () => {
  const talk = await talkTo(
    place(
      { loader: { importTimeoutMs: 5_000 } },
      {
        'a_syntax.mjs': 'export default {{\n',
        'b_throws.mjs': "\nthrow new Error('boom')\n",
        'c_schema.mjs': `export default { name: 'c', description: 'A module.', tools: { say: { description: 'Says a word to you.', effect: 'read', input: { type: 'objekt' }, run: () => 1 } } }\n`,
        'd_register.mjs': "registerTool({ name: 'd', def: {} })\n",
        'e_hangs.mjs': 'await new Promise(() => setInterval(() => undefined, 1_000))\n',
        'good.js': script('good', "'good'"),
      },
    ),
  )
  const call = callsOf(talk)
  await expect.poll(async () => (await call('good.good')).content[0].text, { timeout: 40_000 }).toBe('good')
  let id = 0
  const status = async (): Promise<Answer> => {
    id++
    talk.send({ id, method: 'resources/read', params: { uri: 'server://status' } })
    return JSON.parse(((await talk.answer(id)) as Answer).result.contents[0].text)
  }
  const broken = ['a_syntax.mjs', 'b_throws.mjs', 'c_schema.mjs', 'd_register.mjs', 'e_hangs.mjs']
  await expect
    .poll(async () => (await status()).failed.map(({ file }: Answer) => file).sort(), { timeout: 20_000 })
    .toEqual(broken)
  for (const file of broken) expect(talk.stderr()).toContain(file)
  // The session would have failed if a line of stdout were not a protocol message.
  expect(talk.messages.length).toBeGreaterThan(2)
})

it("a script's result with a field that looks like a credential fails with its path; circular results are handled [SBS-12]", async () => {
  const call = callsOf(
    await talkTo(
      place(
        {},
        {
          'leak.js': script('leak', "({ a: [{ api_key: 'hunter2' }] })") + script('top', "({ password: 'hunter2' })"),
          'fine.js': script('fine', "({ author: 'Ada', authority: 'high', tokens_left: undefined })"),
          'round.js': script('round', '(() => { const one = {}; one.one = one; return one })()'),
          'deep.js': script(
            'deep',
            "(() => { const one = { list: [] }; one.list.push(one, { passphrase: 'hunter2' }); return one })()",
          ),
        },
      ),
    ),
  )
  const told = async (name: string) => {
    const answer = await call(name)
    return [answer.isError ?? false, JSON.stringify(answer)] as const
  }
  for (const [name, path] of [
    ['leak.leak', 'a.0.api_key'],
    ['leak.top', '<root>.password'],
    ['deep.deep', 'list.1.passphrase'],
  ] as const) {
    const [failed, text] = await told(name)
    expect([name, failed, text.includes(`forbidden field`), text.includes(path), text.includes('hunter2')]).toEqual([
      name,
      true,
      true,
      true,
      false,
    ])
  }
  expect((await told('fine.fine'))[0]).toBe(false)
  expect((await told('round.round'))[0]).toBe(true)
})
