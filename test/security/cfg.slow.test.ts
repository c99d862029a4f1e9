import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'
import { add, codeOf, LISTED } from '../listed-server.ts'
import { cli, type Place, place, serveHttp, talkTo } from '../process.ts'
import { scripted, until } from '../upstream/host.ts'

const moduleOf = (name: string, more = ''): string =>
  `export default { name: '${name}', description: 'Says its name.', ${more} tools: { say: { description: 'Says its name aloud.', effect: 'read', run: () => '${name}' } } }`

/** Serves until its client disconnects or it exits, and returns its output. */
async function ends(
  { config, env }: Place,
  ...more: string[]
): Promise<{ code: number; stderr: string; stdout: string }> {
  const child = spawn(process.execPath, [cli, ...more, '--config', config], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const said = { stderr: '', stdout: '' }
  child.stderr.on('data', (chunk: Buffer) => {
    said.stderr += chunk
  })
  child.stdout.on('data', (chunk: Buffer) => {
    said.stdout += chunk
  })
  const [code] = (await once(child, 'close')) as [number]
  return { code, ...said }
}

test('CFG-01: Pegboard skips a module that cannot be loaded, tells clients the reason, and loads the others', async () => {
  const files = {
    'throws.mjs': 'throw new Error("boom")',
    'schema.mjs': moduleOf('schema').replace("effect: 'read'", "effect: 'read', input: { type: 'objekt' }"),
    'empty.mjs': 'export const nothing = 1',
    'good.mjs': moduleOf('good'),
    'same.mjs': moduleOf('good'),
    'syntax.mjs': 'export default {{',
    'proto.mjs': moduleOf('__proto__'),
    'exits.mjs': 'process.exit(7)',
    'getter.mjs': 'export default { get name() { throw new Error("no name for you") } }',
    'last.mjs': moduleOf('last'),
  }
  const here = place({ exposure: { mode: 'direct' } }, files)
  const talk = await talkTo(here)
  for (const [id, name] of ['good', 'last'].entries()) {
    talk.send({ id: id + 1, method: 'tools/call', params: { name: `${name}__say`, arguments: {} } })
    expect(((await talk.answer(id + 1)) as Answer).result.content[0].text).toBe(name)
  }
  talk.send({ id: 9, method: 'resources/read', params: { uri: 'server://status' } })
  const status = ((await talk.answer(9)) as Answer).result.contents[0].text
  const left = Object.keys(files).filter((file) => !['good.mjs', 'last.mjs'].includes(file))
  for (const file of left) {
    expect(talk.stderr(), file).toContain(file)
    expect(status, file).toContain(file)
  }
  expect(status).not.toContain(here.dir)
})

test('CFG-02: a file that loops, hangs, exits the process or rejects later stops neither other files nor the server', async () => {
  const here = place(
    { exposure: { mode: 'direct' }, loader: { importTimeoutMs: 4_000 } },
    {
      'a_loops.mjs': 'for (;;) {}',
      'b_waits.mjs': 'await new Promise(() => undefined)',
      'c_exits.mjs': 'process.exit(7)',
      'd_rejects.mjs': `setTimeout(() => Promise.reject(new Error('too late')), 500)\n${moduleOf('rejects')}`,
      'good.mjs': moduleOf('good'),
    },
  )
  const began = Date.now()
  const talk = await talkTo(here)
  expect(Date.now() - began).toBeLessThan(12_000)
  let id = 0
  const say = async (name: string): Promise<Answer> => {
    talk.send({ id: ++id, method: 'tools/call', params: { name, arguments: {} } })
    return ((await talk.answer(id)) as Answer).result
  }
  await expect.poll(async () => (await say('good__say')).content[0].text).toBe('good')
  expect((await say('rejects__say')).content[0].text).toBe('rejects')
  talk.send({ id: ++id, method: 'resources/read', params: { uri: 'server://status' } })
  const status = ((await talk.answer(id)) as Answer).result.contents[0].text
  for (const [file, why] of [
    ['a_loops.mjs', 'its code blocked the event loop for too long during the import and was stopped'],
    ['b_waits.mjs', 'importing took longer than 4000 ms'],
    ['c_exits.mjs', 'c_exits.mjs'],
  ] as const) {
    expect(talk.stderr(), file).toContain(why)
    expect(status, file).toContain(file)
  }
  await expect.poll(talk.stderr).toContain('too late')
  expect((await say('good__say')).content[0].text).toBe('good')
  expect(talk.child.exitCode).toBe(null)
}, 60_000)

/** Returns a function that calls the tool `say` of a module, and returns the text of its answer. */
const saysIn = (talk: Awaited<ReturnType<typeof talkTo>>, module: string) => {
  let id = 0
  return async (): Promise<string> => {
    talk.send({ id: ++id, method: 'tools/call', params: { name: `${module}__say`, arguments: {} } })
    return ((await talk.answer(id)) as Answer).result.content[0].text
  }
}

/** Takes four seconds of processor time. */
const CALCULATE = `const usedMs = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1_000 }
const end = usedMs() + 4_000
while (usedMs() < end) for (let n = 0; n < 1_000_000; n++);`

test.each(['setTimeout', 'setImmediate'])(
  'a file whose %s callback blocks the event loop does not end the process',
  async (start) => {
    const waits = `await new Promise((done) => ${start}(() => {\n${CALCULATE}\ndone()\n}))`
    const files = { 'waits.mjs': `${waits}\n${moduleOf('waits')}` }
    const talk = await talkTo(place({ exposure: { mode: 'direct' }, loader: { importTimeoutMs: 10_000 } }, files))
    await expect.poll(saysIn(talk, 'waits')).toBe('waits')
    expect(talk.stderr()).toContain('a callback of a timer or setImmediate cannot be stopped')
  },
  60_000,
)

test.each([
  ['after a timer that blocked', `await new Promise((done) => setTimeout(() => {\n${CALCULATE}\ndone()\n}))`],
  ['between two timers', 'await Promise.race([20, 20].map((ms) => new Promise((done) => setTimeout(done, ms))))'],
])(
  'a file that loops %s is stopped',
  async (_when, waits) => {
    const files = { 'loops.mjs': `${waits}\nfor (;;) {}`, 'zz_good.mjs': moduleOf('good') }
    const talk = await talkTo(place({ exposure: { mode: 'direct' }, loader: { importTimeoutMs: 10_000 } }, files))
    await expect.poll(saysIn(talk, 'good')).toBe('good')
    expect(talk.stderr()).toContain('its code blocked the event loop for too long during the import and was stopped')
  },
  60_000,
)

test('a file may calculate for four seconds where an import may take a minute', async () => {
  const files = { 'calculates.mjs': `${CALCULATE}\n${moduleOf('calculates')}` }
  const talk = await talkTo(place({ exposure: { mode: 'direct' }, loader: { importTimeoutMs: 60_000 } }, files))
  expect(await saysIn(talk, 'calculates')()).toBe('calculates')
}, 60_000)

test('a call to a tool whose file is still loading gets E_LOADING, which the client can retry', async () => {
  const slow = `await new Promise((done) => setTimeout(done, 7_000))\n${moduleOf('slow')}`
  const talk = await talkTo(place({ exposure: { mode: 'direct' } }, { 'slow.mjs': slow }))
  const say = async (id: number): Promise<Answer> => {
    talk.send({ id, method: 'tools/call', params: { name: 'slow__say', arguments: {} } })
    return ((await talk.answer(id)) as Answer).result
  }
  const { error } = (await say(1)).structuredContent
  expect(error).toMatchObject({
    code: 'E_LOADING',
    message: "'slow__say' is not known yet: slow.mjs is being loaded.",
    retryable: true,
    retryAfterMs: 2_000,
  })
  let id = 1
  await expect.poll(async () => (await say(++id)).content[0].text).toBe('slow')
}, 60_000)

test('CFG-03: a typo in security settings prevents the start, and a typo in module options does not', async () => {
  const slips = [
    [{ policy: { denny: ['x.*'] } }, 'unknown key "policy.denny"; did you mean "deny"?'],
    [
      { modules: { good: { constraints: { blocked_action: ['say'] } } } },
      'unknown key "modules.good.constraints.blocked_action"; did you mean "blocked_actions"?',
    ],
    [{ policy: { blocked_action: ['x'] } }, 'unknown key "policy.blocked_action"; valid keys: default, '],
    [{ profiles: { work: { polic: {} } } }, 'unknown key "profiles.work.polic"; did you mean "policy"?'],
  ] as const
  for (const [settings, said] of slips)
    for (const how of ['--stdio', '--http']) {
      const { code, stderr, stdout } = await ends(place(settings), 'serve', how)
      expect([code, stdout]).toEqual([1, ''])
      expect(stderr).toContain('E_CONFIG_INVALID')
      expect(stderr).toContain(said)
    }
  const good = `import { z } from 'zod'\n${moduleOf('good', 'config: z.object({ blocked_actions: z.array(z.string()).default([]) }),')}`
  const here = place(
    { exposure: { mode: 'direct' }, modules: { good: { config: { blocked_action: ['say'] } } } },
    { 'good.mjs': good },
  )
  const talk = await talkTo(here)
  talk.send({ id: 1, method: 'tools/call', params: { name: 'good__say', arguments: {} } })
  expect(((await talk.answer(1)) as Answer).result.content[0].text).toBe('good')
  expect(talk.stderr()).toContain('an unknown configuration key is ignored')
  expect(talk.stderr()).toContain('"key":"modules.good.config.blocked_action","nearest":"blocked_actions"')
})

test('CFG-05: a deny rule wins, whatever the order of rules and however broadly others allow the tool', async () => {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules/good.mjs'), moduleOf('good'))
  const said = async (settings: object): Promise<string> => {
    const { app } = await startApp({ exposure: { mode: 'direct' }, ...settings }, dir)
    const client = await connectTo(app)
    const result = await callTool(client, { name: 'good__say', arguments: {} })
    const listed = (await client.listTools()).tools.some(({ name }) => name === 'good__say')
    await client.close()
    await app.stop()
    expect(listed).toBe(!result.error && !result.isError)
    return codeOf(result)
  }
  const constraints = (one: object) => ({ modules: { good: { constraints: one } } })
  for (const settings of [
    { policy: { allow: ['good.say'], deny: ['good.say'] } },
    { policy: { deny: ['good.say'], allow: ['good.say'] } },
    { policy: { allow: ['*'], deny: ['good.say'] } },
    { policy: { allow: ['good.say'], deny: ['*'] } },
    { policy: { allow: ['good.say'], deny: [{ module: 'good' }] } },
    constraints({ allowed_actions: ['say'], blocked_actions: ['say'] }),
    { ...constraints({ blocked_actions: ['say'] }), policy: { allow: ['*'] } },
    { policy: { default: 'block', allow: ['good.*'], deny: ['good.s*'] } },
  ])
    expect(await said(settings), JSON.stringify(settings)).toBe('E_NOT_FOUND')
  expect(await said({ policy: { default: 'block', allow: ['good.*'], deny: ['other.*'] } })).toBe('good')
})

test('CFG-06: a program gets the value of a variable literally, without templates or a shell', async () => {
  const dir = temporaryFolder()
  const shell = '$(touch pwned); `id` | cat > x && "q" \'p\' %PATH% *'
  const here: Place = place({
    exposure: { mode: 'direct' },
    mcpServers: {
      s: scripted('${A}', '${X}', '${NONE:-${ONE}}', '${NONE:-$(touch pwned)}', '${EMPTY:-full}', '$${ONE}'),
      t: { ...scripted('${NONE:-${NOWHERE}}') },
    },
  })
  const env = { ...here.env, HOME: dir, A: '${B}', B: '${A}', X: shell, ONE: '1', EMPTY: '' }
  const talk = await talkTo({ ...here, env })
  talk.send({ id: 1, method: 'tools/call', params: { name: 's__get_arguments', arguments: {} } })
  const given = JSON.parse(((await talk.answer(1)) as Answer).result.content[0].text)
  // Values are not expanded, so A and B cannot form a cycle.
  expect(given).toEqual(['${B}', shell, '1', '$(touch pwned)', 'full', '${ONE}'])
  expect(talk.stderr()).toContain('mcpServers.t.args.1 needs the environment variable NOWHERE, which is not set')
})

/** @param mode of the configuration file */
function writable(mode: number): Place {
  const here = place({ exposure: { mode: 'direct' } })
  chmodSync(here.config, mode)
  return here
}

test.skipIf(process.platform === 'win32')(
  'CFG-07: a configuration that others can write is rejected over HTTP and causes a warning elsewhere, with the fix',
  async () => {
    const refused = await ends(writable(0o666), 'serve', '--http', '--port', '0')
    expect([refused.code, refused.stdout]).toEqual([1, ''])
    expect(refused.stderr).toMatch(/E_CONFIG_WRITABLE: .*every user of this machine can write it; run chmod o-w \//)
    const talk = await talkTo(writable(0o646))
    expect(talk.stderr()).toMatch(/warning: The configuration file is not safe: .*chmod o-w/)
    const checked = JSON.parse((await ends(writable(0o602), 'check', '--json')).stdout)
    expect(checked.warnings.join()).toContain('every user of this machine can write it')
    const quiet = await talkTo(writable(0o644))
    expect(quiet.stderr()).not.toContain('not safe')
    await serveHttp(writable(0o600))
  },
)

test.skipIf(process.getuid?.() !== 0)(
  'CFG-07: a configuration that another user owns is rejected over HTTP and causes a warning elsewhere',
  async () => {
    const here = writable(0o644)
    chownSync(here.config, 65_533, 65_533)
    const refused = await ends(here, 'serve', '--http', '--port', '0')
    expect(refused.code).toBe(1)
    expect(refused.stderr).toContain('it belongs to another user (65533); make it yours with chown')
    expect((await talkTo(here)).stderr()).toContain('warning: The configuration file is not safe: it belongs to')
  },
)

test('CFG-09: Pegboard warns about a server without a fixed version and does not start it in locked mode', async () => {
  const dir = temporaryFolder()
  // A local package instead of one that npx would download: it records its start, and serves.
  mkdirSync(join(dir, 'bin'))
  writeFileSync(join(dir, 'tools.json'), JSON.stringify({ tools: [add] }))
  writeFileSync(
    join(dir, 'bin/npx'),
    `#!/bin/sh\ntouch "${dir}/ran-$2"\nexec ${JSON.stringify(process.execPath)} ${JSON.stringify(LISTED)} ${JSON.stringify(join(dir, 'tools.json'))}\n`,
    { mode: 0o755 },
  )
  const entry = (name: string) => ({ command: 'npx', args: ['-y', name], start: 'background' })
  const here = place({ mcpServers: { loose: entry('server@latest'), exact: entry('server@1.2.3') } })
  const env = { ...here.env, PATH: `${join(dir, 'bin')}:${process.env.PATH}` }
  const checked = JSON.parse((await ends({ ...here, env }, 'check', '--json')).stdout)
  expect([checked.ok, checked.warnings.join('\n')]).toEqual([
    true,
    expect.stringContaining(
      'These servers fetch the newest version of a package when they start: mcpServers.loose (server@latest). To run a fixed version, write name@1.2.3.',
    ),
  ])
  const reason = 'mcpServers.loose fetches the newest version of server@latest, which --frozen refuses'
  const frozen = JSON.parse((await ends({ ...here, env }, 'check', '--json', '--frozen')).stdout)
  expect([frozen.ok, frozen.errors]).toEqual([false, [reason]])
  const ran = (name: string): boolean => existsSync(join(dir, `ran-${name}`))
  expect([ran('server@latest'), ran('server@1.2.3')]).toEqual([true, true])
  for (const name of ['server@latest', 'server@1.2.3']) rmSync(join(dir, `ran-${name}`))
  const child = spawn(process.execPath, [cli, 'serve', '--stdio', '--frozen', '--config', here.config], {
    env: { ...env, PEGBOARD_STATE_DIR: join(dir, 'other') },
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk
  })
  const ended = once(child, 'close')
  await until(() => stderr.includes(reason))
  await until(() => ran('server@1.2.3'))
  expect(ran('server@latest')).toBe(false)
  child.stdin.end()
  await ended
})

test('CFG-11: a read-only tool gets no service that writes, fetches or starts a program', async () => {
  const spy = `export default {
  name: 'spy', description: 'Tries what it must not.', readOnly: true,
  tools: {
    look: { description: 'Tries one thing that changes something.', effect: 'read', input: { type: 'object', properties: { what: { type: 'string' } } },
      run: async ({ what }, ctx) => {
        if (what === 'kv') await ctx.services.kv.set('a', 1)
        if (what === 'incr') await ctx.services.kv.incr('a')
        if (what === 'servers') ctx.services.servers.list = 1
        if (what === 'context') ctx.host = 1
        if (what === 'roles') ctx.caller.roles.push('admin')
        if (what === 'config') ctx.config.a = 1
        if (what === 'shared') ctx.shared.state.n = 2
        if (what === 'call') await ctx.call('writer.say', {})
        if (what === 'post') await ctx.fetch('http://127.0.0.1:9/', { method: 'POST', body: 'x' })
        return 'looked'
      } },
  },
}`
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  const writer = moduleOf('writer').replace("effect: 'read'", "effect: 'write'")
  for (const [name, text] of Object.entries({
    'spy.mjs': spy,
    'writer.mjs': writer,
    '_state.mjs': 'export const n = 1',
  }))
    writeFileSync(join(dir, 'modules', name), text)
  const liar = moduleOf('liar', 'readOnly: true,').replace("effect: 'read'", "effect: 'write'")
  writeFileSync(join(dir, 'modules/liar.mjs'), liar)
  const { app } = await startApp({ exposure: { mode: 'direct' } }, dir, { level: 'error' })
  const client = await connectTo(app)
  onTestFinished(() => client.close())
  const look = async (what: string): Promise<string> => {
    const result: Answer = await client.callTool({ name: 'spy__look', arguments: { what } })
    return result.isError ? result.structuredContent.error.code : result.content[0].text
  }
  expect(await look('nothing')).toBe('looked')
  for (const what of ['kv', 'incr', 'servers', 'context', 'roles', 'config', 'shared', 'call', 'post'])
    expect(await look(what), what).toBe('E_READ_ONLY_CONTRACT')
  // The loader rejects it: a module that declares writes is not read-only.
  expect(app.failed()).toMatchObject([
    { file: 'liar.mjs', code: 'E_MODULE_SHAPE', error: expect.stringContaining('liar.say is read-only') },
  ])
  expect(answerOf(await client.callTool({ name: 'list_categories', arguments: {} })).categories).toBeDefined()
})
