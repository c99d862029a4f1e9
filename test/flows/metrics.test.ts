import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { serveAppOverHttp, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'

const shop = `export default {
  name: 'shop', description: 'Sells.',
  tools: {
    buy: { description: 'Buys something for somebody, at once.', effect: 'write', run: () => ({ ok: true }) },
    fail: { description: 'Always fails, whatever it is given.', effect: 'read', run: () => { throw new Error('no') } },
  },
}`
const OPERATOR = 'token-of-the-operator-0001'
const READER = 'token-of-the-reader-000002'
const CLIENT = 'token-of-some-client-00003'

async function served(settings: Record<string, unknown>) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules', 'shop.mjs'), shop)
  const tokens = [
    { token: READER, principal: 'prometheus', roles: ['metrics'] },
    { token: CLIENT, principal: 'ann' },
  ]
  const made = await startApp(
    { exposure: { mode: 'direct' }, server: { http: { port: 0, token: OPERATOR, tokens } }, ...settings },
    dir,
  )
  const http = await serveAppOverHttp(made.app, { token: OPERATOR, tokens })
  made.app.warm()
  const get = async (path: string, token?: string) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const answer = await fetch(http.url + path, { headers })
    return { status: answer.status, type: answer.headers.get('content-type'), text: await answer.text() }
  }
  return { ...made, get }
}

/** Strict: every line is a comment of a family, or a sample of the family above it. */
function parsed(text: string): Map<string, number> {
  expect(text.endsWith('\n')).toBe(true)
  const samples = new Map<string, number>()
  let family = ''
  const families = new Set<string>()
  for (const line of text.slice(0, -1).split('\n')) {
    const [, kind, name] = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) ./.exec(line) ?? []
    if (kind === 'HELP') {
      expect(families, line).not.toContain(name)
      families.add(name as string)
      family = name as string
    } else if (kind === 'TYPE')
      expect([name, line.split(' ')[3]]).toEqual([family, expect.stringMatching(/^(counter|gauge|histogram)$/)])
    else {
      const label = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\[\\\\"n])*"'
      const sample = new RegExp(`^(${family}(?:_bucket|_sum|_count)?)(\\{${label}(?:,${label})*\\})? (\\S+)$`).exec(
        line,
      )
      expect(sample, line).not.toBeNull()
      const key = `${sample?.[1]}${sample?.[2] ?? ''}`
      expect(samples, line).not.toContain(key)
      samples.set(key, Number(sample?.[3]))
      expect(samples.get(key), line).not.toBeNaN()
    }
  }
  return samples
}

const hasPromtool = spawnSync('promtool', ['--version']).status === 0

describe('GET /metrics', () => {
  it('reports current and past activity in the Prometheus format', async () => {
    const { app, get } = await served({
      telemetry: { prometheus: true },
      execution: { watchers: true, scheduler: true },
    })
    const client = await connectTo(app)
    for (const name of ['shop__buy', 'shop__buy', 'shop__fail', 'nothing'])
      await callTool(client, { name, arguments: {} })
    await client.callTool({ name: 'search_tools', arguments: { query: 'buy' } })
    const { status, type, text } = await get('/metrics', OPERATOR)
    await client.close()
    expect([status, type]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8'])
    const samples = parsed(text)
    expect(
      Object.fromEntries([...samples].filter(([key]) => /^(pegboard_calls_total|pegboard_(?!call_).*[^}]$)/.test(key))),
    ).toEqual({
      'pegboard_calls_total{tool="shop.buy",outcome="ok"}': 2,
      'pegboard_calls_total{tool="shop.fail",outcome="E_TOOL_FAILED"}': 1,
      'pegboard_calls_total{outcome="E_NOT_FOUND"}': 1,
      pegboard_calls_running: 0,
      pegboard_calls_waiting: 0,
      pegboard_tasks_running: 0,
      pegboard_schedules: 0,
      pegboard_watchers: 0,
      pegboard_streams: 0,
      pegboard_tokens_direct_total: expect.any(Number),
      pegboard_http_requests_running: 0,
      pegboard_log_dropped_total: 0,
      pegboard_audit_dropped_total: 0,
      pegboard_search_duration_seconds_sum: expect.any(Number),
      pegboard_search_duration_seconds_count: 1,
    })
    expect(samples.get('pegboard_call_duration_seconds_bucket{tool="shop.buy",le="+Inf"}')).toBe(2)
    expect(samples.get('mcp_server_operation_duration_seconds_count{mcp_method_name="tools/call"}')).toBe(3)
    expect(samples.get('pegboard_sessions{transport="streamable"}')).toBe(0)
    for (const name of ['process_resident_memory_bytes', 'process_cpu_seconds_total', 'process_start_time_seconds'])
      expect(samples.get(name), name).toBeGreaterThan(0)
    for (const name of ['p50', 'p99', 'max'])
      expect(samples.get(`nodejs_eventloop_delay_${name}_seconds`), name).toBeGreaterThanOrEqual(0)
    if (hasPromtool) execFileSync('promtool', ['check', 'metrics'], { input: text })
  })

  it('counts an upstream server, a schedule and a request without a token', async () => {
    const everything = join(import.meta.dirname, '..', 'fixtures', 'upstreams', 'modern.mjs')
    const { app, get } = await served({
      telemetry: { prometheus: true },
      execution: { watchers: true, scheduler: true },
      mcpServers: {
        far: { command: 'node', args: [everything] },
        gone: { command: join(import.meta.dirname, 'nothing') },
      },
    })
    await app.work()
    await app.settled(60_000)
    const client = await connectTo(app)
    await client.callTool({ name: 'far__get_meta', arguments: {} })
    await client.callTool({ name: 'schedule_once', arguments: { name: 'shop.buy', when: 'in 1h', params: {} } })
    await client.close()
    await get('/metrics', 'a token that nobody has')
    const samples = parsed((await get('/metrics', OPERATOR)).text)
    expect(samples.get('pegboard_upstream_ready{pegboard_server="far"}')).toBe(1)
    expect(samples.get('pegboard_upstream_ready{pegboard_server="gone"}')).toBe(0)
    expect(samples.get('pegboard_schedules')).toBe(1)
    expect(samples.get('pegboard_http_unauthorized_total')).toBe(1)
    expect(
      samples.get('mcp_client_operation_duration_seconds_count{pegboard_server="far",mcp_method_name="tools/call"}'),
    ).toBe(1)
  })

  it('is for the operator and callers with the role, and for no profile', async () => {
    const { get } = await served({ telemetry: { prometheus: true } })
    const statuses = async (path: string) =>
      Promise.all([undefined, CLIENT, READER, OPERATOR].map(async (token) => (await get(path, token)).status))
    expect(await statuses('/metrics')).toEqual([401, 403, 200, 200])
    expect(await statuses('/metrics/default')).toEqual([404, 404, 404, 404])
  })

  it('is disabled by default, and names the setting to those it would be for', async () => {
    const { get } = await served({})
    const nothing = await get('/nothing', OPERATOR)
    expect(nothing.status).toBe(404)
    for (const token of [undefined, 'a token that nobody has', CLIENT])
      expect(await get('/metrics', token)).toEqual(nothing)
    for (const token of [READER, OPERATOR]) {
      const { status, text } = await get('/metrics', token)
      expect([status, JSON.parse(text).error.message]).toEqual([
        404,
        'Not found: metrics are off; telemetry.prometheus: true switches them on.',
      ])
    }
    expect(await get('/metrics/default', OPERATOR)).toEqual(nothing)
  })
})
