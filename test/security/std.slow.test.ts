import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type Answer, servers } from '../app.ts'
import { count } from '../count.mjs'
import { cli, descendants, gone, place, run, serveHttp, type Talk, talkTo } from '../process.ts'
import { until } from '../upstream/host.ts'
import { soonest } from './lag.ts'

/** A module that writes a mark to disk when one of its tools runs. */
const marking = (file: string): string => `
import { appendFileSync } from 'node:fs'
export default {
  name: 'marks', description: 'Leaves a mark.',
  tools: { leave: { description: 'Leaves a mark on disk.', effect: 'write', run: () => { appendFileSync(${JSON.stringify(file)}, 'x'); return 'left' } } },
}`

/** A server with that module, and the number of runs of its tool. */
async function marked(): Promise<Talk & { readonly ran: () => number }> {
  const here = place({ exposure: { mode: 'direct' } })
  const file = join(here.dir, 'marks')
  writeFileSync(join(here.dir, 'modules/marks.mjs'), marking(file))
  const talk = await talkTo(here)
  return { ...talk, ran: () => (existsSync(file) ? readFileSync(file, 'utf8').length : 0) }
}

/** Sends a literal line. */
function raw({ child }: Talk, line: string | Buffer): void {
  count('fault')
  child.stdin?.write(line)
  child.stdin?.write('\n')
}

const errors = ({ messages }: Talk): Answer[] => messages.flatMap((message: Answer) => message.error ?? [])

/** Still running, and answers the next message. */
async function serves(talk: Talk, id: number): Promise<void> {
  talk.send({ id, method: 'ping' })
  expect(((await talk.answer(id)) as Answer).result).toEqual({})
  expect(talk.child.exitCode).toBeNull()
}

test('STD-01: a line that is not JSON is rejected, and the next request is served', async () => {
  const talk = await talkTo(place())
  for (const line of ['not json', '{"jsonrpc":"2.0",', '\u0000', '"text"', '12', 'null', '{}', ' \t ']) raw(talk, line)
  talk.send({ id: 1, method: 'tools/list' })
  expect(((await talk.answer(1)) as Answer).result.tools.length).toBeGreaterThan(3)
  // Parsing would have failed if a line on stdout were not JSON.
  const told = talk.messages.filter(({ id }) => id === null) as Answer[]
  expect(told.map(({ jsonrpc, error }) => [jsonrpc, error.code])).toEqual([
    ['2.0', -32700],
    ['2.0', -32700],
    ['2.0', -32700],
    ['2.0', -32600],
    ['2.0', -32600],
    ['2.0', -32600],
    ['2.0', -32600],
    ['2.0', -32700],
  ])
})

test('STD-02: a line of 20 MiB is rejected with its id if that is readable, and the next request is served', async () => {
  const talk = await talkTo(place())
  const long = 'y'.repeat(20 * 1024 * 1024)
  raw(talk, `{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"${long}"}}`)
  raw(talk, `{"jsonrpc":"2.0","method":"ping","params":{"x":"${long}","id":6},"id":"six"}`)
  raw(talk, `{"jsonrpc":"2.0","method":"ping","params":{"x":"${long}"}}`)
  await serves(talk, 7)
  const refusal = { code: -32600, message: 'Invalid request: message exceeds 4194304 bytes' }
  expect(talk.messages.filter(({ error }) => error)).toEqual([
    { jsonrpc: '2.0', id: 5, error: refusal },
    { jsonrpc: '2.0', id: 'six', error: refusal },
    { jsonrpc: '2.0', id: null, error: refusal },
  ])
})

test('STD-04: a batch is rejected as a batch, and nothing of it runs', async () => {
  const talk = await marked()
  const call = { jsonrpc: '2.0', method: 'tools/call', params: { name: 'marks__leave', arguments: {} } }
  raw(
    talk,
    JSON.stringify([
      { ...call, id: 1 },
      { ...call, id: 2 },
    ]),
  )
  raw(talk, '[]')
  await serves(talk, 3)
  const refusal = { code: -32600, message: 'Invalid request: batch not supported, send one message a line' }
  expect(errors(talk)).toEqual([refusal, refusal])
  expect(talk.ran()).toBe(0)
})

test('2025-03-26, the only revision with batches, accepts one and answers with one', async () => {
  const here = place({ exposure: { mode: 'direct' } }, { 'two.mjs': TWO })
  const talk = await talkTo(here, [], '2025-03-26')
  const call = (id: number, name: string) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name, arguments: {} },
  })
  const listed = { jsonrpc: '2.0', id: 3, method: 'tools/list' }
  const resources = { jsonrpc: '2.0', id: 4, method: 'resources/list' }
  const noted = { jsonrpc: '2.0', method: 'notifications/x' }
  const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 5 } }
  raw(
    talk,
    JSON.stringify([
      call(1, 'two__slow'),
      call(2, 'two__fast'),
      listed,
      resources,
      noted,
      call(5, 'two__slow'),
      cancel,
      call(2, 'two__fast'),
    ]),
  )
  const batches = (): Answer[][] => talk.messages.filter((message) => Array.isArray(message)) as never
  await expect.poll(() => batches().length).toBe(1)
  const [answers = []] = batches()
  expect(answers.map(({ id }) => id).sort()).toEqual([1, 2, 2, 3, 4])
  expect(answers.filter(({ error }) => error)).toEqual([{ jsonrpc: '2.0', id: 2, error: IN_FLIGHT }])
  expect(answers.find(({ id }) => id === 3)?.result.tools.length).toBeGreaterThan(3)
  // None of them arrived individually, either.
  expect(talk.messages.filter(({ id }) => [1, 2, 3, 4, 5].includes(id as number))).toEqual([])

  raw(talk, JSON.stringify([noted]))
  raw(talk, '[]')
  raw(talk, JSON.stringify([{ ...listed, method: 'initialize', params: {} }]))
  raw(talk, `[${JSON.stringify(listed)}`)
  await serves(talk, 7)
  expect(errors(talk).map(({ code }) => code)).toEqual([-32600, -32602, -32700])
})

test('STD-05: an invalid id is rejected, and nothing runs', async () => {
  const talk = await marked()
  for (const id of [{ a: 1 }, null, 1.5, true, [], 'i'.repeat(1024 * 1024), 2 ** 60])
    raw(
      talk,
      JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'marks__leave', arguments: {} } }),
    )
  await serves(talk, 3)
  expect(errors(talk)).toEqual(
    Array.from({ length: 7 }, () => ({
      code: -32600,
      message: 'Invalid request: id must be a string or an integer',
    })),
  )
  expect(talk.ran()).toBe(0)
})

const TWO = `let runs = 0
export default { name: 'two', description: 'Two tools.', tools: {
  slow: { description: 'Answers late.', effect: 'write', run: () => new Promise((done) => setTimeout(() => done('slow ' + ++runs), 700)) },
  fast: { description: 'Answers at once.', effect: 'write', run: () => 'fast ' + ++runs } } }`
const IN_FLIGHT = { code: -32600, message: 'Invalid request: id already in flight' }

test('STD-06: a request with the id of a running one is rejected, and the first gets its own result', async () => {
  const talk = await talkTo(place({ exposure: { mode: 'direct' } }, { 'two.mjs': TWO }))
  const call = (id: number | string, name: string) =>
    talk.send({ id, method: 'tools/call', params: { name, arguments: {} } })
  call(1, 'two__slow')
  call(1, 'two__fast')
  call(1, 'tools/unknown')
  talk.send({ id: 1, method: 'ping' })
  // A different id that reads the same.
  call('1', 'two__fast')
  const answers = (id: number | string): Answer[] => talk.messages.filter((message) => message['id'] === id)
  await expect.poll(() => answers(1).length).toBe(4)
  expect(
    answers(1)
      .slice(0, 3)
      .map(({ error }) => error),
  ).toEqual([IN_FLIGHT, IN_FLIGHT, IN_FLIGHT])
  expect(answers(1)[3].result.content[0].text).toBe('slow 2')
  expect(answers('1').map(({ result }) => result.content[0].text)).toEqual(['fast 1'])
  // The id is free again, and so is one of a cancelled request.
  call(1, 'two__fast')
  await expect.poll(() => answers(1).length).toBe(5)
  expect(answers(1)[4].result.content[0].text).toBe('fast 3')
  call(2, 'two__slow')
  talk.send({ method: 'notifications/cancelled', params: { requestId: 2 } })
  call(2, 'two__fast')
  await expect.poll(() => answers(2).length).toBe(1)
  expect(answers(2)[0].result.content[0].text).toMatch(/^fast/)
})

test('STD-06: the same within a session over HTTP, and over SSE', async () => {
  const { url, token } = await serveHttp(place({ exposure: { mode: 'direct' } }, { 'two.mjs': TWO }))
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  }
  const post = (to: string | URL, body: object, more: Record<string, string> = {}) =>
    fetch(to, { method: 'POST', headers: { ...headers, ...more }, body: JSON.stringify({ jsonrpc: '2.0', ...body }) })
  const initialize = {
    id: 0,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
  }
  const call = (name: string) => ({ id: 1, method: 'tools/call', params: { name, arguments: {} } })
  const session = { 'mcp-session-id': String((await post(url, initialize)).headers.get('mcp-session-id')) }
  await post(url, { method: 'notifications/initialized' }, session)
  const first = post(url, call('two__slow'), session)
  await new Promise((resolve) => setTimeout(resolve, 200))
  const second = await post(url, call('two__fast'), session)
  expect([second.status, ((await second.json()) as Answer).error]).toEqual([400, IN_FLIGHT])
  expect(await (await first).text()).toContain('slow 1')

  const stream = await fetch(new URL('/sse', url), { headers: { ...headers, accept: 'text/event-stream' } })
  const reader = (stream.body as ReadableStream<Uint8Array>).getReader()
  onTestFinished(() => reader.cancel())
  let said = ''
  const until = async (wanted: RegExp): Promise<string> => {
    while (!wanted.test(said)) said += Buffer.from((await reader.read()).value ?? []).toString()
    return said
  }
  const [, path = ''] = /data: (\/\S+)/.exec(await until(/data: \/\S+\n/)) ?? []
  const to = new URL(path, url)
  await post(to, initialize)
  await until(/"serverInfo"/)
  await post(to, { method: 'notifications/initialized' })
  await post(to, call('two__slow'))
  await post(to, call('two__fast'))
  expect(await until(/slow 2/)).toContain(JSON.stringify({ jsonrpc: '2.0', id: 1, error: IN_FLIGHT }))
  expect(said).not.toContain('fast')
})

test('STD-07: a key in another case, or with a look-alike letter, is not a key of a message', async () => {
  const talk = await marked()
  const params = '{"name":"marks__leave","arguments":{}}'
  const lines = [
    `{"jsonrpc":"2.0","id":11,"Method":"tools/call","params":${params}}`,
    `{"jsonrpc":"2.0","id":12,"method":"Tools/Call","params":${params}}`,
    `{"jsonrpc":"2.0","id":13,"method":"tools/call","param\u017f":${params}}`,
    `{"jsonrpc":"2.0","id":14,"method":"tools/call","Params":${params}}`,
    `{"JSONRPC":"2.0","id":15,"method":"tools/call","params":${params}}`,
    `{"jsonrpc":"2.0","ID":16,"method":"tools/call","params":${params}}`,
    `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"Name":"marks__leave","argument\u017f":{}}}`,
    `{"jsonrpc":"2.0","id":18,"method":"tool\u017f/call","params":${params}}`,
    `{"jsonrpc":"2.0","id":19,"METHOD":"ping","method":"tools/call","params":${params}}`,
  ]
  for (const line of lines) raw(talk, line)
  await serves(talk, 3)
  for (const id of [11, 12, 13, 14, 15, 17, 18, 19])
    expect([-32600, -32601, -32602], String(id)).toContain(((await talk.answer(id)) as Answer).error?.code)
  expect(talk.ran()).toBe(0)
  raw(talk, `{"jsonrpc":"2.0","id":20,"method":"tools/call","params":${params}}`)
  expect(((await talk.answer(20)) as Answer).result.content[0].text).toBe('left')
})

test('STD-09: output of a module goes to stderr, and stdout contains only protocol messages', async () => {
  const noisy = `
import { writeSync } from 'node:fs'
export default {
  name: 'noisy', description: 'Prints where it should not.',
  tools: { shout: { description: 'Prints to stdout and answers.', effect: 'read', run() {
    console.log('loud'); process.stdout.write('louder\\n'); console.info('{"jsonrpc":"2.0","id":1,"result":{}}'); return 'said' } } },
}`
  const talk = await talkTo(place({ exposure: { mode: 'direct' } }, { 'noisy.mjs': noisy }))
  talk.send({ id: 1, method: 'tools/call', params: { name: 'noisy__shout', arguments: {} } })
  expect(((await talk.answer(1)) as Answer).result.content[0].text).toBe('said')
  await serves(talk, 2)
  expect(talk.messages.filter(({ id }) => id === 1)).toHaveLength(1)
  expect(talk.stderr()).toContain('loud\nlouder\n{"jsonrpc"')
})

test('output of a program that a module starts with our stdout goes to stderr, and the program reads no client input', async () => {
  const starts = `
import { execFileSync, execSync, fork, spawn, spawnSync } from 'node:child_process'
import * as all from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
const say = (text) => ['-e', 'process.stdout.write("printed by ' + text + '\\\\n"); process.stdin.on("data", (d) => process.stderr.write("stolen " + d)); setTimeout(() => process.exit(), 150)']
const ended = (child) => new Promise((done) => child.once('exit', done))
const node = process.execPath
const file = join(process.env.HOME, 'child.mjs')
writeFileSync(file, 'console.log("printed by fork")')
export default { name: 'starts', description: 'Starts programs.', tools: { all: { description: 'Starts some.', effect: 'write', async run() {
  spawnSync(node, say('spawnSync'), { stdio: 'inherit' })
  execFileSync(node, say('execFileSync'), { stdio: ['pipe', 'inherit', 'inherit'] })
  execSync('echo printed by execSync', { stdio: [0, 1, 2] })
  all.default.spawnSync(node, say('default'), { stdio: ['ignore', process.stdout, 'inherit'] })
  await Promise.all([
    ended(spawn(node, say('spawn'), { stdio: 'inherit' })),
    ended(spawn(node, say('stream'), { stdio: ['inherit', process.stdout, 'pipe'] })),
    ended(fork(file)),
  ])
  return String(spawnSync(node, say('pipe')).stdout)
} } } }`
  const talk = await talkTo(place({ exposure: { mode: 'direct' } }, { 'starts.mjs': starts }))
  talk.send({ id: 1, method: 'tools/call', params: { name: 'starts__all', arguments: {} } })
  for (let id = 2; id < 12; id++) talk.send({ id, method: 'ping' })
  expect(((await talk.answer(1)) as Answer).result.content[0].text).toBe('printed by pipe\n')
  for (let id = 2; id < 12; id++) expect(((await talk.answer(id)) as Answer).result).toEqual({})
  for (const name of ['spawnSync', 'execFileSync', 'execSync', 'default', 'spawn', 'stream', 'fork'])
    await expect.poll(talk.stderr).toContain(`printed by ${name}`)
  expect(talk.stderr()).not.toContain('stolen')
  await serves(talk, 20)
})

test('STD-11: when its client disconnects, the process exits with 0 within 2 s together with its children', async () => {
  const took = await soonest(
    2_000,
    async () => {
      const talk = await talkTo(place({ exposure: { mode: 'direct' }, mcpServers: { thinking: servers.thinking } }))
      talk.send({ id: 1, method: 'tools/list' })
      await talk.answer(1)
      let children: number[] = []
      for (const end = Date.now() + 10_000; children.length === 0 && Date.now() < end; )
        children = (await descendants(talk.child.pid))
          .filter(({ args }) => args.includes('sequential-thinking'))
          .map(({ pid }) => pid)
      expect(children.length).toBeGreaterThan(0)
      const ended = once(talk.child, 'exit')
      const left = performance.now()
      talk.child.stdin?.end()
      expect(await ended).toEqual([0, null])
      const took = performance.now() - left
      for (const pid of children) expect(await gone(pid)).toBe(true)
      return took
    },
    3,
  )
  expect(took).toBeLessThan(2_000)
})

test('STD-13: when its reader has exited, the process exits with 0 without an error message', async () => {
  const { config, env } = place()
  // A real pipe whose reader reads one line and exits.
  const script = '{ "$0" "$@"; echo "ended with $?" >&2; times >&2; } | head -n 1 >/dev/null'
  const child = run('sh', ['-c', script, process.execPath, cli, 'serve', '--stdio', '--config', config], { env })
  const line = (message: object): void =>
    void child.child.stdin?.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
  line({ id: 0, method: 'initialize', params })
  const asking = setInterval(() => line({ id: 1, method: 'tools/list' }), 50)
  child.child.stdin?.on('error', () => undefined)
  // It ends by itself, because stdin stays open.
  const { stderr } = await child.finally(() => clearInterval(asking))
  expect(stderr).toContain('ended with 0')
  // Its total processor time, the last line of `times`: it did not loop.
  const [user, system] = [...stderr.matchAll(/(\d+)m([\d.]+)s/g)]
    .slice(-2)
    .map(([, m, s]) => Number(m) * 60 + Number(s))
  expect(Number(user) + Number(system)).toBeLessThan(3)
  expect(stderr).not.toMatch(/EPIPE|uncaught|^\s+at /m)
})

test.runIf(process.platform === 'linux')(
  'STD-14: Pegboard stops reading from a client that does not read 5,000 answers of 50 KB, uses under 256 MiB, and later sends all',
  async () => {
    const big = `export default { name: 'big', description: 'Long answers.', tools: {
      say: { description: 'Answers 50 KB.', effect: 'read', run: () => 'y'.repeat(50_000) } } }`
    const settings = { exposure: { mode: 'direct' }, execution: { maxResultTokens: 0 } }
    const talk = await talkTo(place(settings, { 'big.mjs': big }))
    const { child, messages } = talk
    const call = (id: number): void =>
      talk.send({ id, method: 'tools/call', params: { name: 'big__say', arguments: {} } })
    call(1)
    await talk.answer(1)
    child.stdout.pause()
    for (let id = 2; id <= 5_001; id++) call(id)
    // Pegboard has stopped reading when it accepts no more input.
    let unsent = -1
    while (unsent !== child.stdin.writableLength) {
      unsent = child.stdin.writableLength
      await new Promise((done) => setTimeout(done, 1_000))
    }
    expect(unsent).toBeGreaterThan(300_000)
    child.stdout.resume()
    const outcomes = new Map<unknown, unknown>()
    await expect
      .poll(
        () => {
          for (const { id, result } of messages.splice(0) as Answer[]) {
            const [code, text] = [result?.structuredContent?.error?.code, result?.content?.[0]?.text]
            outcomes.set(id, code ?? text?.length)
          }
          return [2, 5_001].every((id) => outcomes.has(id)) && outcomes.size
        },
        { timeout: 90_000, interval: 20 },
      )
      .toBe(5_002)
    for (let id = 2; id <= 5_001; id++) expect([50_000, 'E_OVERLOADED']).toContain(outcomes.get(id))
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
    expect(Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1]) / 1024).toBeLessThan(256)
    await serves(talk, 6_000)
  },
  150_000,
)

test('STD-15: invalid UTF-8 and replacement characters never become a file name', async () => {
  const here = place({ exposure: { mode: 'direct' }, modules: { filesystem: { config: { root: '.' } } } })
  const talk = await talkTo(here)
  const replaced = '\ufffd'
  writeFileSync(join(here.dir, `a${replaced}.txt`), 'a name nobody asked for')
  const call = (id: number, path: Buffer): void =>
    raw(
      talk,
      Buffer.concat([
        Buffer.from(
          `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"filesystem__read","arguments":{"path":"`,
        ),
        path,
        Buffer.from('"}}}'),
      ]),
    )
  call(2, Buffer.from([0x61, 0xff, 0x2e, 0x74, 0x78, 0x74]))
  call(3, Buffer.from(`a${replaced}.txt`))
  call(4, Buffer.from('a\\ud800.txt'))
  writeFileSync(join(here.dir, 'plain.txt'), 'seen')
  call(5, Buffer.from('plain.txt'))
  expect(((await talk.answer(5)) as Answer).result.content[0].text).toContain('seen')
  expect(errors(talk)).toEqual([{ code: -32700, message: 'Parse error: the line is not UTF-8' }])
  for (const id of [3, 4])
    expect(((await talk.answer(id)) as Answer).result.structuredContent.error.code, String(id)).toBe('E_VALIDATION')
  expect(JSON.stringify(talk.messages)).not.toContain('a name nobody asked for')
})

test('STD-16: a cancellation of an unknown request is ignored silently', async () => {
  const talk = await talkTo(place())
  talk.send({ id: 1, method: 'tools/list' })
  await talk.answer(1)
  await until(() => talk.stderr().length > 0)
  const [said, logged] = [talk.messages.length, talk.stderr().length]
  const forms = [{ requestId: 999 }, { requestId: 1 }, {}, { requestId: { a: 1 } }, { requestId: null }, undefined]
  for (const params of forms) {
    count('fault')
    for (let n = 0; n < 200; n++) talk.send({ method: 'notifications/cancelled', ...(params && { params }) })
  }
  await serves(talk, 2)
  expect(talk.messages.length).toBe(said + 1)
  expect(talk.stderr().length - logged).toBeLessThan(1_000)
})
