import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { answerOf, serveAppOverHttp, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'
import { type Collector, type Span, startCollector } from '../collector.ts'
import { cli, place, run } from '../process.ts'

const shop = `export default {
  name: 'shop', description: 'Sells.',
  tools: {
    buy: { description: 'Buys something for somebody, at once.', effect: 'write', input: { type: 'object', properties: { what: { type: 'string' } } }, run: ({ what }) => ({ bought: what ?? null }) },
    fail: { description: 'Always fails, whatever it is given.', effect: 'read', input: { type: 'object', properties: { secret: { type: 'string' } } }, run: () => { throw new Error('no: canary-in-error') } },
    both: { description: 'Buys by calling the other tool of this.', effect: 'write', run: async (_in, ctx) => (await ctx.call('shop.buy', { what: 'canary-inner' })).value },
  },
}`

const modern = {
  command: 'node',
  args: [join(import.meta.dirname, '..', 'fixtures', 'upstreams', 'modern.mjs')],
}
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'
/** The error for an address that refuses connections; on a busy machine the one-second limit comes first. */
const LOST = /ECONNREFUSED|the collector did not answer within 1 s/
const traceparent = `00-${TRACE}-${PARENT}-01`

async function tracedApp(collector: Collector, settings: Record<string, unknown> = {}, telemetry: object = {}) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules', 'shop.mjs'), shop)
  const made = await startApp(
    {
      exposure: { mode: 'direct' },
      mcpServers: { far: modern },
      telemetry: { traces: true, endpoint: collector.url, ...telemetry },
      ...settings,
    },
    dir,
  )
  await made.app.settled(60_000)
  return made
}

const byName = (spans: readonly Span[], name: string): Span => {
  const span = spans.find((one) => one.name === name)
  if (!span) throw new Error(`no span ${name} among ${spans.map((one) => one.name).join(', ')}`)
  return span
}

describe('traces', () => {
  it.each(['modern', 'legacy'] as const)(
    'of a %s client continue its own trace to the upstream server',
    async (era) => {
      const collector = await startCollector()
      const { app } = await tracedApp(collector)
      const client = await connectTo(app, era)
      const answer = await client.callTool({
        name: 'far__get_meta',
        arguments: {},
        _meta: { traceparent, tracestate: 'vendor=1', baggage: 'a=b' },
      })
      await client.close()
      await app.stop()
      await collector.received()
      const [request, call, upstream] = [
        'tools/call far__get_meta',
        'execute_tool mcp_far.get_meta',
        'tools/call get_meta',
      ].map((name) => byName(collector.spans, name)) as [Span, Span, Span]
      expect([request, call, upstream].map(({ kind, traceId, parentSpanId }) => [kind, traceId, parentSpanId])).toEqual(
        [
          [2, TRACE, PARENT],
          [1, TRACE, request.spanId],
          [3, TRACE, call.spanId],
        ],
      )
      expect(request.attributes).toMatchObject({
        'mcp.method.name': 'tools/call',
        'gen_ai.tool.name': 'far__get_meta',
      })
      expect(call.attributes).toMatchObject({
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': 'mcp_far.get_meta',
        'gen_ai.tool.call.id': expect.stringMatching(/^[0-9a-f-]{36}$/),
      })
      expect(upstream.attributes).toMatchObject({ 'pegboard.server': 'far', 'network.transport': 'pipe' })
      expect(answerOf(answer).meta).toMatchObject({
        traceparent: `00-${TRACE}-${upstream.spanId}-01`,
        tracestate: 'vendor=1',
        baggage: 'a=b',
      })
      expect(collector.resource()).toMatchObject({ 'service.name': 'pegboard' })
    },
  )

  it.each(['modern', 'legacy'] as const)('of a %s client include its lists and searches', async (era) => {
    const collector = await startCollector()
    const { app } = await tracedApp(collector)
    const client = await connectTo(app, era)
    await client.callTool({ name: 'search_tools', arguments: { query: 'buys' } })
    await client.callTool({ name: 'get_tool', arguments: { name: 'shop.buy' } })
    await client.listTools({ _meta: { traceparent } })
    await client.close()
    await app.stop()
    await collector.received()
    const list = byName(collector.spans, 'tools/list')
    expect([list.kind, list.traceId, list.parentSpanId, list.attributes]).toEqual([
      2,
      TRACE,
      PARENT,
      expect.objectContaining({ 'mcp.method.name': 'tools/list' }),
    ])
    for (const name of ['search_tools', 'get_tool'])
      expect(byName(collector.spans, `tools/call ${name}`).attributes).toMatchObject({ 'gen_ai.tool.name': name })
  })

  it('continue from HTTP headers, which are not sent to addresses that a tool fetches', async () => {
    const collector = await startCollector()
    const heard: IncomingHttpHeaders[] = []
    const site = createServer((request, response) => {
      heard.push(request.headers)
      response.end('hello')
    }).listen(0, '127.0.0.1')
    await once(site, 'listening')
    const { app } = await tracedApp(collector, {
      modules: { http: { config: { access: 'read', allow_private_hosts: true } } },
    })
    const http = await serveAppOverHttp(app)
    onTestFinished(async () => {
      await http.close()
      site.close()
    })
    const url = `http://127.0.0.1:${(site.address() as AddressInfo).port}/page`
    const response = await fetch(new URL('/mcp', http.url), {
      method: 'POST',
      headers: {
        traceparent,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': 'http__get',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: {
          name: 'http__get',
          arguments: { url },
          _meta: {
            'io.modelcontextprotocol/protocolVersion': '2026-07-28',
            'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      }),
    })
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('hello')])
    await app.stop()
    await collector.received()
    const request = byName(collector.spans, 'tools/call http__get')
    expect([request.traceId, request.parentSpanId]).toEqual([TRACE, PARENT])
    expect(heard).toHaveLength(1)
    expect(JSON.stringify(heard)).not.toContain(TRACE)
    expect(Object.keys(heard[0] ?? {}).filter((name) => name.startsWith('trace'))).toEqual([])
  })

  it('start anew if clients are not trusted, and are not passed to servers if disabled', async () => {
    const collector = await startCollector()
    const { app } = await tracedApp(collector, { server: { trustMeta: 'none' } }, { propagate: false })
    const client = await connectTo(app, 'modern')
    const answer = await client.callTool({ name: 'far__get_meta', arguments: {}, _meta: { traceparent } })
    await client.close()
    await app.stop()
    await collector.received()
    const request = byName(collector.spans, 'tools/call far__get_meta')
    expect(request.traceId).not.toBe(TRACE)
    expect(request.parentSpanId).toBeUndefined()
    expect(answerOf(answer).meta).not.toHaveProperty('traceparent')
  })

  it('contain calls made by tools, error codes and searches, and no content', async () => {
    const collector = await startCollector()
    const { app } = await tracedApp(collector, { audit: { enabled: true } })
    const client = await connectTo(app)
    await client.callTool({ name: 'shop__both', arguments: {} })
    await client.callTool({ name: 'shop__fail', arguments: { secret: 'canary-in-arguments' } })
    await callTool(client, { name: 'canary-in-a-name', arguments: {} })
    await client.callTool({ name: 'search_tools', arguments: { query: 'canary-in-a-query' } })
    await client.close()
    await app.stop()
    await collector.received()
    const { spans } = collector
    const [both, inner] = [byName(spans, 'execute_tool shop.both'), byName(spans, 'execute_tool shop.buy')]
    expect([inner.traceId, inner.parentSpanId]).toEqual([both.traceId, both.spanId])
    const failed = byName(spans, 'execute_tool shop.fail')
    expect([failed.attributes['error.type'], failed.status?.code]).toEqual(['E_TOOL_FAILED', 2])
    expect(byName(spans, 'tools/call').attributes['error.type']).toBe('E_NOT_FOUND')
    const search = byName(spans, 'search')
    expect(search.parentSpanId).toBe(byName(spans, 'tools/call search_tools').spanId)
    expect(collector.text()).not.toContain('canary')
  })

  it('are sampled as the client decided, otherwise at the configured rate', async () => {
    const collector = await startCollector()
    const { app } = await tracedApp(collector, {}, { sampling: 0 })
    const client = await connectTo(app)
    await client.callTool({ name: 'shop__buy', arguments: {} })
    await client.callTool({ name: 'shop__fail', arguments: {}, _meta: { traceparent } })
    await client.callTool({ name: 'shop__both', arguments: {}, _meta: { traceparent: 'not a trace' } })
    await client.close()
    await app.stop()
    await collector.received()
    expect(collector.spans.map(({ name }) => name).sort()).toEqual(['execute_tool shop.fail', 'tools/call shop__fail'])
  })

  it('are named in the audit log', async () => {
    const collector = await startCollector()
    const { app, dir } = await tracedApp(collector, { audit: { enabled: true } })
    const client = await connectTo(app)
    await client.callTool({ name: 'shop__buy', arguments: {}, _meta: { traceparent } })
    await client.close()
    await app.stop()
    const { readFileSync } = await import('node:fs')
    expect(JSON.parse(readFileSync(join(dir, 'state', 'audit.jsonl'), 'utf8'))).toMatchObject({ traceId: TRACE })
  })
})

describe('metrics', () => {
  it('are exported with conventional names', async () => {
    const collector = await startCollector()
    const { app } = await tracedApp(collector, {}, { traces: false, metrics: true })
    const client = await connectTo(app)
    await client.callTool({ name: 'shop__buy', arguments: {} })
    await client.callTool({ name: 'shop__fail', arguments: {} })
    await client.callTool({ name: 'far__get_meta', arguments: {} })
    await client.close()
    await app.stop()
    await collector.received()
    expect(collector.spans).toEqual([])
    const { metrics } = collector
    expect(metrics.get('pegboard.calls')?.points.map(({ attributes, asDouble }) => [attributes, asDouble])).toEqual([
      [{ tool: 'shop.buy', outcome: 'ok' }, 1],
      [{ tool: 'shop.fail', outcome: 'E_TOOL_FAILED' }, 1],
      [{ tool: 'mcp_far.get_meta', outcome: 'ok' }, 1],
    ])
    expect(metrics.get('mcp.server.operation.duration')).toMatchObject({
      unit: 's',
      points: [
        { attributes: { 'mcp.method.name': 'tools/call' }, count: 2 },
        { attributes: { 'mcp.method.name': 'tools/call', 'error.type': 'E_TOOL_FAILED' }, count: 1 },
      ],
    })
    expect(metrics.get('mcp.client.operation.duration')?.points[0]?.attributes).toEqual({
      'pegboard.server': 'far',
      'mcp.method.name': 'tools/call',
    })
  })
})

describe('shutdown', () => {
  /** Ends after a call with a collector at this address. Returns what it logs. */
  async function endOf(url: string) {
    const { app, logged } = await tracedApp({ url } as Collector, { mcpServers: {} }, { metrics: true })
    const client = await connectTo(app)
    await client.callTool({ name: 'shop__buy', arguments: {} })
    await client.close()
    await app.stop()
    return logged.map((line) => JSON.parse(line)).filter(({ message }) => /telemetry/.test(message))
  }

  it('reports what was lost if the collector refuses connections', async () => {
    const told = await endOf('http://127.0.0.1:9')
    const error = expect.stringMatching(LOST)
    expect(told).toMatchObject([{ level: 'error', message: 'cannot send telemetry', error }])
  })

  it('waits a second for a collector that does not answer, and reports what was lost', async () => {
    const { port } = await silent()
    const told = await endOf(`http://127.0.0.1:${port}`)
    expect(told).toMatchObject([
      { level: 'error', message: 'cannot send telemetry', error: 'the collector did not answer within 1 s' },
    ])
  })

  it('reports what the collector rejected', async () => {
    const { port } = await silent((_request, response) => response.writeHead(400).end('no'))
    const told = await endOf(`http://127.0.0.1:${port}`)
    const refused = { level: 'error', error: expect.stringContaining('Bad Request') }
    expect(told).toMatchObject(told.map(() => refused))
    expect(told).not.toEqual([])
  })
})

/** A collector that accepts everything silently, unless told otherwise. */
async function silent(answer: RequestListener = () => undefined): Promise<AddressInfo> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  await once(server, 'listening')
  return server.address() as AddressInfo
}

describe('a process', () => {
  const settings = { exposure: { mode: 'direct' }, telemetry: { traces: true } }

  it('exports to the address and name in the standard variables', async () => {
    const collector = await startCollector()
    const { dir, config, env } = place(settings, { 'shop.mjs': shop })
    await run(process.execPath, [cli, 'call', 'shop.buy', '{}', '--config', config], {
      cwd: dir,
      env: {
        ...env,
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=ann',
        OTEL_SERVICE_NAME: 'front',
        OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
      },
    })
    expect(collector.spans.map(({ name }) => name)).toContain('execute_tool shop.buy')
    expect(collector.resource()).toMatchObject({ 'service.name': 'front', 'deployment.environment.name': 'test' })
    expect(collector.headers()['x-tenant']).toBe('ann')
  })

  it.each([[], ['--verbose']])('works normally without a collector, and reports it once %j', async (...more) => {
    const { dir, config, env } = place(settings, { 'shop.mjs': shop })
    const { stdout, stderr } = await run(
      process.execPath,
      [cli, 'call', 'shop.buy', '{"what":"x"}', '--config', config, '--json', ...more],
      { cwd: dir, env: { ...env, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:9' } },
    )
    expect(stdout).toContain('"bought"')
    expect(stderr.match(/cannot send telemetry/g)).toHaveLength(1)
    expect(stderr).toMatch(LOST)
  })

  it('exports nothing with OTEL_SDK_DISABLED', async () => {
    const collector = await startCollector()
    const { dir, config, env } = place(settings, { 'shop.mjs': shop })
    await run(process.execPath, [cli, 'call', 'shop.buy', '{}', '--config', config], {
      cwd: dir,
      env: { ...env, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_SDK_DISABLED: 'true' },
    })
    expect(collector.text()).toBe('')
  })
})
