import { expect, it, onTestFinished } from 'vitest'
import { run } from '../../src/cli/run-command.ts'
import { folder, terminal } from './terminal.ts'

it('without arguments, shows what to do next in a terminal', async () => {
  const { dir, remove } = folder({})
  onTestFinished(remove)
  const { io, out, err } = terminal(dir)
  expect(await run([], io)).toBe(0)
  expect(err()).toBe('')
  expect(out()).toMatch(/^Pegboard \d+\.\d+\.\d+\S*: one MCP server/)
  expect(out()).toContain('Configuration: none yet.')
  expect(out()).toMatch(/pegboard serve +Serve all tools over HTTP/)
})

it('without arguments, names the configuration of the user and asks nothing about that of a project', async () => {
  const { dir, remove } = folder({ 'mcp.config.json': {} })
  onTestFinished(remove)
  const { io, out, err } = terminal(dir)
  expect(await run([], io)).toBe(0)
  expect(out()).toContain('Configuration: mcp.config.json waits for your confirmation')
  expect(err()).toBe('')
})

it('without arguments and without a terminal, serves an MCP client', async () => {
  const { dir, remove } = folder({})
  onTestFinished(remove)
  const { io, input, output } = terminal(dir, false)
  const running = run([], io)
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
  input.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`)
  const answer = await new Promise<string>((resolve) => output.once('data', (data) => resolve(String(data))))
  expect(JSON.parse(answer)).toMatchObject({ id: 1, result: { serverInfo: { name: 'pegboard' } } })
  input.end()
  expect(await running).toBe(0)
})
