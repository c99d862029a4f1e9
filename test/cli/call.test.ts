import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run } from '../../src/cli/run-command.ts'
import { LISTED } from '../listed-server.ts'
import { folder, pegboard, terminal } from './terminal.ts'

let at: ReturnType<typeof folder>

beforeAll(() => {
  at = folder({
    'mcp.config.json': {
      search: { embedder: 'none' },
      mcpServers: { box: { command: process.execPath, args: [LISTED, 'tools.json'] } },
    },
    'tools.json': {
      tools: [{ name: 'open', description: 'Opens the box.' }],
      answers: { open: { result: { isError: true, content: [{ type: 'text', text: 'Invalid arguments for open' }] } } },
    },
    'modules/shop.mjs': `export default {
      name: 'shop',
      description: 'A shop.',
      tools: {
        order: { description: 'Orders.', effect: 'write', run: () => { throw new Error('connect ECONNREFUSED') } },
        wait: { description: 'Waits.', effect: 'write', run: (_input, { signal }) =>
          new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))) },
      },
    }`,
  })
})
afterAll(() => at.remove())

describe('pegboard call', () => {
  const call = (...argv: string[]) => pegboard(at.dir, 'call', ...argv, '--config', 'mcp.config.json')

  it('advises commands, not tools, after an unknown name', async () => {
    expect(await call('frobnicate')).toEqual({
      code: 1,
      out: '',
      err: 'pegboard: E_NOT_FOUND: There is no tool "frobnicate". Find its name with pegboard --config mcp.config.json search or pegboard --config mcp.config.json list.\n',
    })
  })

  it('prints the hint for a failure without the name of its class', async () => {
    expect(await call('shop.order')).toEqual({
      code: 1,
      out: '',
      err: "pegboard: E_TOOL_FAILED: Tool 'shop.order' failed: connect ECONNREFUSED. Try again later, or use another tool. If you chose the address, check it.\n",
    })
  })

  it('prints the error of a server with the hint for it', async () => {
    expect(await call('mcp_box.open')).toEqual({
      code: 1,
      out: '',
      err: 'Invalid arguments for open\n[NOTICE] Correct the call as the message says.\n',
    })
  })

  it.each([
    { argv: [], err: 'pegboard: the call was cancelled; the tool may have done part of its work\n' },
    { argv: ['--json'], err: '' },
  ])('exits with 130 if a person cancels it $argv', async ({ argv, err: expected }) => {
    const { io, err, stop } = terminal(at.dir)
    const called = run(['call', 'shop.wait', '--config', 'mcp.config.json', ...argv], {
      ...io,
      beforeDropIns: () => void setTimeout(stop, 500),
    })
    expect(await called).toBe(130)
    expect(err()).toBe(expected)
  })
})
