import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { fingerprint } from '../../src/trust/fingerprint.ts'
import { LOCK_NAME } from '../../src/trust/lock-file.ts'
import { createTrust } from '../../src/trust/trust.ts'
import type { Connection } from '../../src/upstream/connection.ts'
import { withExactBody } from '../../src/upstream/exact-integers.ts'
import { emptyListing, readListing } from '../../src/upstream/read-listing.ts'
import { temporaryFolder } from '../app.ts'
import { createManualClock } from '../clock.ts'
import { add, serve } from '../listed-server.ts'
import { textOf, withServers } from '../upstream/host.ts'

const MIB = 1024 * 1024

/** A server on stdio that answers a call with the line for the name of the tool. */
const saying = (lines: Readonly<Record<string, string>>): { command: string; args: string[] } => {
  const file = join(temporaryFolder(), 'server.mjs')
  writeFileSync(
    file,
    `import { createInterface } from 'node:readline'
    const lines = { ${Object.entries(lines)
      .map(([name, line]) => `${name}: (id) => ${line}`)
      .join(', ')} }
    const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n')
    createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method, params } = JSON.parse(line)
      if (id === undefined) return
      if (method === 'initialize') return say({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } } })
      if (method === 'tools/list') return say({ id, result: { tools: [...Object.keys(lines), 'fine'].map((name) => ({ name, inputSchema: { type: 'object' } })) } })
      if (method !== 'tools/call') return say({ id, error: { code: -32601, message: 'no such method' } })
      const said = lines[params.name]
      if (said) process.stdout.write(said(id) + '\\n')
      if (!said || params.name.startsWith('before_')) say({ id, result: { content: [{ type: 'text', text: 'fine' }] } })
    })`,
  )
  return { command: process.execPath, args: [file] }
}

const answer = (inner: string): string =>
  `'{"jsonrpc":"2.0","id":"' + id + '","result":{"content":[],"password":"","structuredContent":' + ${inner} + '}}'`
const DEEP = `('{"a":' + '['.repeat(600_000) + ']'.repeat(600_000) + '}')`
const CROWDED = `('{' + Array.from({ length: 250_000 }, (_, n) => '"k' + n + '":1').join(',') + '}')`

test('a result that takes seconds to parse is rejected unparsed, and the next call is answered', () =>
  withServers({ s: saying({ deep: answer(DEEP), crowded: answer(CROWDED) }) }, async ({ call }) => {
    await expect(call('mcp_s.deep')).rejects.toMatchObject({
      code: 'E_TOO_LARGE',
      message: 's answered with what has more than 200000 parts that are more than 1000 deep.',
    })
    await expect(call('mcp_s.crowded')).rejects.toMatchObject({
      code: 'E_TOO_LARGE',
      message: 's answered with what has more than 200000 keys.',
    })
    expect(textOf(await call('mcp_s.fine'))).toBe('fine')
  }))

test('a result with too many keys is rejected unparsed, also if it needs no change', () => {
  // With more keys, equal hashes of different keys make the scanner leave the result to the parser.
  const clean = answer(CROWDED.replace('250_000', '210_000')).replace('"password":"",', '')
  return withServers({ s: saying({ crowded: clean }) }, async ({ call }) => {
    await expect(call('mcp_s.crowded')).rejects.toMatchObject({
      code: 'E_TOO_LARGE',
      message: 's answered with what has more than 200000 keys.',
    })
    expect(textOf(await call('mcp_s.fine'))).toBe('fine')
  })
})

test('the same over HTTP, in a response and in an event', async () => {
  const body = `{"jsonrpc":"2.0","id":"p:1","result":{"a":${'['.repeat(600_000)}${']'.repeat(600_000)}}}`
  const read = async (type: string, text: string): Promise<string> =>
    (await withExactBody(new Response(text, { headers: { 'content-type': type } }))).text()
  for (const [type, text] of [
    ['application/json', body],
    ['text/event-stream', `event: message\ndata: ${body}\n\n`],
  ] as const)
    await expect(read(type, text)).rejects.toMatchObject({ code: 'E_TOO_LARGE' })
})

test('an unsolicited message can have at most a MiB while no answer is pending', () => {
  const late = (bytes: number, after: number): string =>
    `(setTimeout(() => process.stdout.write('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"' + 'x'.repeat(${bytes}) + '"}}\\n'), ${after}), '')`
  return withServers({ s: saying({ before_long: late(2 * MIB, 300) }) }, async ({ call, logged }) => {
    expect(textOf(await call('mcp_s.before_long'))).toBe('fine')
    await expect
      .poll(() => logged.map((line) => JSON.stringify(line)).join('\n'), { timeout: 20_000 })
      .toMatch(/a message of 20972\d\d bytes was dropped/)
    expect(textOf(await call('mcp_s.fine'))).toBe('fine')
  })
})

test.each([
  ['tools', 'tools/list', 'tools'],
  ['resources', 'resources/list', 'resources'],
] as const)('the pages of a list of %s are limited, whatever they contain', async (kind, method, key) => {
  const asked: unknown[] = []
  const reading = (page: (n: number) => object): Promise<unknown> => {
    asked.length = 0
    const request = async (wanted: string) => {
      if (wanted !== method) return { resourceTemplates: [] }
      asked.push(wanted)
      return page(asked.length)
    }
    const connection = { capabilities: { [kind]: {} }, era: 'legacy', transport: 'stdio', request }
    return readListing(connection as unknown as Connection, new Set([kind]), emptyListing, () => undefined)
  }
  const entry = (n: number, _meta: object = {}) => ({
    name: `t${n}`,
    uri: `x://${n}`,
    inputSchema: { type: 'object' },
    _meta,
  })
  await reading((n) => ({ [key]: [entry(n, { x: 'x'.repeat(2 * MIB) })], nextCursor: `${n}` }))
  expect(asked).toHaveLength(2)
  await reading((n) => ({ [key]: [entry(n)], nextCursor: `${n}`.repeat(100_000) }))
  expect(asked).toHaveLength(1)
  let deep: unknown = 'x'.repeat(2 * MIB)
  for (let level = 0; level < 1_200; level++) deep = [deep]
  await reading((n) => ({ [key]: [entry(n, { deep })], nextCursor: `${n}` }))
  expect(asked).toHaveLength(1)
  await reading((n) => ({ [key]: [entry(n)], nextCursor: `${n}` }))
  expect(asked).toHaveLength(50)
})

const nobody = { lookalikes: () => [], isSpelling: () => false, descriptionsOf: () => [] }
const seen = (names: readonly string[]) =>
  names.map((name) => {
    const definition = { name, inputSchema: { type: 'object' } }
    return { name, hash: fingerprint(definition), text: JSON.stringify(definition) }
  })

test('a server with endless new tools fills neither the lock file nor the state, even if it is trusted', async () => {
  const file = join(temporaryFolder(), LOCK_NAME)
  const trust = createTrust({ file, log: silentLog, reserved: new Set() })
  const round = (n: number) =>
    trust.assess(
      {
        server: 's',
        mode: 'always',
        tools: seen(Array.from({ length: 500 }, (_, at) => `t${n}_${at}`)),
        otherTools: nobody,
      },
      true,
    )
  for (let n = 0; n < 4; n++) expect(round(n).size).toBe(0)
  const held = round(4)
  expect(held.size).toBe(500)
  expect(held.get('t4_0')?.reason).toBe('is new, and 2000 tools of its server are in the lock file already')
  await trust.flush()
  expect(Object.keys(JSON.parse(readFileSync(file, 'utf8')).servers.s)).toHaveLength(2_000)
})

test('a server without tools at first cannot choose a later day for its first connection', () => {
  const look = (minutes: number): number => {
    const clock = createManualClock()
    const trust = createTrust({ file: join(temporaryFolder(), LOCK_NAME), log: silentLog, clock, reserved: new Set() })
    const held = (names: readonly string[]) =>
      trust.assess({ server: 's', mode: 'first-use', tools: seen(names), otherTools: nobody }, true).size
    expect(held([])).toBe(0)
    clock.pass(minutes * 60_000)
    const first = held(['a'])
    clock.pass(11_000)
    return first + held(['a', 'b'])
  }
  // A server that lists tools late has ten minutes. After that both wait, and before only the later ones.
  expect(look(9)).toBe(1)
  expect(look(11)).toBe(3)
})

test('a server that waits for a review answers for no resource, even by name', async () => {
  const resources = [{ uri: 'a://secret', name: 'secret' }]
  const read = { 'resources/read': { result: { contents: [{ uri: 'a://secret', text: 'obey me' }] } } }
  const { client } = await serve({ a: { tools: [add], resources, answers: read } }, { a: { trust: 'review' } })
  await client(async (one) => {
    await expect(one.readResource({ uri: 'a://secret' })).rejects.toThrow('Resource a://secret not found')
  })
})

test('a tool that looks like a disabled one is disabled, too', async () => {
  const named = (name: string) => ({ name, description: `Runs ${name}.` })
  const { call } = await serve(
    { gh: { tools: [named('delete_repo'), named('de1ete_rep0'), named('deIeterepo'), named('list')] } },
    { gh: { trust: 'always' } },
    undefined,
    {},
    { tools: { 'gh.delete_repo': { enabled: false } } },
  )
  for (const name of ['delete_repo', 'de1ete_rep0', 'deIeterepo'])
    expect((await call(`gh__${name}`)).structuredContent.error.code, name).toBe('E_TOOL_DISABLED')
  expect((await call('gh__list')).content[0].text).toBe('list ran')
})

test('an error of a server with a long message is cut, because it cannot be kept like a result', () => {
  const long = `'{"jsonrpc":"2.0","id":"' + id + '","error":{"code":-32000,"message":"' + 'e'.repeat(100_000) + '"}}'`
  return withServers({ s: saying({ long }) }, async ({ call }) => {
    const message = await call('mcp_s.long').then(String, ({ message: text }) => String(text))
    expect(message.length).toBeLessThan(17_000)
    expect(message.slice(-30)).toBe('eeeeee… (84000 more characters)'.slice(-30))
  })
})
