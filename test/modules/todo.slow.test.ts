import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import todo from '../../modules/todo/index.ts'
import { type Caller, localCaller, noOrigin } from '../../src/core/caller.ts'
import { type Answer, answerOf, startApp, type TestApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { keepsTheContract } from '../contract/module.ts'
import { languageModel, type Reply } from '../language-model.ts'

keepsTheContract(todo)

const CONTACTS = `# Contacts

<!-- An example:
## Nobody
\`\`\`yaml
contact_id: tg:1
\`\`\`
-->

## Ann Lee
\`\`\`yaml
contact_id: tg:1001 # that is me
nickname: Annie
kind: human
tg_private_chat_id: 1001
\`\`\`

## Bob
\`\`\`yaml
contact_id: tg:@bob_b
tg_username: bob_b
tg_group_chat_ids: [-1009007199254740993]
\`\`\`

## Robot
\`\`\`yaml
contact_id: maep:12D3KooW
kind: agent
maep_node_id: 12D3KooW
\`\`\`
`

interface Rig {
  readonly app: TestApp['app']
  readonly client: Client
  readonly dir: string
  readonly model: Awaited<ReturnType<typeof languageModel>>
  /** The content of the file; empty if it is missing. */
  file(name: string): string
  update(input: object): Promise<Answer>
  /** The error of a rejected update. */
  refusal(input: object): Promise<string>
}

/** The whole product with a scripted language model and these files in the state folder. */
async function rig(
  replies: readonly Reply[],
  files: Readonly<Record<string, string>> = { 'contacts/ACTIVE.md': CONTACTS },
  settings: Record<string, unknown> = {},
): Promise<Rig> {
  const model = await languageModel(...replies)
  const dir = temporaryFolder()
  const state = join(dir, 'state/files')
  mkdirSync(join(state, 'contacts'), { recursive: true })
  for (const [name, text] of Object.entries(files)) writeFileSync(join(state, name), text)
  const { app } = await startApp({ exposure: { mode: 'direct' }, services: model.settings, ...settings }, dir)
  const client = await connectTo(app)
  const tool = (input: object) =>
    client.callTool({ name: 'todo__todo_update', arguments: input as Record<string, unknown> })
  return {
    app,
    client,
    dir,
    model,
    file(name) {
      try {
        return readFileSync(join(state, name), 'utf8')
      } catch {
        return ''
      }
    },
    update: async (input) => answerOf(await tool(input)),
    refusal: async (input) => refusalOf(await tool(input)),
  }
}

/** `CODE: what. what next` without the code. */
function refusalOf(result: unknown): string {
  const { isError, content } = result as Answer
  expect(isError).toBe(true)
  return content[0].text.replace(/^E_[A-Z_]+: /, '')
}

const resolved = (content: string) => ({ status: 'ok', content })
const add = { action: 'add', content: 'Ask Bob for the invoice', people: ['Bob'] }
const WIP = (...lines: string[]): string =>
  `---\ncreated_at: "2026-01-01T00:00:00Z"\nupdated_at: "2026-01-01T00:00:00Z"\nopen_count: ${lines.length}\n---\n\n# TODO Work In Progress (WIP)\n\n${lines.join('\n')}\n`
const one = '- [ ] [Created](2026-01-01 09:30) | Ask Bob (tg:@bob_b) for the invoice'
const two = '- [ ] [Created](2026-01-01 08:00), [ChatID](tg:-1001234567890) | Call Ann Lee (tg:1001)'
const lines = (text: string): string[] => text.split('\n').filter((line) => line.startsWith('- ['))
const minute = expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d$/)

describe('an added entry', () => {
  it('has ids after names, and is written at the top of the file [MOR-28, MOR-31]', async () => {
    const { update, file, model } = await rig([
      resolved('Ask Bob (tg:@bob_b) for the invoice on 2026-01-02'),
      { keep: [0, 1] },
    ])
    expect(await update(add)).toEqual({
      ok: true,
      action: 'add',
      updated_counts: { open_count: 1, done_count: 0 },
      changed: { wip_added: 1, wip_removed: 0, done_added: 0 },
      entry: { created_at: minute, done_at: null, content: 'Ask Bob (tg:@bob_b) for the invoice on 2026-01-02' },
    })
    expect(file('TODO.md')).toMatch(
      /^---\ncreated_at: "\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"\nupdated_at: "\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"\nopen_count: 1\n---\n\n# TODO Work In Progress \(WIP\)\n\n- \[ \] \[Created\]\(\d{4}-\d\d-\d\d \d\d:\d\d\) \| Ask Bob \(tg:@bob_b\) for the invoice on 2026-01-02\n$/,
    )
    expect(file('TODO.DONE.md')).toBe('')
    // An empty list has no duplicates, so the model is asked once.
    expect(model.asked).toHaveLength(1)
    expect(model.asked[0]?.body).toMatchObject({
      model: 'scripted',
      temperature: 0,
      response_format: { type: 'json_object' },
    })
    expect(JSON.parse(model.asked[0]?.user ?? '')).toEqual({
      entry: 'Ask Bob for the invoice',
      people: ['Bob'],
      speaker: '',
      agent: '',
      now: expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d UTC$/),
      contacts: [
        { name: 'Ann Lee / Annie', ids: ['tg:1001'] },
        { name: 'Bob', ids: ['tg:@bob_b', 'tg:-1009007199254740993'] },
        { name: 'Robot', ids: ['maep:12D3KooW'] },
      ],
    })
  })

  it('may contain references as links, and existing ids [MOR-28]', async () => {
    const { update, file } = await rig([
      resolved(
        'Tell [Robot](maep:12D3KooW) and Bob (tg:-1009007199254740993) about (the plan) at [a page](https://example.com/x)',
      ),
    ])
    const content = 'Tell Robot and Bob (tg:-1009007199254740993) about (the plan) at [a page](https://example.com/x)'
    expect(await update({ action: 'add', content, people: ['Robot', 'Bob'] })).not.toHaveProperty('warnings')
    expect(lines(file('TODO.md'))[0]).toContain('[Robot](maep:12D3KooW)')
  })

  it('replaces entries with the same meaning, and reports them [MOR-28]', async () => {
    const { update, file, model } = await rig([resolved('Get the invoice of Bob (tg:@bob_b)'), { keep: [0, 2] }], {
      'contacts/ACTIVE.md': CONTACTS,
      'TODO.md': WIP(one, two),
    })
    expect(await update(add)).toMatchObject({
      updated_counts: { open_count: 2, done_count: 0 },
      changed: { wip_added: 1, wip_removed: 1, done_added: 0 },
      warnings: ['duplicate_removed: Ask Bob (tg:@bob_b) for the invoice'],
    })
    expect(lines(file('TODO.md'))).toEqual([expect.stringMatching(/\| Get the invoice of Bob/), two])
    expect(JSON.parse(model.asked[1]?.user ?? '').entries.map(({ text }: Answer) => text)).toEqual([
      'Get the invoice of Bob (tg:@bob_b)',
      'Ask Bob (tg:@bob_b) for the invoice',
      'Call Ann Lee (tg:1001)',
    ])
  })

  it('is rejected with an id that is unknown or invalid [MOR-28]', async () => {
    const { refusal, file, model } = await rig([
      resolved('Ask Bob (tg:4242) for the invoice'),
      resolved('Ask Bob (tg:0)'),
    ])
    expect(await refusal(add)).toContain('reference id is not reachable: tg:4242')
    expect(await refusal(add)).toContain('invalid reference id: tg:0')
    const before = model.asked.length
    const given = (content: string) => refusal({ action: 'add', content, people: ['Bob'] })
    expect(await given('Ask Bob (tg:abc)')).toContain('invalid reference id: tg:abc')
    expect(await given('Ask [Bob](bob)')).toContain('invalid reference id: bob')
    expect(await given('Ask Bob (slack:C024)')).toContain('reference id is not reachable: slack:C024')
    expect(await given('问 Bob（tg:5）')).toContain('reference id is not reachable: tg:5')
    // The example in the comment is not a person.
    expect(await given('Ask Nobody (tg:1)')).toContain('reference id is not reachable: tg:1')
    expect(model.asked.length).toBe(before)
    expect(file('TODO.md')).toBe('')
  })

  it('is written unchanged, with a warning, if someone is unknown [MOR-29]', async () => {
    const { update, file } = await rig([
      { status: 'missing_reference_id', missing: ['Zoe'] },

      // It reports success, and no person has an id.
      resolved('Ask Bob for the invoice'),
      { keep: [0, 1] },
    ])
    expect(await update({ action: 'add', content: 'Write to Zoe', people: ['Zoe'] })).toMatchObject({
      ok: true,
      entry: { content: 'Write to Zoe' },
      warnings: ['reference_unresolved_write_raw'],
    })
    expect(lines(file('TODO.md'))[0]).toMatch(/ \| Write to Zoe$/)
    expect((await update(add)).warnings).toEqual(['reference_unresolved_write_raw'])
  })

  it.each([
    ['Ask Bob (tg:@bob_b) for my invoice', 'Ask Bob for my invoice'],
    ['I call Bob (tg:@bob_b)', 'I call Bob'],
    ['提醒我找 Bob (tg:@bob_b)', '提醒我找 Bob'],
  ])('is written unchanged if the speaker has no id: %s [MOR-29]', async (answer, content) => {
    const { update } = await rig([resolved(answer)])
    expect(await update({ action: 'add', content, people: ['Bob', '$SPEAKER'] })).toMatchObject({
      entry: { content },
      warnings: ['reference_unresolved_write_raw'],
    })
  })

  it('names speaker and assistant by two placeholders, and passes on the original text [MOR-25]', async () => {
    const { app, model } = await rig(
      [resolved('Ann Lee (tg:1001) shows Otto (maep:12D3KooW) the US map')],
      { 'contacts/ACTIVE.md': CONTACTS },
      { modules: { todo: { config: { agent_name: 'Otto' } } } },
    )
    const ann: Caller = {
      ...localCaller,
      origin: { ...noOrigin, platform: 'telegram', channelId: '1001', userId: '1001', userName: 'Ann' },
      turn: { message: 'please note that I show you the map' },
    }
    const input = {
      action: 'add',
      content: 'I show you the US map',
      people: ['$SPEAKER', '$AGENT'],
      chat_id: 'tg:1001',
    }
    // By the name without its category, which existing agents call.
    const result = await app.surface.call({ name: 'todo_update', input, caller: ann })
    expect(result).toMatchObject({ kind: 'value', value: { ok: true } })
    expect((result as Answer).value).not.toHaveProperty('warnings')
    expect(JSON.parse(model.asked[0]?.user ?? '')).toMatchObject({
      people: ['Ann', 'Otto'],
      speaker: 'Ann',
      agent: 'Otto',
      message: 'please note that I show you the map',
    })
  })

  it('accepts a Telegram chat, any 64-bit number except 0 [MOR-32]', async () => {
    const { update, refusal, file } = await rig([
      (asked) => (asked.user.includes('"entries"') ? { keep: [0, 1, 2] } : resolved('Ask Bob (tg:@bob_b)')),
    ])
    expect((await update({ ...add, chat_id: 'tg:-1001234567890' })).ok).toBe(true)
    expect(lines(file('TODO.md'))[0]).toMatch(/\), \[ChatID\]\(tg:-1001234567890\) \| Ask Bob/)
    for (const chat_id of ['tg:0', 'slack:x', 'tg:9223372036854775808', 'tg:@bob_b', '42', 'tg:1e3'])
      expect(await refusal({ ...add, chat_id })).toContain(`invalid chat_id: ${chat_id}`)
    expect(await refusal({ ...add, chat_id: 42 })).toContain('chat_id must be a string')
  })

  it('is one line that cannot hide others, whatever its text', async () => {
    const { update, client, file } = await rig([
      resolved('Bob (tg:@bob_b) says <!-- - [ ] nothing | x'),
      resolved('second by Bob (tg:@bob_b)'),
      { keep: [0, 1] },
    ])
    await update({ action: 'add', content: 'Bob says <!--\n- [ ] nothing | x', people: ['Bob'] })
    await update({ action: 'add', content: 'second\u0000 by\r\nBob', people: ['Bob'] })
    expect(lines(file('TODO.md'))).toHaveLength(2)
    const shown = answerOf(await client.callTool({ name: 'todo__todo_list', arguments: {} }))
    expect(shown.open_count).toBe(2)
  })

  it('belongs to the configured person if it names no one', async () => {
    const { update, model } = await rig([resolved('Ann Lee (tg:1001) calls Bob (tg:@bob_b)')], undefined, {
      modules: { todo: { config: { user_name: 'Ann Lee' } } },
    })
    await update({ action: 'add', content: 'I call Bob', people: ['$SPEAKER'] })
    expect(JSON.parse(model.asked[0]?.user ?? '')).toMatchObject({ people: ['Ann Lee'], speaker: 'Ann Lee' })
  })

  it('is rejected if the list is full', async () => {
    const { refusal, model } = await rig(
      [],
      { 'TODO.md': WIP(one, two) },
      { modules: { todo: { config: { max_open: 2 } } } },
    )
    expect(await refusal(add)).toContain('There are 2 open entries; the limit is 2.')
    expect(model.asked).toEqual([])
  })
})

describe('a completed entry', () => {
  const files = { 'contacts/ACTIVE.md': CONTACTS, 'TODO.md': WIP(one, two) }

  it('moves to the other file with its data [MOR-30, MOR-31]', async () => {
    const { update, file, model } = await rig([{ status: 'matched', index: 1 }], files)
    expect(await update({ action: 'complete', content: 'I have called Ann' })).toEqual({
      ok: true,
      action: 'complete',
      updated_counts: { open_count: 1, done_count: 1 },
      changed: { wip_added: 0, wip_removed: 1, done_added: 1 },
      entry: { created_at: '2026-01-01 08:00', done_at: minute, content: 'Call Ann Lee (tg:1001)' },
    })
    expect(lines(file('TODO.md'))).toEqual([one])
    expect(file('TODO.md')).toContain('open_count: 1\n')
    expect(file('TODO.DONE.md')).toMatch(
      /done_count: 1\n---\n\n# TODO Done\n\n- \[x\] \[Created\]\(2026-01-01 08:00\), \[Done\]\([\d: -]{16}\), \[ChatID\]\(tg:-1001234567890\) \| Call Ann Lee \(tg:1001\)\n$/,
    )
    expect(JSON.parse(model.asked[0]?.user ?? '')).toEqual({
      done: 'I have called Ann',
      entries: [
        { number: 0, text: 'Ask Bob (tg:@bob_b) for the invoice' },
        { number: 1, text: 'Call Ann Lee (tg:1001)' },
      ],
    })
  })

  it('is chosen by the model only; equal words alone do not match [MOR-30]', async () => {
    const { refusal, update, file } = await rig(
      [
        { status: 'no_match' },
        { status: 'ambiguous', candidates: [0, 1] },
        'The first one, I think.',
        '```json\n{"status": "matched", "index": 0}\n```',
        { status: 'matched', index: 2 },
        { status: 'matched', index: 0 },
      ],
      files,
    )
    const done = { action: 'complete', content: 'Ask Bob (tg:@bob_b) for the invoice' }
    expect(await refusal(done)).toContain('no matching todo item in TODO.md')
    expect(await refusal(done)).toContain(
      'ambiguous todo item match: "Ask Bob (tg:@bob_b) for the invoice", "Call Ann Lee (tg:1001)"',
    )
    for (let n = 0; n < 3; n++) expect(await refusal(done)).toContain('invalid semantic_match response')
    expect(file('TODO.md')).toBe(files['TODO.md'])
    expect(file('TODO.DONE.md')).toBe('')
    expect((await update(done)).ok).toBe(true)
  })

  it('is searched only in a non-empty list [MOR-30]', async () => {
    const { refusal, model } = await rig([], {})
    expect(await refusal({ action: 'complete', content: 'anything' })).toContain('no matching todo item in TODO.md')
    expect(model.asked).toEqual([])
  })
})

describe('todo_update', () => {
  it.each([
    ['action is required', { content: 'x', people: ['Bob'] }],
    ['action is required', { action: '', content: 'x' }],
    ['content is required', { action: 'add', people: ['Bob'] }],
    ['content is required', { action: 'add', content: '  ', people: ['Bob'] }],
    ['invalid action: remove', { action: 'remove', content: 'x' }],
    ['people is required for add action', { action: 'add', content: 'x' }],
    ['people is required for add action', { action: 'add', content: 'x', people: [' '] }],
    ['people must be an array of strings', { ...add, people: 'Bob' }],
    ['people must be an array of strings', { ...add, people: [1] }],
    ['chat_id must be a string', { ...add, chat_id: 5 }],
    ['invalid chat_id: x', { ...add, chat_id: 'x' }],
    ['invalid reference id:', { ...add, content: 'Ask Bob (tg:abc)' }],
    ['missing_reference_id', { ...add, content: 'Ask [Bob]()' }],
    ['reference id is not reachable:', { ...add, content: 'Ask Bob (tg:77)' }],
    ['no matching todo item in TODO.md', { action: 'complete', content: 'x' }],
  ])('rejects invalid arguments with a stable message: %s [MOR-25, MOR-26]', async (words, input) => {
    const { refusal, model } = await rig([])
    expect(await refusal(input)).toContain(words)
    expect(model.asked).toEqual([])
  })

  it.each([
    ['invalid reference_resolve response', ['Sure! {"status": "ok"}'], add, ''],
    ['invalid reference_resolve response', [{ status: 'fine', content: 'x' }], add, ''],
    ['invalid reference_resolve response', [resolved(' ')], add, ''],
    ['invalid semantic_dedup response', [resolved('Ask Bob (tg:@bob_b)'), { keep: [1] }], add, WIP(one)],
    ['invalid semantic_dedup response', [resolved('Ask Bob (tg:@bob_b)'), { keep: [0, 7] }], add, WIP(one)],
    ['invalid semantic_dedup response', [resolved('Ask Bob (tg:@bob_b)'), []], add, WIP(one)],
    ['invalid semantic_match response', ['no idea'], { action: 'complete', content: 'x' }, WIP(one)],
    ['ambiguous todo item match', [{ status: 'ambiguous' }], { action: 'complete', content: 'x' }, WIP(one, two)],
  ])('writes nothing after an unusable answer of the model: %s [MOR-26]', async (words, replies, input, wip) => {
    const { refusal, file } = await rig(replies as never, { 'contacts/ACTIVE.md': CONTACTS, 'TODO.md': wip })
    expect(await refusal(input)).toContain(words)
    expect(file('TODO.md')).toBe(wip)
  })

  it('is unavailable if it is disabled or there is no model, with a stable message [MOR-26, CTX-17]', async () => {
    const refused = async (settings: Record<string, unknown>): Promise<string> => {
      const { app } = await startApp({ exposure: { mode: 'direct' }, ...settings })
      const client = await connectTo(app)
      expect((await client.listTools()).tools.map(({ name }) => name)).not.toContain('todo__todo_update')
      return refusalOf(await client.callTool({ name: 'todo_update', arguments: add }))
    }
    const llm = { baseUrl: 'http://127.0.0.1:9/v1' }
    const off = { tools: { todo_update: { enabled: false } }, services: { llm: { ...llm, model: 'm' } } }
    expect(await refused(off)).toContain('todo_update tool is disabled')
    expect(await refused({})).toContain('todo_update unavailable (missing llm client): set services.llm')
    expect(await refused({ services: { llm } })).toContain(
      'todo_update unavailable (missing llm model): set services.llm.model',
    )
  })

  it('uses the model of the client if there is no other [CTX-17]', async () => {
    const { app, dir } = await startApp({ exposure: { mode: 'direct' } })
    const client = await connectTo(app, 'legacy', { capabilities: { sampling: {} } })
    client.setRequestHandler('sampling/createMessage', async () => ({
      role: 'assistant',
      model: 'theirs',
      content: { type: 'text', text: '{"status": "missing_reference_id"}' },
    }))
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('todo__todo_update')
    const { warnings } = answerOf(await client.callTool({ name: 'todo__todo_update', arguments: add }))
    expect(warnings).toEqual(['reference_unresolved_write_raw'])
    expect(readFileSync(join(dir, 'state/files/TODO.md'), 'utf8')).toContain('| Ask Bob for the invoice\n')
  })
})

describe('the files', () => {
  const handmade = `# TODO Work In Progress (WIP)

<!-- Entries look like this:
- [ ] [Created](2025-01-01 00:00) | an example
-->
Some words of mine.
- a line of mine

${two}
  a note below it
- [x] [Created](2025-01-01 00:00) | ticked by hand
`

  it('are parsed as people wrote them, ignoring examples in comments [MOR-27]', async () => {
    const template = handmade.replace(`${two}\n  a note below it\n`, '')
    const { client } = await rig([], { 'TODO.md': template })
    const shown = answerOf(await client.callTool({ name: 'todo__todo_list', arguments: { scope: 'both' } }))
    expect(shown).toEqual({ open_count: 0, done_count: 0, wip: [], done: [] })
  })

  it('keep foreign content when rewritten [MOR-27]', async () => {
    const { update, file } = await rig(
      [resolved('Ask Bob (tg:@bob_b)'), { keep: [0, 1] }, { status: 'matched', index: 1 }],
      { 'contacts/ACTIVE.md': CONTACTS, 'TODO.md': handmade },
    )
    expect((await update(add)).updated_counts).toEqual({ open_count: 2, done_count: 0 })
    const [head, ours] = handmade.split(two)
    const after = file('TODO.md').replace(/^---\n[\s\S]*?\n---\n/, '')
    expect(after.replace(/^- \[ \].*Ask Bob.*\n/m, '')).toBe(`${head}${two}${ours}`)
    expect(file('TODO.md')).toMatch(/^---\ncreated_at: "[^"]+"\nupdated_at: "[^"]+"\nopen_count: 2\n---\n# TODO/)
    // Notes move with their entry.
    await update({ action: 'complete', content: 'called' })
    expect(file('TODO.DONE.md')).toContain('| Call Ann Lee (tg:1001)\n  a note below it\n')
    expect(file('TODO.md')).not.toContain('a note below it')
  })

  it('keep their creation date, and front matter of other tools', async () => {
    const { update, file } = await rig([resolved('Ask Bob (tg:@bob_b)'), { keep: [0, 1] }], {
      'contacts/ACTIVE.md': CONTACTS,
      'TODO.md': WIP(one).replace('open_count', 'owner: ann\nopen_count'),
    })
    await update(add)
    expect(file('TODO.md')).toMatch(
      /^---\ncreated_at: "2026-01-01T00:00:00Z"\nowner: ann\nupdated_at: "(?!2026-01-01)[^"]+"\nopen_count: 2\n---\n/,
    )
  })

  it('are not written through a link or without a folder, and the setting is named', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'elsewhere'))
    symlinkSync(join(dir, 'elsewhere'), join(dir, 'link'))
    writeFileSync(join(dir, 'file'), '')
    for (const [name, words] of [
      ['link', 'The folder of the files is a symbolic link. Set modules.todo.config.file_state_dir'],
      ['file', 'The folder of the files is not writable. Check modules.todo.config.file_state_dir'],
    ]) {
      const { refusal } = await rig(
        [{ status: 'missing_reference_id' }],
        {},
        {
          modules: { todo: { config: { file_state_dir: join(dir, String(name)) } } },
        },
      )
      expect(await refusal(add)).toContain(words)
    }
    expect(readdirSync(join(dir, 'elsewhere'))).toEqual([])
  })

  it('lose nothing when two servers add twenty entries at once [MOR-27]', async () => {
    const model = await languageModel(({ user }) => {
      const { entry, entries } = JSON.parse(user)
      return entry === undefined
        ? { keep: entries.map(({ number }: Answer) => number) }
        : resolved(`${entry} (tg:1001)`)
    })
    const dir = temporaryFolder()
    const state = join(dir, 'state/files')
    mkdirSync(join(state, 'contacts'), { recursive: true })
    writeFileSync(join(state, 'contacts/ACTIVE.md'), CONTACTS)
    const settings = {
      exposure: { mode: 'direct' },
      services: model.settings,
      modules: { todo: { config: { file_state_dir: state } } },
    }
    const clients = await Promise.all(
      [dir, temporaryFolder()].map(async (home) => await connectTo((await startApp(settings, home)).app)),
    )
    const added = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        (clients[n % 2] as Client).callTool({
          name: 'todo__todo_update',
          arguments: { action: 'add', content: `entry ${n} for Ann`, people: ['Ann'] },
        }),
      ),
    )
    expect(added.filter((result) => !(result as Answer).structuredContent.ok)).toEqual([])
    const text = readFileSync(join(state, 'TODO.md'), 'utf8')
    const numbers = lines(text).map((line) => Number(/entry (\d+)/.exec(line)?.[1]))
    expect(numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, n) => n))
    expect(text).toContain('open_count: 20\n')
    expect(readdirSync(state).sort()).toEqual(['TODO.md', 'contacts'])
  })
})

describe('the lists as resources', () => {
  it.each(['legacy', 'modern'] as const)('can be read by a %s client that has the tool', async (era) => {
    const { app } = await rig([], { 'TODO.md': WIP(one) })
    const client = await connectTo(app, era)
    const uris = (await client.listResources()).resources.map(({ uri }) => uri)
    expect(uris.filter((uri) => uri.startsWith('todo:'))).toEqual(['todo://wip', 'todo://done'])
    const read = async (uri: string): Promise<Answer> => {
      const [content] = (await client.readResource({ uri })).contents as Answer[]
      expect(content).toMatchObject({ uri, mimeType: 'application/json' })
      return JSON.parse(content.text)
    }
    expect(await read('todo://wip')).toMatchObject({ open_count: 1, wip: [{ created_at: '2026-01-01 09:30' }] })
    expect(await read('todo://done')).toEqual({ open_count: 1, done_count: 0, done: [] })
  })

  it('are unknown to one without the tool', async () => {
    const { app } = await startApp({ exposure: { mode: 'direct' } })
    const client = await connectTo(app)
    expect((await client.listResources()).resources.map(({ uri }) => uri)).not.toContain('todo://wip')
    await expect(client.readResource({ uri: 'todo://wip' })).rejects.toThrow('not found')
    const denied = await rig([], {}, { policy: { deny: ['todo.todo_list'] } })
    await expect(denied.client.readResource({ uri: 'todo://wip' })).rejects.toThrow('not found')
  })
})

describe('the list', () => {
  const files = {
    'TODO.md': WIP(one, two),
    'TODO.DONE.md':
      '# TODO Done\n\n- [x] [Created](2026-01-01 07:00), [Done](2026-01-02 07:00), [ChatID](tg:5) | Buy paper\n',
  }

  it('shows open entries, finished ones, or both', async () => {
    const { client } = await rig([], files)
    const list = async (input: object) =>
      answerOf(await client.callTool({ name: 'todo__todo_list', arguments: input as Record<string, unknown> }))
    const wip = [
      { created_at: '2026-01-01 09:30', content: 'Ask Bob (tg:@bob_b) for the invoice' },
      { created_at: '2026-01-01 08:00', chat_id: 'tg:-1001234567890', content: 'Call Ann Lee (tg:1001)' },
    ]
    const done = [
      { created_at: '2026-01-01 07:00', done_at: '2026-01-02 07:00', chat_id: 'tg:5', content: 'Buy paper' },
    ]
    expect(await list({})).toEqual({ open_count: 2, done_count: 1, wip })
    expect(await list({ scope: 'done' })).toEqual({ open_count: 2, done_count: 1, done })
    expect(await list({ scope: 'both', limit: 1 })).toEqual({
      open_count: 2,
      done_count: 1,
      wip: wip.slice(0, 1),
      done,
    })
    expect(refusalOf(await client.callTool({ name: 'todo__todo_list', arguments: { scope: 'all' } }))).toContain(
      'invalid scope: all',
    )
  })
})
