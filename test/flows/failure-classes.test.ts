import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { toPrometheusText } from '../../src/observe/prometheus.ts'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'

/** A server whose tool fails with the given text, and claims another class. */
const FAILS = `
const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (method === 'initialize')
    send({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } } })
  else if (method === 'tools/list')
    send({ id, result: { tools: [{ name: 'pods', description: 'Lists pods.', inputSchema: { type: 'object', properties: { text: { type: 'string' } } } }] } })
  else if (method === 'tools/call')
    send(params.arguments.text.startsWith('rpc ')
      ? { id, error: { code: -32603, message: params.arguments.text.slice(4) } }
      : { id, result: {
        isError: true,
        content: [{ type: 'text', text: params.arguments.text }],
        _meta: { 'pegboard/failure': { class: 'rate', retryable: true }, theirs: 1 },
      } })
  else if (id !== undefined) send({ id, error: { code: -32601, message: 'no' } })
})`

const SHOP = `export default { name: 'shop', description: 'A shop.', tools: {
  order: { description: 'Orders.', effect: 'write', run: () => { throw new Error('connect ECONNREFUSED') } },
  check: { description: 'Checks.', effect: 'read', run: () => { throw new Error('the moon is full') } },
} }`

const k8s = { command: process.execPath, args: ['-e', FAILS], start: 'eager' }

async function opened(settings: object = {}) {
  const started = await startApp({ exposure: { mode: 'direct' }, mcpServers: { k8s }, ...settings })
  await started.app.settled(20_000)
  const client = await connectTo(started.app, 'legacy')
  const call = async (name: string, params: object = {}): Promise<Answer> =>
    client.callTool({ name, arguments: { ...params } })
  return { ...started, client, call }
}

describe('a failure that a server returns', () => {
  it('keeps its content, and gets its class and the hint for it', async () => {
    const { call, client } = await opened()
    const { content, _meta, isError } = await call('k8s__pods', { text: 'dial tcp 10.0.0.1:6443: connection refused' })
    expect(isError).toBe(true)
    expect(content).toEqual([
      { type: 'text', text: 'dial tcp 10.0.0.1:6443: connection refused' },
      {
        type: 'text',
        text: '[NOTICE] Class network: Try again later, or use another tool. If you chose the address, check it.',
        _meta: { 'pegboard/notice': true },
      },
    ])
    expect(_meta).toEqual({ theirs: 1, 'pegboard/failure': { class: 'network', retryable: true } })
    await client.close()
  })

  it('gets no class if nothing tells, and cannot claim one', async () => {
    const { call, client } = await opened()
    const { content, _meta } = await call('k8s__pods', { text: 'the moon is full' })
    expect([content, _meta]).toEqual([[{ type: 'text', text: 'the moon is full' }], { theirs: 1 }])
    await client.close()
  })

  it('gets the signature of the tool through execute_tool only if the arguments are wrong', async () => {
    const { call, client } = await opened()
    const signed = async (text: string): Promise<string[]> =>
      (await call('execute_tool', { name: 'mcp_k8s.pods', params: { text } })).content.map((one: Answer) => one.text)
    expect(await signed('Invalid arguments for tool pods')).toEqual([
      'Invalid arguments for tool pods',
      '[NOTICE] Class argument: Correct the call as the message says.',
      'Signature: mcp_k8s.pods(text?: str)',
    ])
    expect(await signed('kubeconfig required but the cluster is unreachable')).toHaveLength(2)
    await client.close()
  })

  it('as a JSON-RPC error is an error with the class, in a parallel call too', async () => {
    const { call, client } = await opened()
    const params = { text: 'rpc Executable doesn’t exist at /usr/bin/chrome. Run npx playwright install' }
    const { structuredContent } = await call('execute_tool', { name: 'mcp_k8s.pods', params })
    expect(structuredContent.error).toMatchObject({
      code: 'E_TOOL_FAILED',
      class: 'server_setup',
      hint: 'Class server_setup: Tell the operator what the server lacks, or use another tool.',
      retryable: false,
    })
    const several = await call('run_parallel', { actions: [{ name: 'mcp_k8s.pods', params }] })
    expect(several.structuredContent.results[0].error).toContain('Class server_setup: Tell the operator')
    await client.close()
  })

  it('is in the audit log and the metrics with its class', async () => {
    const { call, client, dir, app } = await opened({ audit: { enabled: true }, telemetry: { prometheus: true } })
    await call('k8s__pods', { text: 'HTTP 429: slow down' })
    await client.close()
    const metrics = toPrometheusText((await app.server.metrics?.collect()) ?? [])
    expect(metrics).toContain('pegboard_failures_total{class="rate"} 1')
    await app.stop()
    const lines = readFileSync(join(dir, 'state/audit.jsonl'), 'utf8').trim().split('\n')
    expect(lines.map((line) => JSON.parse(line)).find(({ tool }) => tool === 'mcp_k8s.pods')).toMatchObject({
      outcome: 'error',
      class: 'rate',
    })
  })
})

describe('a failure of a module', () => {
  it('gets the class of its message, or the hint that blames nothing', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(join(dir, 'modules/shop.mjs'), SHOP)
    const { app } = await startApp({ exposure: { mode: 'direct' } }, dir)
    const client = await connectTo(app, 'legacy')
    const textOf = async (name: string): Promise<string> =>
      ((await client.callTool({ name, arguments: {} })) as Answer).content[0].text
    expect(await textOf('shop__order')).toBe(
      "E_TOOL_FAILED: Tool 'shop.order' failed: connect ECONNREFUSED. Class network: Try again later, or use another tool. If you chose the address, check it.",
    )
    expect(await textOf('shop__check')).toBe(
      "E_TOOL_FAILED: Tool 'shop.check' failed: the moon is full. Read the message before you call the tool again, or use another tool.",
    )
    await client.close()
  })
})

describe('a call of a server that is not connected', () => {
  it.each([
    ['network', { url: 'http://127.0.0.1:9/mcp' }, /ECONNREFUSED/],
    ['server_setup', { command: 'no-such-program-42' }, /command not found/],
    [
      'login',
      { command: process.execPath, args: ['-e', 'console.error("GITHUB_TOKEN is not set"); process.exit(1)'] },
      /GITHUB_TOKEN/,
    ],
    ['server_setup', { command: process.execPath, args: ['-e', 'process.exit(3)'] }, /exited with code 3/],
  ])('has the class %s', async (failure, server, reason) => {
    const { app } = await startApp({ mcpServers: { hub: { ...server, start: 'eager' } } })
    const client = await connectTo(app, 'legacy')
    const { structuredContent } = (await client.callTool({
      name: 'execute_tool',
      arguments: { name: 'mcp_hub.list', params: {} },
    })) as Answer
    expect(structuredContent.error).toMatchObject({
      code: 'E_UPSTREAM_UNAVAILABLE',
      class: failure,
      message: expect.stringMatching(reason),
      retryable: failure === 'network',
    })
    expect(structuredContent.error.hint).not.toMatch(/argument/)
    await client.close()
  })
})
