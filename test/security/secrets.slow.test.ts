import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect, onTestFinished, test } from 'vitest'
import { createTokenStore } from '../../src/upstream/oauth/token-store.ts'
import type { Answer } from '../app.ts'
import { cli, place, run, serveHttp } from '../process.ts'
import { until } from '../upstream/host.ts'

/** One secret of each kind, with characters that differ in URLs, in JSON and in base64. */
const canary = (kind: string): string => `c4nary/+=${kind}~0123456789`
const KINDS = {
  operator: canary('operator'),
  token: canary('token'),
  header: canary('header'),
  childEnv: canary('childenv'),
  own: canary('own'),
  dsn: canary('dsn'),
  bot: `12345:${canary('bot')}`,
  module: canary('module'),
  oauth: canary('oauth'),
  refresh: canary('refresh'),
  collector: canary('collector'),
  api: canary('api'),
}

/** Every encoding of a text from which it could be read. */
function formsOf(text: string): readonly string[] {
  const base64 = [0, 1, 2].flatMap((offset) => {
    const whole = Buffer.concat([Buffer.alloc(offset), Buffer.from(text)])
    const sure = whole.subarray(0, whole.length - (whole.length % 3)).toString('base64')
    const own = sure.slice(offset === 0 ? 0 : offset + 1)
    return [own, own.replaceAll('+', '-').replaceAll('/', '_')]
  })
  return [text, encodeURIComponent(text), JSON.stringify(text).slice(1, -1), text.replaceAll('/', '\\/'), ...base64]
}

const leaksIn = (text: string, kinds: Partial<typeof KINDS> = KINDS): string[] =>
  Object.entries(kinds).flatMap(([kind, secret]) =>
    formsOf(secret).flatMap((form, at) =>
      text.includes(form) ? [`${kind} in form ${at}: ${around(text, form)}`] : [],
    ),
  )
const around = (text: string, form: string): string => {
  const at = text.indexOf(form)
  return text.slice(Math.max(0, at - 80), at + form.length + 20)
}

/** A module that reveals everything it got: in answers, errors, the console, the log, and a crash. */
const TELLTALE = `
const all = (config) => JSON.stringify({ config, env: process.env, argv: process.argv })
const tool = (run) => ({ description: 'Tells all that it was given, one way or another.', effect: 'read', run: (_in, ctx) => run(all(ctx.config), ctx) })
export default { name: 'telltale', description: 'Tells all it knows.', tools: {
  answer: tool((text) => ({ text })),
  throws: tool((text) => { throw new Error(text) }),
  breaks: tool((text) => { throw new TypeError(text) }),
  crashes: tool((text) => { setTimeout(() => { throw new Error('crash ' + text) }); return 1 }),
  rejects: tool((text) => { Promise.reject(new Error('rejection ' + text)); return 1 }),
  encodes: tool((text, ctx) => { for (const [name, one] of [...Object.entries(process.env), ['config', ctx.config.password]]) throw new Error(['TOKEN', 'config'].some((part) => name.includes(part)) ? Buffer.from(one).toString('base64') + encodeURIComponent(one) : Buffer.from('u:' + ctx.config.password).toString('base64')) }),
  prints: tool((text) => { process.stdout.write(text + '\\n'); process.stderr.write(text + '\\n'); console.error(text); return 1 }),
  logs: tool((text, ctx) => { ctx.log.error(text, { text, error: new Error(text), cause: Buffer.from(ctx.config.password).toString('base64') }); return 1 }),
  progresses: tool((text, ctx) => { ctx.progress(1, 2, text); ctx.warn(text); ctx.sendFile({ filename: 'a.txt', mimetype: 'text/plain', data: text }); return 1 }),
} }`

/** A child that reveals its environment in answers, in errors and on stderr. */
const CHILD = `
import { createInterface } from 'node:readline'
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n')
process.stderr.write('started with ' + JSON.stringify(process.env) + '\\n')
const tools = ['answer', 'fail', 'refuse'].map((name) => ({ name, description: 'Tells its environment.', inputSchema: { type: 'object' } }))
const answers = {
  initialize: () => ({ protocolVersion: '2025-06-18', capabilities: { tools: {}, logging: {} }, serverInfo: { name: 'child', version: '1' } }),
  'tools/list': () => ({ tools }), 'resources/list': () => ({ resources: [] }), 'resources/templates/list': () => ({ resourceTemplates: [] }), 'prompts/list': () => ({ prompts: [] }), ping: () => ({}),
  'tools/call': ({ name }) => { const text = JSON.stringify(process.env); if (name === 'refuse') throw new Error(text); return { content: [{ type: 'text', text }], structuredContent: { text, env: process.env }, isError: name === 'fail' } },
}
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (id === undefined) return
  try { if (!answers[method]) throw new Error('no'); send({ id, result: answers[method](params) }) } catch (error) { send({ id, error: { code: -32000, message: error.message } }) }
})`

/** A server that reveals the headers of each request. */
async function echoing(): Promise<{ readonly url: string; readonly seen: () => string }> {
  let seen = ''
  const answers: Record<string, (params: Answer, headers: object) => object> = {
    initialize: () => ({
      protocolVersion: '2025-06-18',
      capabilities: { tools: {} },
      serverInfo: { name: 'echoing', version: '1' },
    }),
    'tools/list': () => ({
      tools: ['answer', 'fail', 'refuse'].map((name) => ({
        name,
        description: 'Tells the headers it got.',
        inputSchema: { type: 'object' },
      })),
    }),
    'tools/call': ({ name }, headers) => {
      const text = JSON.stringify(headers)
      if (name === 'refuse') throw new Error(text)
      return { content: [{ type: 'text', text }], structuredContent: { headers }, isError: name === 'fail' }
    },
  }
  const server = createServer(async (req, res) => {
    let text = ''
    for await (const chunk of req) text += chunk
    seen += JSON.stringify(req.headers)
    if (req.method !== 'POST') return void res.writeHead(405).end()
    const { id, method, params } = JSON.parse(text)
    if (id === undefined) return void res.writeHead(202).end()
    res.setHeader('content-type', 'application/json')
    try {
      const answer = answers[method]
      if (!answer) throw new Error('no such method')
      res.end(JSON.stringify({ jsonrpc: '2.0', id, result: answer(params, req.headers) }))
    } catch (error) {
      res.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32000, message: (error as Error).message } }))
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => new Promise((resolve) => server.close(() => resolve())))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, seen: () => seen }
}

function filesBelow(dir: string): string[] {
  return readdirSync(dir).flatMap((name) => {
    const path = join(dir, name)
    return statSync(path).isDirectory() ? filesBelow(path) : [path]
  })
}

test('no secret appears in an answer, an error, the log, the audit log, stored state or a crash message', async () => {
  const web = await echoing()
  const here = place({}, { 'telltale.mjs': TELLTALE })
  writeFileSync(join(here.dir, 'child.mjs'), CHILD)
  const settings = {
    exposure: { mode: 'direct' },
    server: {
      http: { token: KINDS.operator, tokens: [{ token: '${ANN_TOKEN}', principal: 'ann', roles: ['metrics'] }] },
    },
    audit: { enabled: true, arguments: 'redacted' },
    telemetry: {
      traces: true,
      prometheus: true,
      endpoint: 'http://127.0.0.1:9',
      headers: { authorization: `Bearer ${KINDS.collector}` },
    },
    log: { level: 'debug', format: 'json' },
    modules: {
      telltale: { config: { password: KINDS.module }, tripwire: 'off' },
      telegram: { config: { token: KINDS.bot, api_url: 'http://127.0.0.1:9' } },
      database: {
        config: { connections: { main: { url: `postgres://ann:${encodeURIComponent(KINDS.dsn)}@127.0.0.1:9/x` } } },
      },
    },
    openapi: {
      shop: { document: './missing.json', auth: { type: 'bearer', token: KINDS.api } },
    },
    mcpServers: {
      child: {
        command: process.execPath,
        args: [join(here.dir, 'child.mjs')],
        env: { API_KEY: KINDS.childEnv },
        start: 'eager',
      },
      web: { url: web.url, headers: { 'x-api-key': KINDS.header }, auth: { type: 'oauth' }, start: 'eager' },
      broken: { command: join(here.dir, 'nothing'), env: { API_KEY: KINDS.childEnv }, start: 'eager' },
    },
  }
  writeFileSync(here.config, JSON.stringify(settings))
  const state = join(here.dir, 'state')
  mkdirSync(state, { mode: 0o700 })
  await createTokenStore(join(state, 'auth'), undefined, () => undefined).write(
    { server: 'web', url: web.url },
    {
      tokens: { access_token: KINDS.oauth, refresh_token: KINDS.refresh, token_type: 'Bearer' } as never,
      expiresAt: Date.now() + 3_600_000,
      obtainedAt: Date.now(),
    },
  )
  const env = {
    ...here.env,
    ANN_TOKEN: KINDS.token,
    SERVICE_TOKEN: KINDS.own,
    AWS_SECRET_ACCESS_KEY: KINDS.own,
    PEGBOARD_KEYRING: 'off',
  }
  const { child, url, ended, stdout, stderr } = await serveHttp({ ...here, env }, '0', ['--verbose'], 'SIGKILL')
  let said = ''
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
  const told: typeof fetch = async (input, init) => {
    const answer = await fetch(input, init)
    const text = await answer.clone().text()
    said += text + JSON.stringify([...answer.headers])
    return answer
  }
  const requestInit = { headers: { authorization: `Bearer ${KINDS.token}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit, fetch: told }))
  onTestFinished(() => client.close().catch(() => undefined))
  const names = async () => (await client.listTools()).tools.map(({ name }) => name)
  await expect
    .poll(async () => (await names()).filter((name) => /^(child|web)__/.test(name)).length, {
      timeout: 30_000,
      interval: 300,
    })
    .toBe(6)
  const call = (name: string, args: Record<string, unknown> = {}) =>
    client.callTool({ name, arguments: args }).catch((error: unknown) => error as Answer)

  for (const name of (await names()).filter((one) => /^(telltale|child|web)__/.test(one))) {
    await call(name)
    await call('execute_tool', { name, params: {} })
    await call('run_parallel', { actions: [{ name, params: {} }] })
  }
  // The text of a client returns to this client only, and is in no log.
  for (const [name, args] of [
    ['telegram__telegram_send_message', { chat_id: '1', text: 'x' }],
    ['database__query', { connection: 'main', sql: 'select 1' }],
    ['database__connect', { connection: 'main' }],
    ['nothing__there', {}],
    ['search_tools', { query: 'tell' }],
    ['background_run', { name: 'telltale.throws', params: {} }],
    ['list_active_servers', {}],
  ] as const)
    await call(name, args)
  for (const { uri } of (await client.listResources()).resources)
    await client.readResource({ uri }).catch(() => undefined)
  for (const [path, token] of [
    ['/health'],
    ['/ready'],
    ['/metrics', KINDS.token],
    ['/metrics', 'wrong'],
    ['/nothing', KINDS.operator],
    [`/mcp?access_token=${encodeURIComponent(KINDS.operator)}`],
  ] as const) {
    const answer = await fetch(
      new URL(path, url),
      token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } },
    )
    said += (await answer.text()) + JSON.stringify([...answer.headers])
  }
  await until(() => stderr().includes('crash ') && stderr().includes('rejection '))
  const environment = JSON.stringify(await call('child__answer'))
  const children = await run('ps', ['-A', '-ww', '-o', 'args='])
  await client.close()
  child.kill('SIGTERM')
  await ended

  // The secrets were available to the module, so the check is meaningful.
  expect(web.seen()).toContain(KINDS.oauth)
  expect(said.match(/\[redacted\]/g)?.length).toBeGreaterThan(20)
  expect(
    leaksIn(JSON.stringify({ text: KINDS.own, encoded: Buffer.from(`x:${KINDS.dsn}`).toString('base64') })),
  ).toHaveLength(3)

  expect(leaksIn(said)).toEqual([])
  expect(leaksIn(stdout())).toEqual([])
  expect(leaksIn(stderr())).toEqual([])
  expect(leaksIn(children.stdout)).toEqual([])
  // Its children get none of our variables.
  expect(environment).toContain('API_KEY')
  expect(environment).not.toMatch(/AWS_SECRET_ACCESS_KEY|SERVICE_TOKEN|ANN_TOKEN/)
  const kept = filesBelow(here.dir).filter((file) => file !== here.config && !file.startsWith(join(state, 'auth')))
  expect(kept.some((file) => file.endsWith('audit.jsonl')) && kept.some((file) => file.includes('manifests'))).toBe(
    true,
  )
  for (const file of kept) expect([file, leaksIn(readFileSync(file, 'latin1'))]).toEqual([file, []])
  for (const file of filesBelow(join(state, 'auth'))) expect([file, statSync(file).mode & 0o077]).toEqual([file, 0])

  for (const args of [
    ['list', '--json'],
    ['check', '--json'],
    ['schema'],
    ['why', 'telltale.answer'],
    ['call', 'telltale.throws', '{}'],
  ]) {
    const done = await run(process.execPath, [cli, ...args, '--config', here.config, '--verbose'], { env }).catch(
      (error: { stdout: string; stderr: string }) => error,
    )
    expect([args[0], leaksIn(done.stdout + done.stderr)]).toEqual([args[0], []])
  }
}, 180_000)

test('a failed start reveals no secret', async () => {
  const password = canary('redis')
  const { config, env } = place({
    server: { http: { token: 'a-token-for-all-of-the-fleet' } },
    state: { url: `redis://:${encodeURIComponent(password)}@127.0.0.1:9/0` },
  })
  const failed = await run(process.execPath, [cli, 'serve', '--http', '--port', '0', '--config', config], {
    env,
  }).catch((error: { stdout: string; stderr: string; code: number }) => error)
  expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining('E_STATE') })
  expect(leaksIn(failed.stdout + failed.stderr, { own: password })).toEqual([])
}, 30_000)

test.skipIf(process.platform === 'win32')(
  'a diagnostic report contains no environment, or is not written',
  async () => {
    const here = place({ exposure: { mode: 'direct' } })
    const reports = join(here.dir, 'reports')
    mkdirSync(reports)
    const child = spawn(
      process.execPath,
      [`--report-dir=${reports}`, '--report-on-signal', cli, 'serve', '--stdio', '--config', here.config],
      {
        env: { ...here.env, SERVICE_TOKEN: KINDS.own },
        stdio: 'pipe',
      },
    )
    const ended = once(child, 'exit')
    onTestFinished(async () => {
      child.kill('SIGKILL')
      await ended
    })
    let out = ''
    child.stdout.on('data', (text) => {
      out += text
    })
    const ask = (id: number, method: string, params: object) =>
      child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
    ask(1, 'initialize', {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'test', version: '1' },
    })
    await until(() => out.includes('"id":1'), 20_000)
    child.kill('SIGUSR2')
    await new Promise((done) => setTimeout(done, 1_000))
    ask(2, 'ping', {})
    await until(() => out.includes('"id":2'), 20_000)
    for (const name of readdirSync(reports))
      expect([name, leaksIn(readFileSync(join(reports, name), 'utf8'))]).toEqual([name, []])
  },
  60_000,
)
