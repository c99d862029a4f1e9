import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { silentLog } from '../../src/core/log.ts'
import { createResultStore } from '../../src/results/result-store.ts'
import { keptResultsOptions } from '../../src/results/results-options.ts'
import { createProcessMark } from '../../src/state/process-mark.ts'
import { answerOf, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { serve } from '../listed-server.ts'
import { appWithResults, handleIn } from '../long-results.ts'

it('a result at the limit stays whole, and one above it gets a handle that reads on', async () => {
  const { call, text } = await appWithResults()
  expect((await call('big.words', { count: 6_000 })).content[0]?.text).toBe('word '.repeat(6_000))
  const long = await text('big.words', { count: 9_000 })
  expect(long).toMatch(
    /^\[big\.words: 45\.0 kB, 1 line, about 9,000 tokens, above the limit of 8,000\. Kept as r_\w+ for 60 min\.\]\nBeginning:\nword /,
  )
  // The limit counts the most tokens that a text can have.
  expect(await text('big.words', { count: 7_000 })).toMatch(
    /^\[big\.words: 35\.0 kB, 1 line, about 7,000 tokens\. The whole result may exceed the limit of 8,000\. Kept as /,
  )
  expect(long).toMatch(/Read on with execute_tool read_result \{"handle":"r_\w+"\}: page, lines, grep, [\w, ]+\.\]$/)
  expect(long.length).toBeLessThan(6_000)
})

it('a table shows its shape and its first rows', async () => {
  const text = await (await appWithResults()).text('big.rows', { count: 500 })
  expect(text).toContain('Shape: 500 × {id: integer, name: string, city: string, total: integer, open: boolean}')
  expect(text).toContain('\n{"id":0,"name":"Customer 0","city":"Wien","total":0,"open":true}\n')
})

it.each([
  ['a client that reads structured content', 'claude-code'],
  ['a client that reads content', 'gemini-cli-mcp-client'],
])('%s gets each result once', async (_what, name) => {
  const { call } = await appWithResults({}, 'legacy', name)
  const row = { id: 0, name: 'Customer 0', city: 'Wien', total: 0, open: true }
  expect(await call('big.rows', { count: 1 })).toEqual({
    content: [{ type: 'text', text: JSON.stringify({ success: true, data: [row] }) }],
  })
  expect(await call('big.fails')).toMatchObject({ content: [{ text: expect.stringContaining('No such row.') }] })
  expect(await call('big.fails')).not.toHaveProperty('structuredContent')
})

it('an unknown client gets both forms, and only one if both are above the limit together', async () => {
  const { call } = await appWithResults()
  const { structuredContent } = await call('big.rows', { count: 1 })
  expect(structuredContent).toMatchObject({ success: true, data: [{ id: 0 }] })
  const larger = await call('big.rows', { count: 200 })
  expect(larger.structuredContent).toBeUndefined()
  expect(JSON.parse(larger.content[0]?.text ?? '').data).toHaveLength(200)
})

it('execute_tool returns a text as it is', async () => {
  const { call } = await appWithResults()
  expect(await call('big.quotes')).toMatchObject({
    content: [{ type: 'text', text: 'He said "no".\nThen {"a":"b"}' }],
    structuredContent: { success: true, data: 'He said "no".\nThen {"a":"b"}' },
  })
})

it('run_parallel and background_result have no JSON inside JSON, and keep what is long', async () => {
  const { connection, text } = await appWithResults()
  const run = async (name: string, params: object) => {
    const { content } = await connection.callTool({ name, arguments: params as never })
    const { text: said = '' } = (content as { text?: string }[])[0] ?? {}
    return { said, value: JSON.parse(said) }
  }
  const { said, value } = await run('run_parallel', {
    actions: [
      { name: 'big.json', params: { count: 2 } },
      { name: 'big.words', params: { count: 50_000 } },
      { name: 'big.rows', params: { count: 5_000 } },
      { name: 'big.fails', params: { long: true } },
      { name: 'big.rows', params: { count: 1 } },
    ],
  })
  expect(said).not.toContain('\\"')
  expect(said.length).toBeLessThan(32_000)
  const [json, words, rows, failed, short] = value.results
  expect(json.data).toEqual({
    total: 2,
    items: [expect.objectContaining({ id: 0 }), expect.objectContaining({ id: 1 })],
  })
  expect(words.data).toMatchObject({ kept: expect.stringMatching(/^r_/), beginning: expect.stringMatching(/^word /) })
  expect(rows.data).toMatchObject({
    shape: expect.stringContaining('5000 × {id'),
    beginning: [{ id: 0 }, { id: 1 }, ...rows.data.beginning.slice(2)],
  })
  expect(failed).toMatchObject({
    success: false,
    error: expect.stringMatching(/^E_TOOL_FAILED/),
    details: { kept: expect.stringMatching(/^r_/) },
  })
  expect(short.data).toHaveLength(1)
  expect(await text('read_result', { handle: rows.data.kept, path: '$[4999].id' })).toContain('\n4999')

  const { value: task } = await run('background_run', { name: 'big.rows', params: { count: 5_000 } })
  const { value: done } = await run('background_wait', { task_id: task.task_id })
  expect(done.result).toMatchObject({ shape: expect.stringContaining('5000 × {id') })
  const { value: small } = await run('background_run', { name: 'big.json', params: { count: 1 } })
  expect((await run('background_wait', { task_id: small.task_id })).value.result).toMatchObject({ total: 1 })
})

it('an error that is too long is kept, and still an error', async () => {
  const { call } = await appWithResults()
  const failed = await call('big.fails', { long: true })
  expect(failed.isError).toBe(true)
  expect(failed.content[0]?.text).toMatch(/^\[big\.fails: [\s\S]*Beginning:\nE_TOOL_FAILED/)
})

it('a picture is passed on, and a large one and other bytes become one line with a link', async () => {
  const { call, connection } = await appWithResults()
  expect(await call('big.file', { bytes: 1_000, mimetype: 'image/png' })).toMatchObject({
    content: [{ type: 'text' }, { type: 'image', mimeType: 'image/png' }],
  })
  const { content } = await call('big.file', { bytes: 200_000, mimetype: 'application/zip' })
  const note = content.map(({ text }) => text).join('\n')
  expect(note).toMatch(/\[big\.file: application\/zip, 200\.0 kB, kept as r_\w+ for 60 min\./)
  const read = await call('read_result', { handle: handleIn(note) })
  expect(read.content[1]).toMatchObject({ type: 'resource_link', mimeType: 'application/zip', size: 200_000 })
  const { contents } = await connection.readResource({ uri: `keptresult://${handleIn(note)}` })
  expect(Buffer.from((contents[0] as { blob: string }).blob, 'base64')).toHaveLength(200_000)
})

it('maxResultTokens of a tool counts before that of the client', async () => {
  const settings = {
    execution: { maxResultTokens: 3_000 },
    clients: { 'test-client': { maxResultTokens: 600 } },
    tools: { 'big.words': { maxResultTokens: 0 } },
  }
  const { text } = await appWithResults(settings)
  expect(await text('big.words', { count: 20_000 })).toHaveLength(100_000)
  expect(await text('big.rows', { count: 40 })).toContain('above the limit of 600.')
})

it('the limit of a tool does not apply to a meta-tool whose name is another spelling of its id', async () => {
  const { app } = await serve(
    { search: { tools: [{ name: 'tools', inputSchema: { type: 'object' } }] } },
    { search: { trust: 'always', maxResultTokens: 500 } },
    undefined,
    {},
    { exposure: { mode: 'discovery' } },
  )
  const client = await connectTo(app)
  const query = { query: 'read a file', max_results: 20, detail: 'full' }
  const found = answerOf(await client.callTool({ name: 'search_tools', arguments: query }))
  expect(found.tools.length).toBeGreaterThan(5)
})

it('read_result is found by search once there is a handle, and listed where all tools are', async () => {
  const { connection, call, text } = await appWithResults()
  const names = async () => (await connection.listTools()).tools.map(({ name }) => name)
  expect(await names()).not.toContain('read_result')
  const search = async () =>
    JSON.stringify(
      await connection.callTool({ name: 'search_tools', arguments: { query: 'read on in a long result by handle' } }),
    )
  expect(await search()).not.toContain('read_result')
  await text('big.words', { count: 20_000 })
  expect(await search()).toContain('"read_result"')
  expect(JSON.stringify(await call('read_result', { handle: 'r_x' }))).toContain("Result 'r_x' not found.")
  const direct = await appWithResults({ exposure: { mode: 'direct' } })
  expect((await direct.connection.listTools()).tools.map(({ name }) => name)).toContain('read_result')
})

it('a client that hides the tools of Pegboard is told when read_result is listed', async () => {
  const { connection } = await appWithResults({ exposure: { mode: 'direct', primitives: false } })
  const names = async () => (await connection.listTools()).tools.map(({ name }) => name)
  expect(await names()).not.toContain('read_result')
  const changed = new Promise<void>((resolve) =>
    connection.setNotificationHandler('notifications/tools/list_changed', () => resolve()),
  )
  await connection.callTool({ name: 'big__words', arguments: { count: 20_000 } })
  await changed
  expect(await names()).toContain('read_result')
})

it('results belong to a principal, are private files, and are gone with the session and the process', async () => {
  const { app, dir, text, connection } = await appWithResults()
  const handle = handleIn(await text('big.words', { count: 20_000 }))
  const [own = ''] = readdirSync(join(dir, 'state', 'results'))
  const file = join(dir, 'state', 'results', own, handle)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(statSync(join(file, '..')).mode & 0o777).toBe(0o700)
  const caller = {
    principal: 'eve',
    profile: 'default',
    roles: [],
    era: 'legacy',
    supports: { elicitation: false, sampling: false, roots: false },
  } as const
  await expect(app.surface.call({ name: 'read_result', input: { handle }, caller })).rejects.toThrow(
    `Result '${handle}' not found.`,
  )
  const { contents } = await connection.readResource({ uri: `keptresult://${handle}` })
  expect(contents[0]).toMatchObject({ text: 'word '.repeat(20_000) })
  await app.stop()
  expect(readdirSync(join(dir, 'state', 'results'))).toEqual([])
})

const owner = { principal: 'a', profile: 'default', session: 's' }
const storeIn = (dir: string, settings: object = {}) =>
  createResultStore({
    dir,
    settings: keptResultsOptions.parse(settings),
    clock: systemClock,
    log: silentLog,
    thread: '',
  })
const words = { data: 'x'.repeat(1_000), mimeType: 'text/plain', title: 't' }

it('the oldest results of a principal make room for new ones, and never those of others', async () => {
  const store = storeIn(temporaryFolder(), { maxCount: 2, maxBytes: 2_500 })
  const other = await store.keep({ ...owner, principal: 'b' }, words)
  const [first, second, third] = [
    await store.keep(owner, words),
    await store.keep(owner, words),
    await store.keep(owner, words),
  ]
  expect([first, second, third].map((one) => store.get(owner, one?.handle ?? '') !== undefined)).toEqual([
    false,
    true,
    true,
  ])
  expect(store.get({ ...owner, principal: 'b' }, other?.handle ?? '')).toBeDefined()
  expect(await store.keep(owner, { ...words, data: 'x'.repeat(3_000) })).toBeUndefined()
  store.close()
})

it('a result that would fill the disk is not kept, and leaves no file', async () => {
  const dir = temporaryFolder()
  const checked: number[] = []
  const store = createResultStore({
    dir,
    settings: keptResultsOptions.parse({}),
    clock: systemClock,
    log: silentLog,
    thread: '',
    async checkFreeSpace(_folder, bytes) {
      checked.push(bytes)
      throw Object.assign(new Error('the disk is nearly full'), { code: 'ENOSPC' })
    },
  })
  expect(await store.keep(owner, words)).toBeUndefined()
  expect(checked).toEqual([1_000])
  expect(readdirSync(dir, { recursive: true }).filter((name) => String(name).includes('r_'))).toEqual([])
  store.close()
})

it('slow questions of one principal do not delay those of another', async () => {
  const dir = temporaryFolder()
  const thread = join(dir, 'thread.cjs')
  writeFileSync(
    thread,
    `const { parentPort, workerData } = require('node:worker_threads')
    if (workerData.query.grep === 'slow') setInterval(() => undefined, 1_000)
    else parentPort.postMessage({ answer: { note: 'answered', text: '' } })`,
  )
  const settings = keptResultsOptions.parse({})
  const store = createResultStore({ dir, settings, clock: systemClock, log: silentLog, thread, patienceMs: 60_000 })
  const ask = async (principal: string, grep: string, signal?: AbortSignal) => {
    const from = { ...owner, principal }
    const kept = await store.keep(from, words)
    return await store.query(from, kept?.handle ?? '', { grep }, 100, signal)
  }
  const ended = Array.from({ length: 12 }, () => new AbortController())
  const slow = ended.map(({ signal }) => ask('a', 'slow', signal).catch(() => undefined))
  expect((await ask('b', 'fast')).note).toBe('answered')
  for (const one of ended) one.abort()
  await Promise.all(slow)
  store.close()
})

it('a session takes its results with it, except those to keep', async () => {
  const store = storeIn(temporaryFolder())
  const [gone, kept] = [await store.keep(owner, words), await store.keep(owner, words)]
  store.keepAfterSession(owner, kept?.handle ?? '')
  store.forget('s')
  expect([store.get(owner, gone?.handle ?? ''), store.get(owner, kept?.handle ?? '')?.handle]).toEqual([
    undefined,
    kept?.handle,
  ])
  store.close()
})

it.skipIf(createProcessMark() === undefined)(
  'files of a process that was killed are removed, and files of a running one are not',
  async () => {
    const dir = temporaryFolder()
    const own = createProcessMark() ?? ''
    const [boot, space] = JSON.parse(own) as [string, string]
    const marks = { ended: JSON.stringify([boot, space, 999_999_999, '1']), running: own }
    for (const [name, mark] of Object.entries(marks)) {
      mkdirSync(join(dir, name))
      writeFileSync(join(dir, name, 'process'), mark)
    }
    const store = storeIn(dir)
    await store.keep(owner, words)
    expect(readdirSync(dir).sort()).toEqual([expect.stringMatching(`^${process.pid}-`), 'running'])
    store.close()
  },
)

it('a script reads a kept result without the model', async () => {
  const { connection } = await appWithResults({ exposure: { mode: 'code' } })
  const run = async (code: string) => {
    const { content } = await connection.callTool({ name: 'run_code', arguments: { code } })
    return (content as { text: string }[])[0]?.text ?? ''
  }
  const note = await run('return await tools.big.words({count: 20000})')
  expect(note).toContain(`Read on with tools.pegboard.read_result in a script, {"handle":"${handleIn(note)}"}`)
  const read = await run(`return await tools.pegboard.read_result({handle: '${handleIn(note)}', count: true})`)
  expect(read).toContain('[1 line.]')
})

it('output schemas are left out where results may be replaced, and a client that keeps them gets an error with the handle', async () => {
  const output = { type: 'object', properties: { rows: { type: 'string' } }, required: ['rows'] }
  const tools = [
    { name: 'long', inputSchema: { type: 'object' }, outputSchema: output },
    { name: 'free', inputSchema: { type: 'object' }, outputSchema: output },
  ]
  const rows = 'word '.repeat(9_000)
  const result = { content: [{ type: 'text', text: rows }], structuredContent: { rows } }
  const open = async (config: object) => {
    const { app } = await serve(
      { a: { tools, answers: { long: { result }, free: { result } } } },
      { a: { trust: 'always', tools: { free: { maxResultTokens: 0 } } } },
      undefined,
      {},
      { exposure: { mode: 'direct' }, ...config },
    )
    const client = await connectTo(app)
    const listed = (await client.listTools()).tools.filter(({ outputSchema }) => outputSchema !== undefined)
    const call = async (name: string) =>
      (await client.callTool({ name, arguments: {} })) as {
        content: Array<{ text: string }>
        structuredContent?: unknown
        isError?: boolean
      }
    return { listed: listed.map(({ name }) => name), call }
  }
  const usual = await open({})
  expect(usual.listed).toEqual(['a__free'])
  const replaced = await usual.call('a__long')
  expect([replaced.isError, replaced.structuredContent]).toEqual([undefined, undefined])
  expect(replaced.content[0]?.text).toMatch(/Kept as r_\w+ for 60 min\.\]\nBeginning:\nword word/)
  expect((await usual.call('a__free')).structuredContent).toEqual({ rows })

  const keeping = await open({ clients: { 'test-client': { outputSchemas: true } } })
  expect(keeping.listed).toEqual(expect.arrayContaining(['a__free', 'a__long']))
  const refused = await keeping.call('a__long')
  expect(refused.isError).toBe(true)
  expect(handleIn(refused.content[0]?.text ?? '')).toMatch(/^r_/)
})

it('a text that a server wraps into an object is kept as text', async () => {
  const rows = Array.from({ length: 4_000 }, (_, n) => `${n} ${n % 100 === 7 ? 'ERROR disk' : 'ok'}`).join('\n')
  const tools = [{ name: 'log', inputSchema: { type: 'object' } }]
  const result = { content: [{ type: 'text', text: rows }], structuredContent: { result: rows } }
  const { call } = await serve({ a: { tools, answers: { log: { result } } } }, { a: { trust: 'always' } })
  const { content } = await call('a__log')
  expect(content[0].text).toContain('4,000 lines')
  const counted = await call('read_result', { handle: handleIn(content[0].text), grep: 'ERROR', count: true })
  expect(counted.content[0].text).toBe('[40 lines with "ERROR".]')
})
