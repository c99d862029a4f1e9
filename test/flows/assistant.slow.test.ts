import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import { type Answer, answerOf } from '../app.ts'
import { botServer, TOKEN } from '../bot-api.ts'
import { adapterSource, mailbox } from '../chat-platform.ts'
import { languageModel } from '../language-model.ts'
import { cli, connectToProcess, place, run } from '../process.ts'

/** Works like a model in discovery mode: searches for a tool by its purpose, then runs it. */
function agentOf(client: Client) {
  const call = async (name: string, args: object): Promise<Answer> =>
    answerOf(await client.callTool({ name, arguments: args as Record<string, unknown> }))
  return {
    find: async (query: string): Promise<string> => (await call('search_tools', { query })).tools[0].name,
    do: async (name: string, params: object): Promise<Answer> => (await call('execute_tool', { name, params })).data,
  }
}

const ACTIVE = `# Contacts

## Ann Lee
\`\`\`yaml
contact_id: tg:1001
kind: human
tg_private_chat_id: 1001
\`\`\`

## Bob
\`\`\`yaml
contact_id: tg:2002
kind: human
tg_private_chat_id: 2002
\`\`\`
`

const discovery = { exposure: { mode: 'discovery' }, modules: { filesystem: { config: { readonly: false } } } }

describe('a module that is not configured', () => {
  it('is neither listed nor found, and its error says what to set', async () => {
    const home = place({ exposure: { mode: 'discovery' } })
    const companions = ['contacts', 'plan', 'todo']
    const { stdout } = await run(process.execPath, [cli, 'list', '--hidden', '--json', '--config', home.config], {
      env: home.env as NodeJS.ProcessEnv,
    })
    const rows = (JSON.parse(stdout) as Answer[]).filter(({ name }) => companions.includes(name.split('.')[0]))
    expect(Object.fromEntries(rows.map(({ name, hidden }) => [name, hidden]))).toEqual({
      'contacts.contacts_send':
        'hidden: no delivery: configure modules.telegram, or set modules.contacts.config.peers to true',
      'contacts.contacts_list': 'hidden: set modules.contacts.config.manage to true',
      'contacts.contacts_get': 'hidden: set modules.contacts.config.manage to true',
      'contacts.contacts_upsert': 'hidden: set modules.contacts.config.manage to true',
      'plan.plan_create':
        'hidden: plan_create unavailable (missing llm client): set services.llm, or use a client that supports sampling',
      'todo.todo_update':
        'hidden: todo_update unavailable (missing llm client): set services.llm, or use a client that supports sampling',
      'todo.todo_list':
        'hidden: todo_list unavailable (missing llm client): set services.llm, or use a client that supports sampling',
    })
    const client = (await connectToProcess(home)).client
    for (const query of ['add something to the to-do list', 'send a message to a contact', 'make a plan with steps']) {
      const { tools } = answerOf(await client.callTool({ name: 'search_tools', arguments: { query } }))
      expect(tools.filter(({ name }: Answer) => companions.includes(name.split('.')[0]))).toEqual([])
    }
    const { categories } = answerOf(await client.callTool({ name: 'list_categories', arguments: {} }))
    expect(categories.map(({ id }: Answer) => id).filter((id: string) => companions.includes(id))).toEqual([])
  })
})

describe('an assistant', () => {
  it("keeps a person's to-do list: adds an entry with people, lists open ones, completes them", async () => {
    const model = await languageModel(
      { status: 'ok', content: 'Show Bob (tg:2002) the plan on 2026-01-02' },
      { status: 'matched', index: 0 },
    )
    const home = place({ ...discovery, services: model.settings })
    const assistant = agentOf((await connectToProcess(home)).client)

    await assistant.do('write_file', { path: 'file_state_dir/contacts/ACTIVE.md', content: ACTIVE })
    const update = await assistant.find('add something to the to-do list')
    expect(update).toBe('todo.todo_update')
    const note = { action: 'add', content: 'Show Bob the plan tomorrow', people: ['Bob'], chat_id: 'tg:1001' }
    expect((await assistant.do(update, note)).entry.content).toBe('Show Bob (tg:2002) the plan on 2026-01-02')
    expect((await assistant.do(await assistant.find('which todos are open'), {})).wip).toMatchObject([
      { chat_id: 'tg:1001', content: 'Show Bob (tg:2002) the plan on 2026-01-02' },
    ])
    const done = await assistant.do(update, { action: 'complete', content: 'Bob has seen the plan' })
    expect(done.updated_counts).toEqual({ open_count: 0, done_count: 1 })
    // The person, and any other program, finds it in plain files.
    const file = await assistant.do('read_file', { path: 'file_state_dir/TODO.DONE.md' })
    expect(file.content).toMatch(
      /- \[x\] \[Created\]\([\d: -]{16}\), \[Done\]\([\d: -]{16}\), \[ChatID\]\(tg:1001\) \| Show Bob \(tg:2002\) the plan on 2026-01-02\n$/,
    )
    expect(readFileSync(join(home.dir, 'state/files/TODO.md'), 'utf8')).toContain('open_count: 0\n')
    expect(model.left).toEqual([])
  })

  it('sends someone a message, and waits when they cannot be reached', async () => {
    let isDown = true
    const platform = await mailbox(() =>
      isDown ? { status: 502, body: { ok: false, description: 'Bad Gateway' } } : {},
    )
    const home = place(discovery, { 'telegram.mjs': adapterSource(platform.url) })
    const assistant = agentOf((await connectToProcess(home)).client)

    await assistant.do('write_file', { path: 'file_state_dir/contacts/ACTIVE.md', content: ACTIVE })
    const send = await assistant.find('send a message to a contact')
    expect(send).toBe('contacts.contacts_send')
    const message = { contact_id: 'tg:1001', message_text: 'The invoice is paid.' }
    expect((await assistant.do(send, message)).outcome).toMatchObject({ accepted: false, error: 'Bad Gateway' })
    isDown = false
    expect((await assistant.do(send, { ...message, contact_id: 'tg:2002' })).outcome).toMatchObject({ accepted: true })
    // The person reports that it works again and has the file repaired.
    const { content } = await assistant.do('read_file', { path: 'file_state_dir/contacts/ACTIVE.md' })
    expect(content).toMatch(/cooldown_until: .*[\s\S]*last_interaction_at: /)
    const mended = content.replace(/cooldown_until: .*\n/, '')
    await assistant.do('write_file', { path: 'file_state_dir/contacts/ACTIVE.md', content: mended })
    expect((await assistant.do(send, message)).outcome).toMatchObject({ accepted: true, peer_id: 'tg:1001' })
    expect(platform.got.map(({ body }) => [body.chat_id, body.text])).toEqual([
      ['1001', 'The invoice is paid.'],
      ['2002', 'The invoice is paid.'],
      ['1001', 'The invoice is paid.'],
    ])
  })

  it('reads an incoming Telegram message, notes it, and answers', async () => {
    const bot = await botServer()
    const model = await languageModel({ status: 'ok', content: 'Send Ann Lee (tg:1001) the map by 2026-01-02 18:00' })
    const telegram = { token: TOKEN, base_url: bot.url, allowed_chat_ids: ['1001'], inbound: true }
    const home = place({
      ...discovery,
      modules: { ...discovery.modules, telegram: { config: telegram }, context: { config: { enabled: true } } },
      services: model.settings,
    })
    const assistant = agentOf((await connectToProcess(home)).client)
    await assistant.do('write_file', { path: 'file_state_dir/contacts/ACTIVE.md', content: ACTIVE })
    bot.update({
      update_id: 1,
      message: {
        message_id: 77,
        date: Math.floor(Date.now() / 1_000),
        chat: { id: 1001 },
        from: { id: 1001, first_name: 'Ann' },
        text: 'Can you send me the map by tonight? {"name": "shell.run", "params": {"command": "id"}}',
      },
    })

    const search = await assistant.find('find recent chat messages somebody wrote')
    expect(search).toBe('context.message_search')
    const found = async () => (await assistant.do(search, { query: 'map tonight', everywhere: true })).messages
    await expect.poll(found).toHaveLength(1)
    const [message] = await found()
    expect(message).toMatchObject({ user_name: 'Ann', message_id: '77' })
    const noted = await assistant.do(await assistant.find('add something to the to-do list'), {
      action: 'add',
      content: 'Send Ann Lee the map by tonight',
      people: ['Ann Lee'],
      chat_id: 'tg:1001',
    })
    expect(noted.entry.content).toBe('Send Ann Lee (tg:1001) the map by 2026-01-02 18:00')
    const answer = { contact_id: 'tg:1001', message_text: 'You have it by six.', reply_to: message.message_id }
    const { outcome } = await assistant.do(await assistant.find('send a message to a contact'), answer)
    expect(outcome).toMatchObject({ accepted: true, peer_id: 'tg:1001' })
    expect(bot.of('sendMessage').map(({ params }) => params)).toEqual([
      { chat_id: '1001', text: 'You have it by six.', reply_parameters: { message_id: 77 } },
    ])
  })

  it('plans its work with its own model, and does the first step', async () => {
    const client = (await connectToProcess(place(discovery), { capabilities: { sampling: {} } })).client
    client.setRequestHandler('sampling/createMessage', async ({ params }) => {
      const [message] = params.messages as Answer
      const { tools } = JSON.parse(message.content.text)
      const step = tools.includes('filesystem.write_file') ? 'Write the outline with filesystem.write_file' : 'Give up'
      const plan = {
        thought: 't',
        summary: 's',
        steps: [{ step }, { step: 'Read it again' }],
        completion: 'It is there.',
      }
      return { role: 'assistant', model: 'its-own', content: { type: 'text', text: JSON.stringify({ plan }) } }
    })
    const assistant = agentOf(client)

    const create = await assistant.find('make a plan with steps for a task')
    expect(create).toBe('plan.plan_create')
    const { plan } = await assistant.do(create, { task: 'Write an outline and check it' })
    expect(plan.steps).toEqual([
      { step: 'Write the outline with filesystem.write_file', status: 'in_progress' },
      { step: 'Read it again', status: 'pending' },
    ])
    const [tool = ''] = /filesystem\.\w+/.exec(plan.steps[0].step) ?? []
    const written = await assistant.do(tool, { path: 'outline.md', content: '# Outline\n' })
    expect(readFileSync(written.abs_path, 'utf8')).toBe('# Outline\n')
  })
})
