import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ProtocolError } from '@modelcontextprotocol/client'
import { expect, onTestFinished, test } from 'vitest'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectOverHttp, connectTo } from '../client.ts'
import { LISTED, serve } from '../listed-server.ts'
import { verifyChain } from '../observe/verify-chain.ts'
import { cli, place, talkTo } from '../process.ts'
import { hurried, until } from '../upstream/host.ts'

// Cases of output, secrets, errors and logs, on the whole server.

const given = "{ type: 'object', properties: { give: {} } }"
/** Echoes its input; its results follow the strictest rule, like those of all single files. */
const LONE = `export default { name: 'lone', description: 'Gives back what it is given, whatever it is.', parameters: ${given}, run: ({ give }) => give }`

async function withModules(
  modules: Readonly<Record<string, string>>,
  settings: Record<string, unknown> = {},
  options: Parameters<typeof startApp>[2] = {},
) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  for (const [name, text] of Object.entries(modules)) writeFileSync(join(dir, 'modules', name), text)
  const made = await startApp({ exposure: { mode: 'direct' }, ...settings }, dir, options)
  return { ...made, client: await connectTo(made.app) }
}

const auditOf = (dir: string): Answer[] =>
  readFileSync(join(dir, 'state', 'audit.jsonl'), 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))

test('OUT-01: a result with a deeply nested credential fails, and the error names its path but not its value', async () => {
  const { client } = await withModules({ 'lone.mjs': LONE })
  const result = (await client.callTool({
    name: 'lone__lone',
    arguments: { give: { a: { b: [{ api_key: 'canary-value' }] } } },
  })) as Answer
  expect(result.structuredContent.error).toMatchObject({
    code: 'E_SECRET_BLOCKED',
    message: 'forbidden field "a.b.0.api_key"',
  })
  expect(JSON.stringify(result)).not.toContain('canary')
  await client.close()
})

test('OUT-02: the tripwire knows credential names in every spelling and in every part of a result', async () => {
  const { client } = await withModules({ 'lone.mjs': LONE })
  const names = [
    'apiKey',
    'API-KEY',
    'access_token',
    'clientSecret',
    'passwd',
    'private_key',
    'Authorization',
    'set-cookie',
  ]
  for (const name of names)
    for (const give of [
      { [name]: 'canary-value' },
      [{ [name]: 'canary-value' }],
      JSON.stringify({ [name]: 'canary-value' }),
    ]) {
      const result = (await client.callTool({ name: 'lone__lone', arguments: { give } })) as Answer
      expect([name, result.structuredContent.error?.code]).toEqual([name, 'E_SECRET_BLOCKED'])
      expect(JSON.stringify(result)).not.toContain('canary')
    }
  for (const name of ['author', 'token_count', 'nextPageToken', 'monkey']) {
    const result = (await client.callTool({
      name: 'lone__lone',
      arguments: { give: { [name]: 'harmless' } },
    })) as Answer
    expect(answerOf(result)).toEqual({ [name]: 'harmless' })
  }
  await client.close()
})

test.each([
  ['bug', 'TypeError', 'E_INTERNAL'],
  ['plain', 'Error', 'E_TOOL_FAILED'],
])(
  'OUT-05: for a %s error with stack, paths and variables, a client gets a code and an id, and stderr is redacted',
  async (_kind, type, code) => {
    const secret = 'sk-from-the-environment-0123456789'
    const configured = 'from-the-configuration-0123456789'
    const here = place(
      { exposure: { mode: 'direct' }, modules: { leaky: { config: { password: '${OTHER}' } } } },
      {
        'leaky.mjs': `export default { name: 'leaky', description: 'Tells what it was given.', tools: { tell: {
          description: 'Fails, and says with what.', effect: 'read',
          run(_input, { config }) { throw new ${type}('no login with ' + process.env.SERVICE_TOKEN + ' or ' + config.password + ' at ' + import.meta.url) } } } }`,
      },
    )
    const { send, answer, stderr } = await talkTo({
      ...here,
      env: { ...here.env, SERVICE_TOKEN: secret, OTHER: configured },
    })
    send({ id: 1, method: 'tools/call', params: { name: 'leaky__tell', arguments: {} } })
    const { result } = (await answer(1)) as Answer
    const { error } = result.structuredContent
    expect(error).toMatchObject({ code, correlationId: expect.stringMatching(/^[0-9a-f-]{36}$/) })
    expect(error.message.length).toBeLessThan(200)
    for (const told of [secret, configured, here.dir]) expect(JSON.stringify(result)).not.toContain(told)
    await until(() => stderr().includes(error.correlationId))
    // The log has the location of the error, but not its values.
    const told = stderr()
      .split('\n')
      .filter((line) => line.includes(error.correlationId))
    expect(told).toEqual([expect.stringMatching(/leaky\.mjs(\?v=[\w.]+)?:\d+:\d+/)])
    for (const told of [secret, configured]) expect(stderr()).not.toContain(told)
  },
)

test('OUT-07: of fifty megabytes, the model gets the beginning and a handle to the whole', async () => {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(
    join(dir, 'modules/long.mjs'),
    `const text = (bytes) => '0123456789abcdé'.repeat(bytes / 16)
       const tool = (run) => ({ description: 'Says a lot.', effect: 'read', input: { type: 'object', properties: { bytes: { type: 'integer' } } }, run })
       export default { name: 'long', description: 'Long.', tools: { text: tool(({ bytes }) => text(bytes)), rows: tool(({ bytes }) => ({ rows: [text(bytes)] })) } }`,
  )
  const { app } = await startApp({ exposure: { mode: 'direct' } }, dir)
  const client = await connectTo(app)
  const bytes = 50 * 1024 * 1024
  const wholeOf = async (result: Answer): Promise<string> => {
    expect(result.isError).toBeUndefined()
    const [{ text }] = result.content
    expect(text.length).toBeLessThan(10_000)
    expect(text).toContain('0123456789abcdé')
    const uri = `keptresult://${/\br_[0-9a-z]+/.exec(text)}`
    return ((await client.readResource({ uri })) as Answer).contents[0].text
  }
  const inner = { name: 'long.text', params: { bytes: 4 * 1024 * 1024 } }
  for (const [call, size] of [
    [{ name: 'long__text', arguments: { bytes } }, bytes],
    [{ name: 'execute_tool', arguments: inner }, 4 * 1024 * 1024],
    [{ name: 'long__rows', arguments: { bytes } }, bytes + '{"rows":[""]}'.length],
  ] as const)
    expect(Buffer.byteLength(await wholeOf(await client.callTool(call)))).toBe(size)
  const short = (await client.callTool({ name: 'long__text', arguments: { bytes: 1_600 } })) as Answer
  expect(short.content).toHaveLength(1)
})

test('OUT-09: line breaks and terminal escape sequences are escaped in the log and in the audit log', async () => {
  const here = place(
    { exposure: { mode: 'direct' }, audit: { enabled: true, arguments: 'redacted' } },
    {
      'told.mjs': `export default { name: 'told', description: 'Writes what it is given to the log.', tools: { tell: {
        description: 'Writes it to the log.', effect: 'read', input: ${given}, run({ give }, { log }) { log.warn(give, { give }); return 1 } } } }`,
    },
  )
  const { send, answer, stderr, child } = await talkTo(here)
  const evil = 'x\n{"level":"fatal"}\u001b[2J\u009b2J\u2028'
  send({ id: 1, method: 'tools/call', params: { name: 'told__tell', arguments: { give: evil } } })
  await answer(1)
  send({ id: 2, method: 'tools/call', params: { name: evil, arguments: {} } })
  await answer(2)
  child.kill('SIGTERM')
  await once(child, 'exit')
  const records = stderr()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))
  expect(records.filter(({ give }) => give !== undefined)).toEqual([
    expect.objectContaining({ level: 'warn', message: evil, give: evil }),
  ])
  expect(records.filter(({ level }) => level === 'fatal')).toEqual([])
  const file = readFileSync(join(here.dir, 'state', 'audit.jsonl'), 'utf8')
  expect(auditOf(here.dir).map(({ outcome }) => outcome)).toEqual(['ok', 'E_NOT_FOUND'])
  for (const text of [stderr(), file]) expect(text).not.toMatch(/[\u001b\u0080-\u009f\u2028]/)
})

test('OUT-11: at the default level no log contains content, and the audit log has caller, tool, duration and a digest', async () => {
  const here = place({ exposure: { mode: 'direct' }, audit: { enabled: true } }, { 'lone.mjs': LONE })
  const { send, answer, stderr, child } = await talkTo(here)
  const canary = 'canary-in-arguments-and-results'
  for (const [id, name] of [
    [1, 'lone__lone'],
    [2, 'execute_tool'],
  ] as const) {
    const args = id === 1 ? { give: canary } : { name: 'lone.lone', params: { give: canary } }
    send({ id, method: 'tools/call', params: { name, arguments: args } })
    expect(JSON.stringify(await answer(id))).toContain(canary)
  }
  child.kill('SIGTERM')
  await once(child, 'exit')
  const lines = auditOf(here.dir)
  expect(lines).toHaveLength(2)
  for (const line of lines)
    expect(line).toMatchObject({
      event: 'call',
      tool: 'lone.lone',
      principal: 'local',
      decision: 'allow',
      outcome: 'ok',
      ms: expect.any(Number),
      callId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      arguments: { give: 'string(31)' },
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
      bytesIn: 42,
      bytesOut: 33,
    })
  expect(lines[0].digest).toBe(lines[1].digest)
  const file = readFileSync(join(here.dir, 'state', 'audit.jsonl'), 'utf8')
  expect(verifyChain(file.trim().split('\n'), readFileSync(join(here.dir, 'state', 'audit.key')))).toEqual([])
  expect(stderr()).not.toContain('canary')
  expect(file).not.toContain('canary')
})

const SHOP = `export default {
  name: 'shop', description: 'Sells.',
  tools: {
    buy: { description: 'Buys something for somebody, at once.', effect: 'write', run: () => { globalThis.bought.push(1); return {} } },
    slow: { description: 'Takes longer than anybody waits.', effect: 'read', run: (_in, ctx) => new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason))) },
    gone: { description: 'A tool that nobody may see or call.', effect: 'destructive', run: () => 1 },
  },
}`

test('OUT-12: a call makes one record, whatever its route and result', async () => {
  const bought: number[] = []
  ;(globalThis as { bought?: number[] }).bought = bought
  const { clock } = hurried(20)
  const { app, client, dir } = await withModules(
    { 'shop.mjs': SHOP },
    {
      exposure: { mode: 'discovery' },
      execution: { watchers: true, scheduler: true, timeoutMs: 2_000 },
      policy: { deny: ['shop.gone'] },
      audit: { enabled: true },
    },
    clock ? { clock } : {},
  )
  await app.work()
  const call = (name: string, args: Record<string, unknown> = {}, options = {}) =>
    callTool(client, { name, arguments: args }, options)
  for (const [name, args] of [
    ['shop__buy', {}],
    ['execute_tool', { name: 'shop.buy', params: {} }],
    ['run_parallel', { actions: [{ name: 'shop.buy', params: {} }] }],
    ['background_run', { name: 'shop.buy', params: {} }],
    ['schedule_once', { name: 'shop.buy', when: 'in 3s', params: {} }],
    ['watch_start', { name: 'shop.buy', interval: 5, max_checks: 1 }],
  ] as const)
    expect([name, (await call(name, args)).isError]).toEqual([name, undefined])
  await until(() => bought.length === 6)
  await call('shop__gone')
  await call('execute_tool', { name: 'shop.gone', params: {} })
  await call('shop__slow')
  const stop = new AbortController()
  const cancelled = call('shop__slow', {}, { signal: stop.signal }).catch(() => undefined)
  await new Promise((done) => setTimeout(done, 200))
  stop.abort()
  await cancelled
  await client.close()
  await new Promise((done) => setTimeout(done, 300))
  await app.stop()
  const told = auditOf(dir).map(({ event, tool, decision, outcome }) => [event, tool, decision, outcome].join(' '))
  expect(told).toEqual([
    ...Array.from({ length: 6 }, () => 'call shop.buy allow ok'),
    'call shop.gone deny E_NOT_FOUND',
    'call shop.gone deny E_NOT_FOUND',
    'call shop.slow allow E_TIMEOUT',
    'call shop.slow allow E_CANCELLED',
  ])
  expect(new Set(auditOf(dir).map(({ callId }) => callId)).size).toBe(told.length)
})

test.skipIf(process.platform !== 'linux')(
  'OUT-13: unread log output and a full disk of the audit log stop no call, and the lost lines are counted',
  async () => {
    const token = 'the-token-of-the-operator'
    const here = place(
      {
        exposure: { mode: 'direct' },
        server: { http: { token } },
        telemetry: { prometheus: true },
        // Writing there always fails.
        audit: { enabled: true, file: '/dev/full', arguments: 'redacted' },
      },
      {
        'loud.mjs': `export default { name: 'loud', description: 'Logs a lot.', tools: { log: {
        description: 'Logs a lot.', effect: 'read', input: ${given}, run(_in, { log }) { for (let n = 0; n < 400; n++) log.warn('x'.repeat(7000)); return { ok: true } } } } }`,
      },
    )
    const child = spawn(process.execPath, [cli, 'serve', '--http', '--port', '0', '--json', '--config', here.config], {
      env: here.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const ended = once(child, 'exit')
    onTestFinished(async () => {
      child.kill('SIGKILL')
      await ended
    })
    const [line] = (await once(child.stdout, 'data')) as [Buffer]
    const { url } = JSON.parse(line.toString()) as { url: string }
    const client = await connectOverHttp(url, token, 'modern')
    // More than a megabyte per record.
    const wide = Array.from({ length: 20 }, () =>
      Array.from({ length: 20 }, () => Array.from({ length: 20 }, () => 'y'.repeat(190))),
    )
    for (let n = 0; n < 20; n++)
      expect(answerOf(await client.callTool({ name: 'loud__log', arguments: { give: wide } }))).toEqual({ ok: true })
    const metrics = await (
      await fetch(new URL('/metrics', url), { headers: { authorization: `Bearer ${token}` } })
    ).text()
    const counted = (name: string): number => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(metrics)?.[1])
    expect(counted('pegboard_log_dropped_total')).toBeGreaterThan(0)
    expect(counted('pegboard_audit_dropped_total')).toBeGreaterThan(0)
    expect(metrics).toContain('pegboard_calls_total{tool="loud.log",outcome="ok"} 20')
    expect(child.exitCode).toBeNull()
  },
  60_000,
)

test('OUT-15: Pegboard skips a server with an unset variable, names the variable, and loads the others', async () => {
  const modern = { command: 'node', args: [join(import.meta.dirname, '..', 'fixtures', 'upstreams', 'modern.mjs')] }
  const here = place({
    exposure: { mode: 'direct' },
    mcpServers: {
      github: { ...modern, env: { TOKEN: '${GITHUB_TOKEN}', OTHER: '${SERVICE_TOKEN}' } },
      near: { ...modern, start: 'eager' },
    },
  })
  const { send, answer, stderr } = await talkTo({ ...here, env: { ...here.env, SERVICE_TOKEN: 'canary-of-the-other' } })
  let id = 0
  const names = async (): Promise<string[]> => {
    send({ id: ++id, method: 'tools/list' })
    return ((await answer(id)) as Answer).result.tools.map(({ name }: { name: string }) => name)
  }
  await expect.poll(names, { interval: 300 }).toContain('near__echo')
  expect((await names()).filter((name) => name.startsWith('github'))).toEqual([])
  expect(await names()).toContain('hello__say_hello')
  expect(stderr()).toContain(
    'mcpServers.github.env.TOKEN needs the environment variable GITHUB_TOKEN, which is not set',
  )
  expect(stderr()).not.toContain('canary')
}, 30_000)

const SECRETS = {
  'aws-access-key': 'AKIAIOSFODNN7EXAMPLE',
  'github-token': 'ghp_0123456789abcdefghijABCDEFGHIJ012345',
  // Concatenated, so that secret scanners do not report it.
  'slack-token': ['xoxb', '123456789012', '1234567890123', 'AbCdEfGhIjKlMnOpQrStUvWx'].join('-'),
  'private-key': `-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7\n-----END RSA PRIVATE KEY-----`,
  jwt: 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U',
  'login-in-address': 'postgres://ann:hunter2-canary@db.example/x',
}
/** A part that identifies each of them. */
const PARTS = /AKIAIOSF|ghp_0123|123456789012|MIIEvQ|BKcwgg|dozjgN|hunter2-canary/

test('OUT-03: names and values that only resemble secrets stay', async () => {
  const { client } = await withModules({ 'lone.mjs': LONE })
  for (const name of ['token_count', 'total_tokens', 'next_page_token', 'password_policy', 'secretary', 'tokenizer']) {
    const give = {
      [name]: 'sk-etch of task-1234567890123456789012, see https://a.example/user:me@home and postgres://db/x',
    }
    const result = (await client.callTool({ name: 'lone__lone', arguments: { give } })) as Answer
    expect([name, answerOf(result)]).toEqual([name, give])
  }
  await client.close()
})

test('OUT-04: secrets are removed by value: in text, structured content, resources, errors, JSON in text and split texts', async () => {
  const filler = 'long '.repeat(4_000)
  for (const [kind, secret] of Object.entries(SECRETS)) {
    const half = Math.ceil(secret.length / 2)
    const results = {
      text: { content: [{ type: 'text', text: `It is ${secret}.` }] },
      structured: { content: [], structuredContent: { a: [{ note: `It is ${secret}.` }], [secret]: 1 } },
      large: { content: [{ type: 'text', text: `${filler}${secret}` }] },
      resource: { content: [{ type: 'resource', resource: { uri: 'x://1', text: secret } }] },
      failed: { isError: true, content: [{ type: 'text', text: `cannot log in with ${secret}` }] },
      inner: { content: [{ type: 'text', text: JSON.stringify({ note: JSON.stringify({ deeper: secret }) }) }] },
      disguised: {
        content: [
          {
            type: 'text',
            text: `{"token_count":1,"note":"\\u00${secret.charCodeAt(0).toString(16)}${JSON.stringify(secret.slice(1)).slice(1)}}`,
          },
        ],
      },
      split: { content: [secret.slice(0, half), secret.slice(half)].map((text) => ({ type: 'text', text })) },
      letters: { content: [...secret].map((text) => ({ type: 'text', text })) },
    }
    const answers = {
      ...Object.fromEntries(Object.entries(results).map(([name, result]) => [name, { result }])),
      refused: { error: { code: -32050, message: `refused ${secret}`, data: { at: secret } } },
      'resources/read': { result: { contents: [{ uri: 'x://1', text: secret }] } },
    }
    const tools = [...Object.keys(results), 'refused'].map((name) => ({ name, description: `Answers: ${name}.` }))
    const offered = { a: { tools, answers, resources: [{ uri: 'x://1', name: 'one' }] } }
    const served = await serve(offered, { a: { tripwire: 'redact' } })
    await served.client(async (client) => {
      for (const { name } of tools) {
        const refused = ({ message, data }: ProtocolError) => ({ content: [{ text: message }], data })
        const result = (await client.callTool({ name: `a__${name}`, arguments: {} }).catch(refused)) as Answer
        const texts = (result.content as Answer[]).map(({ text, resource }) => text ?? resource.text).join('')
        expect([kind, name, JSON.stringify(result).match(PARTS)?.[0], texts.match(PARTS)?.[0]]).toEqual([
          kind,
          name,
          undefined,
          undefined,
        ])
        expect([kind, name, JSON.stringify(result)]).toEqual([
          kind,
          name,
          expect.stringMatching(/\[redacted\]|refused postgres:..db/),
        ])
      }
      const read = JSON.stringify(await client.readResource({ uri: 'x://1' }))
      expect([kind, read.match(PARTS)]).toEqual([kind, null])
    })
    await served.app.stop()
  }
}, 120_000)

test('by default a server result passes with its secrets, the audit log names their kinds, and other output has none', async () => {
  const secret = SECRETS['github-token']
  const filler = 'long '.repeat(4_000)
  const said = (text: string, more: object = {}) => ({ result: { content: [{ type: 'text', text }], ...more } })
  const answers = {
    plain: said(secret),
    large: said(`${filler}${secret}`),
    failed: said(secret, { isError: true }),
    clean: said('fine'),
  }
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules', 'lone.mjs'), LONE)
  const tools = Object.keys(answers).map((name) => ({ name, description: `Answers: ${name}.` }))
  writeFileSync(join(dir, 'a.json'), JSON.stringify({ tools, answers }))
  const a = { command: process.execPath, args: [LISTED, join(dir, 'a.json')], start: 'background' }
  const { app, logged } = await startApp(
    { exposure: { mode: 'direct' }, audit: { enabled: true }, mcpServers: { a } },
    dir,
  )
  await app.settled(20_000)
  const client = await connectTo(app)
  const call = async (name: string, args = {}) => JSON.stringify(await client.callTool({ name, arguments: args }))
  expect(await call('a__plain')).toContain(secret)
  expect(await call('a__large')).toContain(secret)
  expect(await call('a__failed')).not.toContain(secret)
  await call('a__clean')
  expect(await call('lone__lone', { give: { note: secret } })).toContain('[redacted]')
  await client.close()
  await app.stop()
  expect(auditOf(dir).map(({ tool, secrets }) => [tool, secrets])).toEqual([
    ['mcp_a.plain', ['github-token']],
    ['mcp_a.large', ['github-token']],
    ['mcp_a.failed', undefined],
    ['mcp_a.clean', undefined],
    ['lone.lone', undefined],
  ])
  expect(logged.join('\n')).toContain('a result may hold secrets')
  expect(logged.join('\n')).not.toContain(secret)
})

test('OUT-10: no command prints selectors and other invisible characters, and --json escapes them', async () => {
  // The tool waits for a review.
  const hidden = `v1${'\ufe01'.repeat(7)}${String.fromCodePoint(0xe0150)}\u2064\u3164\u{e0041}`
  const kept = '\u2764\ufe0f'
  const dir = temporaryFolder()
  const inputSchema = { type: 'object', properties: { a: { type: 'string', description: hidden } } }
  const tool = { name: 'tell', description: `Tells ${kept} ${hidden} something.`, inputSchema }
  writeFileSync(join(dir, 'a.json'), JSON.stringify({ tools: [{ name: 'add', description: 'Adds.' }, tool] }))
  const mcpServers = { a: { command: process.execPath, args: [LISTED, join(dir, 'a.json')] } }
  const module = `export default { name: 'told', description: 'Tells.', tools: { tell: { description: ${JSON.stringify(tool.description)}, effect: 'read', input: ${JSON.stringify(inputSchema)}, run: () => ${JSON.stringify(hidden)} } } }`
  const here = place({ mcpServers }, { 'told.mjs': module })
  for (const argv of [
    ['list', '--hidden'],
    ['list', '--hidden', '--json'],
    ['list', '--format', 'openai'],
    ['schema', 'told'],
    ['schema', 'told', '--json'],
    ['schema', 'a'],
    ['search', 'tell'],
    ['search', 'tell', '--json'],
    ['why', 'mcp_a.tell'],
    ['call', 'told.tell'],
    ['call', 'told.tell', '--json'],
    ['check', '--json'],
    ['review', '--json'],
  ]) {
    const { stdout, stderr } = spawnSync(process.execPath, [cli, ...argv, '--config', here.config], {
      env: here.env,
      encoding: 'utf8',
    })
    const unseen = /[\ufe01\u2064\u3164]|[\u{e0000}-\u{e01ef}]/u
    expect([argv, stdout.match(unseen)?.index, stderr.match(unseen)?.index]).toEqual([argv, undefined, undefined])
    if (argv[1] === 'told' || argv[1] === '--hidden')
      expect([argv, stdout]).toEqual([argv, expect.stringContaining(kept)])
    if (argv[1] === 'told' && argv[2]) expect(JSON.parse(stdout).actions[0].description).toBe(tool.description)
  }
}, 180_000)

test('OUT-10: no output of the command line controls a terminal, piped or not: results, stderr, names and status', async () => {
  const evil =
    'x\u001b]52;c;ZXZpbA==\u0007\u001b]8;;https://evil.test\u001b\\link\u001b]8;;\u001b\\\u202e\u009b2J\rgone'
  const dir = temporaryFolder()
  const tools = [{ name: 'tell', description: 'Tells something.' }]
  const answers = {
    tell: { result: { content: [{ type: 'text', text: evil }], structuredContent: { a: evil } } },
    // Parsed as bytes.
    long: { result: { content: [{ type: 'text', text: `${'long '.repeat(4_000)}${evil}` }] } },
  }
  writeFileSync(
    join(dir, 'a.json'),
    JSON.stringify({ tools: [...tools, { ...tools[0], name: 'long' }], version: evil, answers }),
  )
  const failing = `process.stderr.write(${JSON.stringify(`${evil}\n`)}); process.exit(1)`
  const mcpServers = {
    a: { command: process.execPath, args: [LISTED, join(dir, 'a.json')] },
    b: { command: process.execPath, args: ['-e', failing] },
    [`c${evil}`]: { command: process.execPath, args: ['-e', failing], summary: evil },
  }
  const module = `export default { name: 'told', description: 'Tells.', tools: { tell: { description: 'Tells something.', effect: 'read', input: { type: 'object' }, run: () => ${JSON.stringify(evil)} } } }`
  const here = place({}, { 'told.mjs': module })
  // A configuration contains control characters as escapes.
  writeFileSync(here.config, JSON.stringify({ mcpServers }).replaceAll('\u009b', '\\u009b'))
  const steers = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/
  for (const argv of [
    ['call', 'a.tell'],
    ['call', 'a.long'],
    ['call', 'told.tell'],
    ['call', 'a.tell', '--json'],
    ['list', 'servers'],
    ['list', 'servers', '--json'],
    ['check'],
  ]) {
    const { stdout, stderr } = spawnSync(process.execPath, [cli, ...argv, '--config', here.config], {
      env: here.env,
      encoding: 'utf8',
    })
    expect([argv, stdout.match(steers), stderr.match(steers)]).toEqual([argv, null, null])
    expect([argv, stdout + stderr]).toEqual([argv, expect.stringMatching(/link|told/)])
  }
}, 180_000)
