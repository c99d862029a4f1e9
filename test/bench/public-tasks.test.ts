import { expect, it } from 'vitest'

interface Job {
  readonly id: string
  readonly request: string
  readonly steps: readonly { readonly tool: string }[]
  check(folder: undefined, result: unknown, said: string): Promise<boolean>
}
interface PublicTasks {
  readPublicJobs(format: string, text: string, options: { data?: string; model?: object }): readonly Job[]
  readServers(
    format: string,
    text: string,
    options: { data?: string; env: object },
  ): { servers: Record<string, object>; left: readonly string[] }
}
// The benchmarks are plain JavaScript without declarations.
const { readPublicJobs, readServers } = (await import(
  String(new URL('../../bench/tasks/public-tasks.mjs', import.meta.url))
)) as PublicTasks

/** Made up, in the format of the public file. */
const LIVE = JSON.stringify([
  {
    task_id: 'a-1',
    Question: 'Which line of /root/txt/log.txt is the last one?',
    answers: 'line 7',
    category: 'Office',
    file_name: 'log.txt',
    'Annotator Metadata': {
      Steps: '1. read the file.\n2. take the last line.',
      'Number of steps': '2',
      Tools: '1. read_file\n2. tail',
      'Number of tools': '2',
    },
  },
])

const ATLAS = [
  'TASK,ENABLED_TOOLS,PROMPT,TRAJECTORY,GTFA_CLAIMS',
  `b1,"[""files_read""]","Read /data/My File.csv, please.
It has ""two"" columns.","[{""role"":""assistant"",""tool_calls"":[{""function"":{""name"":""files_read"",""arguments"":""{}""}},{""function"":{""name"":""files_read"",""arguments"":""{}""}}]},{""role"":""tool"",""content"":[]}]","['It has two columns.', ""The owner's name is Ann."", 'A\\'s\\nB']"`,
  'b2,[],No trajectory,,',
  '',
].join('\r\n')

/** A judge that answers with these scores, and remembers what it was asked. */
function judgeOf(scores: readonly unknown[]) {
  const asked: string[] = []
  const open = (request: string) => {
    asked.push(request)
    const chat = { said: '', next: async () => [] as never[] }
    chat.next = async () => {
      chat.said = `Sure: ${JSON.stringify({ scores })}`
      return []
    }
    return chat
  }
  return { asked, open }
}

it('tasks of LiveMCPBench become jobs that a judge checks as a whole', async () => {
  const model = judgeOf([1, 1, 0.5])
  const [job] = readPublicJobs('livemcpbench', LIVE, { data: '/tmp/live', model })
  expect(job).toMatchObject({
    id: 'a-1',
    request: 'Which line of /tmp/live/txt/log.txt is the last one?\nThe file is log.txt.',
    steps: [{ tool: 'read_file' }, { tool: 'tail' }],
  })
  expect(await job?.check(undefined, undefined, 'It is line 7.')).toBe(false)
  expect(model.asked[0]).toContain('Answer: It is line 7.')
  expect(model.asked[0]).toContain('1. The answer is: line 7\n2. read the file.\n3. take the last line.')
  const [again] = readPublicJobs('livemcpbench', LIVE, { model: judgeOf([1, 1, 1]) })
  expect(again?.request).toContain('/root/txt/log.txt')
  expect(await again?.check(undefined, undefined, 'line 7')).toBe(true)
})

it('tasks of MCP-Atlas become jobs that need three quarters of their claims', async () => {
  const model = judgeOf([1, 1, 0.5])
  const [job, other] = readPublicJobs('mcp-atlas', ATLAS, { data: '/tmp/atlas', model })
  expect(job).toMatchObject({
    id: 'b1',
    request: 'Read /tmp/atlas/My File.csv, please.\nIt has "two" columns.',
    steps: [{ tool: 'files_read' }],
  })
  expect(await job?.check(undefined, undefined, 'two, Ann')).toBe(true)
  expect(model.asked[0]).toContain("1. It has two columns.\n2. The owner's name is Ann.\n3. A's\nB")
  expect(other).toMatchObject({ id: 'b2', request: 'No trajectory', steps: [] })
  const [strict] = readPublicJobs('mcp-atlas', ATLAS, { model: judgeOf([1, 'yes']) })
  expect(await strict?.check(undefined, undefined, 'two')).toBe(false)
})

it('tasks of MCP-Atlas are also read from JSON lines', () => {
  const row = { TASK: 'c1', PROMPT: 'Go', ENABLED_TOOLS: ['x'], TRAJECTORY: [], GTFA_CLAIMS: ['It went.'] }
  expect(readPublicJobs('mcp-atlas', `${JSON.stringify(row)}\n`, {})).toMatchObject([{ id: 'c1', request: 'Go' }])
})

it('servers whose variables are not set are left out and named', () => {
  const config = JSON.stringify({
    comment: 'x',
    mcpServers: {
      files: { command: 'npx', args: ['server-filesystem', '/data'] },
      'Asset Price MCP': { command: 'npx', args: ['-k', '${PRICE_KEY}'] },
      mail: { command: 'npx', env: { TOKEN: '${MAIL_TOKEN}', SECRET: '${MAIL_SECRET}' } },
    },
  })
  expect(readServers('mcp-atlas', config, { data: '/tmp/atlas', env: { PRICE_KEY: 'k1' } })).toEqual({
    servers: {
      files: { command: 'npx', args: ['server-filesystem', '/tmp/atlas'] },
      'Asset-Price-MCP': { command: 'npx', args: ['-k', 'k1'] },
    },
    left: ['mail (MAIL_TOKEN, MAIL_SECRET)'],
  })
})
