import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { connectToProcess, place } from '../process.ts'
import { connectWithToken, startHttpApp } from '../security/http-app.ts'

const SIZE = 3_000_000
const FILE = Buffer.from(Array.from({ length: SIZE }, (_, index) => (index * 31) % 251))

/** Serves a file: sends a third and waits; after its release it sends everything requested. */
async function source({ etag = '"one"' }: { etag?: string } = {}) {
  const asked: IncomingHttpHeaders[] = []
  const state = { etag, slow: true }
  const server = createServer(({ headers }, answer) => {
    asked.push(headers)
    const from = Number(/^bytes=(\d+)-$/.exec(headers.range ?? '')?.[1] ?? 0)
    const isPart = from > 0 && headers['if-range'] === state.etag
    const body = isPart ? FILE.subarray(from) : FILE
    const range = isPart ? { 'content-range': `bytes ${from}-${SIZE - 1}/${SIZE}` } : {}
    answer.writeHead(isPart ? 206 : 200, { etag: state.etag, 'content-length': body.length, ...range })
    if (state.slow) answer.write(body.subarray(0, SIZE / 3))
    else answer.end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/file`, asked, state }
}

const settings = {
  exposure: { mode: 'direct' },
  modules: {
    http: {
      config: {
        access: 'write',
        allow_private_hosts: true,
        roots: ['files'],
        credentials: { hub: { type: 'bearer', token: 'sesame-7', hosts: ['127.0.0.1:*'] } },
      },
    },
  },
}

type Call = (tool: string, input?: object) => Promise<Answer>
const callsOf =
  (client: { callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<unknown> }): Call =>
  async (tool, input = {}) =>
    answerOf(await client.callTool({ name: `http__${tool}`, arguments: input as Record<string, unknown> }))

/** Waits until this much has arrived. */
async function until(call: Call, download_id: string, bytes: number): Promise<void> {
  while ((await call('download_status', { download_id })).bytes < bytes)
    await new Promise((resolve) => setTimeout(resolve, 20))
}
const filesIn = (dir: string): string[] => readdirSync(join(dir, 'files'))

/** The stored state of a download whose Pegboard was stopped in the middle. */
async function stopped(given: Awaited<ReturnType<typeof source>>) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'files'))
  const first = await startApp(settings, dir)
  const call = callsOf(await connectTo(first.app))
  const { download_id } = await call('download', { url: given.url, destination: 'a.bin', auth: 'hub' })
  await until(call, download_id, SIZE / 3)
  await first.app.stop()
  return { dir, download_id }
}
const restarted = async (dir: string): Promise<Call> => callsOf(await connectTo((await startApp(settings, dir)).app))

describe('a download interrupted by a stop', () => {
  it('resumes in the next process with its data, login and id [DIG-93]', async () => {
    const server = await source()
    const { dir, download_id } = await stopped(server)
    expect(filesIn(dir)).toEqual([`a.bin.${download_id.slice(0, 8)}.part`])
    server.state.slow = false
    const call = await restarted(dir)
    expect(await call('download_wait', { download_id })).toMatchObject({
      status: 'completed',
      path: 'a.bin',
      bytes: SIZE,
      total: SIZE,
      resumed: 1,
    })
    expect(readFileSync(join(dir, 'files/a.bin')).equals(FILE)).toBe(true)
    expect(filesIn(dir)).toEqual(['a.bin'])
    expect(server.asked.map(({ range, authorization }) => [range, authorization])).toEqual([
      [undefined, 'Bearer sesame-7'],
      [`bytes=${SIZE / 3}-`, 'Bearer sesame-7'],
    ])
    // The login itself was never stored.
    const state = readdirSync(join(dir, 'state'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'))
    expect(state.some((text) => text.includes(download_id))).toBe(true)
    expect(state.filter((text) => text.includes('sesame-7'))).toEqual([])
  })

  it('restarts if the file has changed or cannot be identified', async () => {
    for (const [etag, later] of [
      ['"one"', '"two"'],
      ['W/"one"', 'W/"one"'],
    ] as const) {
      const server = await source({ etag })
      const { dir, download_id } = await stopped(server)
      Object.assign(server.state, { slow: false, etag: later })
      const call = await restarted(dir)
      expect(await call('download_wait', { download_id })).toMatchObject({ status: 'completed', bytes: SIZE })
      expect(readFileSync(join(dir, 'files/a.bin')).equals(FILE)).toBe(true)
      expect(filesIn(dir)).toEqual(['a.bin'])
    }
  }, 60_000)

  it('is still known if it had finished, and can be cancelled after resuming', async () => {
    const server = await source()
    const { dir, download_id } = await stopped(server)
    const second = await startApp(settings, dir)
    const call = callsOf(await connectTo(second.app))
    await call('download_status', { download_id })
    expect(await call('download_cancel', { download_id })).toMatchObject({ status: 'cancelled' })
    expect(filesIn(dir)).toEqual([])
    await second.app.stop()
    const third = await restarted(dir)
    expect(await third('download_list')).toMatchObject({ downloads: [{ download_id, status: 'cancelled' }] })
  })
})

it('is resumed once if many ask for it at the same moment, and reported as running to all', async () => {
  const { dir, download_id } = await stopped(await source())
  const again = await restarted(dir)
  const answers = await Promise.all(Array.from({ length: 8 }, () => again('download_cancel', { download_id })))
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 'cancelled'))
}, 60_000)

describe('a download interrupted by a kill', () => {
  it('resumes in the next process, and in no other meanwhile', async () => {
    const server = await source()
    const at = place(settings)
    mkdirSync(join(at.dir, 'files'))
    const start = async () => {
      const { client, pid } = await connectToProcess(at)
      return { call: callsOf(client), pid }
    }
    const first = await start()
    const { download_id } = await first.call('download', { url: server.url, destination: 'a.bin' })
    await until(first.call, download_id, SIZE / 3)
    const second = await start()
    expect(await second.call('download_status', { download_id })).toMatchObject({ status: 'running' })
    expect(server.asked).toHaveLength(1)
    process.kill(first.pid, 'SIGKILL')
    server.state.slow = false
    expect(await second.call('download_wait', { download_id, timeout: 60 })).toMatchObject({ status: 'completed' })
    expect(readFileSync(join(at.dir, 'files/a.bin')).equals(FILE)).toBe(true)
    expect(server.asked.map(({ range }) => range)).toEqual([undefined, `bytes=${SIZE / 3}-`])
  }, 60_000)
})

describe('a download of a stopped process', () => {
  const ANN = { token: 'the-token-that-ann-comes-with', principal: 'ann' }
  const EVE = { token: 'the-token-that-eve-comes-with', principal: 'eve' }

  it.each([
    ['is resumed for an owner with access, whoever asks', [ANN, EVE], {}, 2, ['a.bin.part']],
    ['is not resumed if the token of its owner was removed, and its file is removed', [EVE], {}, 1, []],
    [
      'is not resumed if a rule forbids the tool',
      [ANN, EVE],
      { policy: { deny: ['http.download'] } },
      1,
      ['a.bin.part'],
    ],
  ])('%s', async (_what, tokens, more, requests, files) => {
    const server = await source()
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'files'))
    const first = await startHttpApp({ tokens: [ANN, EVE] }, settings, { dir })
    const ann = callsOf(await connectWithToken(first.url, ANN.token))
    const { download_id } = await ann('download', { url: server.url, destination: 'a.bin' })
    await until(ann, download_id, SIZE / 3)
    await first.close()
    await first.app.stop()
    const second = await startHttpApp({ tokens }, { ...settings, ...more }, { dir })
    const eve = callsOf(await connectWithToken(second.url, EVE.token))
    expect(await eve('download_list')).toEqual({ downloads: [] })
    expect(await eve('download_status', { download_id })).toMatchObject({ error: { code: 'E_NOT_FOUND' } })
    await new Promise((resolve) => setTimeout(resolve, 2_000))
    expect(server.asked).toHaveLength(requests)
    expect(filesIn(dir)).toEqual(files.map((name) => name.replace('bin.', `bin.${download_id.slice(0, 8)}.`)))
  })
})
