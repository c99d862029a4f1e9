import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { expect, it, onTestFinished } from 'vitest'
import { type Answer, servers, temporaryFolder } from '../app.ts'

const RUN = join(import.meta.dirname, '../../bench/tasks/run.mjs')

it('a model behind an endpoint does a public task over its servers, and a judge checks the answer', async () => {
  const dir = temporaryFolder()
  writeFileSync(join(dir, 'pets.csv'), 'name,legs\nRex,4\n')
  const asked: Answer[] = []
  const call = (name: string, args: object) => ({
    choices: [{ message: { tool_calls: [{ id: 'c1', function: { name, arguments: JSON.stringify(args) } }] } }],
  })
  const say = (content: string) => ({ choices: [{ message: { content } }] })
  const server = createServer(async (request, response) => {
    const body = JSON.parse(await text(request))
    asked.push(body)
    const isJudge = body.model === 'judge'
    const answers = body.messages.filter(({ role }: Answer) => role === 'tool')
    const next = isJudge
      ? say('{"scores": [1]}')
      : answers.length === 0
        ? call('execute_tool', { name: 'mcp_files.read_text_file', params: { path: join(dir, 'pets.csv') } })
        : say(`Rex has ${/Rex,(\d)/.exec(answers[0].content)?.[1]} legs.`)
    response.end(JSON.stringify(next))
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await new Promise((resolve) => server.once('listening', resolve))

  const { command, args } = servers.filesystem('/data')
  writeFileSync(join(dir, 'servers.json'), JSON.stringify({ mcpServers: { files: { command, args } } }))
  writeFileSync(
    join(dir, 'tasks.csv'),
    `TASK,ENABLED_TOOLS,PROMPT,TRAJECTORY,GTFA_CLAIMS\nt1,[],How many legs has Rex in /data/pets.csv?,[],"['Rex has 4 legs.']"\n`,
  )
  const options = {
    public: 'mcp-atlas',
    from: join(dir, 'tasks.csv'),
    servers: join(dir, 'servers.json'),
    data: dir,
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    model: 'm',
    judge: 'judge',
    modes: 'discovery',
    json: join(dir, 'out.json'),
  }
  const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value])
  const { stdout } = await promisify(execFile)(process.execPath, [RUN, ...flags], {
    env: { PATH: process.env.PATH, HOME: dir, MODEL_KEY: 'k' },
  })
  expect(stdout).toContain('1 jobs of mcp-atlas over 1 servers')
  expect(stdout).toMatch(/discovery\s+1 of 1/)
  expect(asked[0].messages.at(-1).content).toBe(`How many legs has Rex in ${dir}/pets.csv?`)
  expect(asked.at(-1)).toMatchObject({ model: 'judge', messages: expect.any(Array) })
  expect(asked.at(-1).messages.at(-1).content).toContain('Answer: Rex has 4 legs.')
})
