import { describe, expect, it } from 'vitest'
import plan from '../../modules/plan/index.ts'
import { type Answer, answerOf, startApp } from '../app.ts'
import { connectTo } from '../client.ts'
import { keepsTheContract } from '../contract/module.ts'
import { languageModel, type Reply } from '../language-model.ts'

keepsTheContract(plan)

async function rig(replies: readonly Reply[], settings: Record<string, unknown> = {}) {
  const model = await languageModel(...replies)
  const { app } = await startApp({ exposure: { mode: 'direct' }, services: model.settings, ...settings })
  const client = await connectTo(app)
  const call = (input: object) =>
    client.callTool({ name: 'plan__plan_create', arguments: input as Record<string, unknown> })
  return {
    model,
    client,
    plan: async (input: object): Promise<Answer> => answerOf(await call(input)).plan,
    async refusal(input: object): Promise<string> {
      const { isError, content } = (await call(input)) as Answer
      expect(isError).toBe(true)
      return content[0].text
    },
  }
}

const steps = (count: number) => Array.from({ length: count }, (_, n) => ({ step: `do ${n + 1}`, status: 'pending' }))

describe('a plan', () => {
  it('has the requested number of steps, with defaults filled in [MOR-40]', async () => {
    const reply = {
      plan: {
        thought: 'First things first.',
        summary: 'Nine things.',
        steps: [
          { step: 'look', status: '' },
          { step: ' ', status: '' },
          { step: 'write', status: 'blocked' },
          { step: 'check', status: 'completed' },
          ...steps(5),
        ],
        risks: ['rain'],
        questions: [],
        completion: 'It is done.',
      },
    }
    const { plan, model } = await rig([reply])
    expect(await plan({ task: 'Build a shed', max_steps: 4, style: 'terse' })).toEqual({
      thought: 'First things first.',
      summary: 'Nine things.',
      steps: [
        { step: 'look', status: 'in_progress' },
        { step: 'step 2', status: 'pending' },
        { step: 'write', status: 'pending' },
        { step: 'check', status: 'completed' },
      ],
      risks: ['rain'],
      questions: [],
      completion: 'It is done.',
    })
    const asked = JSON.parse(model.asked[0]?.user ?? '')
    expect(asked).toMatchObject({ task: 'Build a shed', max_steps: 4, style: 'terse' })
    expect(asked.tools).toContain('filesystem.read')
    expect(model.asked[0]?.body).toMatchObject({ model: 'scripted', response_format: { type: 'json_object' } })
  })

  it.each([
    [{}, 6],
    [{ max_steps: 0 }, 6],
    [{ max_steps: -2 }, 6],
    [{ max_steps: 2 }, 2],
  ])('requested with %j has at most %i [MOR-40]', async (input, count) => {
    const { plan, model } = await rig([{ steps: steps(9) }])
    expect((await plan({ task: 'x', ...input })).steps).toHaveLength(count)
    expect(JSON.parse(model.asked[0]?.user ?? '').max_steps).toBe(count)
  })

  it('uses the configured model and length', async () => {
    const { plan, model } = await rig([{ steps: ['pack', 'go', 'come back'] }], {
      modules: { plan: { config: { max_steps: 2 } } },
    })
    expect((await plan({ task: 'x', model: 'large' })).steps).toEqual([
      { step: 'pack', status: 'in_progress' },
      { step: 'go', status: 'pending' },
    ])
    expect(model.asked[0]?.body.model).toBe('large')
  })

  it("knows the caller's tools only [MOR-40]", async () => {
    const { plan, model } = await rig([{ steps: ['x'] }], {
      policy: { deny: ['filesystem.*'] },
      modules: { shell: { config: { enabled: true, allowed_commands: ['git'] } } },
    })
    await plan({ task: 'x' })
    const { tools } = JSON.parse(model.asked[0]?.user ?? '')
    expect(tools).toContain('shell.run')
    expect(tools.filter((name: string) => name.startsWith('filesystem.') || name === 'plan.plan_create')).toEqual([])
  })

  it('may arrive in a code fence, and is rejected if it is not a plan [MOR-41]', async () => {
    const { plan, refusal } = await rig([
      '```json\n{"plan": {"steps": ["one"]}}\n```',
      'I would begin with the roof.',
      { plan: { steps: [] } },
      [1],
    ])
    expect((await plan({ task: 'x' })).steps).toEqual([{ step: 'one', status: 'in_progress' }])
    for (let n = 0; n < 3; n++) expect(await refusal({ task: 'x' })).toContain('invalid plan_create response')
  })

  it('needs a task', async () => {
    const { refusal, model } = await rig([])
    expect(await refusal({})).toContain('missing required param: task')
    expect(await refusal({ task: ' ' })).toContain('missing required param: task')
    expect(model.asked).toEqual([])
  })

  it("needs a language model, preferably the client's, and otherwise says what is missing [MOR-41, CTX-17]", async () => {
    const { app } = await startApp({ exposure: { mode: 'direct' } })
    const without = await connectTo(app)
    expect((await without.listTools()).tools.map(({ name }) => name)).not.toContain('plan__plan_create')
    const refused = (await without.callTool({ name: 'plan_create', arguments: { task: 'x' } })) as Answer
    expect(refused.isError).toBe(true)
    expect(refused.content[0].text).toContain('plan_create unavailable (missing llm client): set services.llm')

    const model = await languageModel({ steps: ['from the endpoint'] })
    const both = await startApp({ exposure: { mode: 'direct' }, services: model.settings })
    const lends = await connectTo(both.app, 'modern', { capabilities: { sampling: {} } })
    const asked: Answer[] = []
    lends.setRequestHandler('sampling/createMessage', async ({ params }) => {
      asked.push(params)
      return { role: 'assistant', model: 'theirs', content: { type: 'text', text: '{"steps": ["from the client"]}' } }
    })
    const first = async (client: typeof lends): Promise<string> =>
      answerOf(await client.callTool({ name: 'plan__plan_create', arguments: { task: 'x', model: 'large' } })).plan
        .steps[0].step
    expect(await first(lends)).toBe('from the client')
    expect(asked[0].modelPreferences).toEqual({ hints: [{ name: 'large' }] })
    expect(model.asked).toEqual([])
    expect(await first((await connectTo(both.app)) as typeof lends)).toBe('from the endpoint')
  })
})
