import { createServer as createHttpServer, type IncomingHttpHeaders } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { PegboardError } from '../../src/core/errors.ts'
import { createFetch, type FetchOptions, type GuardedFetch } from '../../src/policy/guarded-fetch.ts'

const MIB = 1024 * 1024

function made(options: Partial<FetchOptions> = {}): GuardedFetch {
  const fetch = createFetch({ allowPrivate: true, setting: 'x.allow_private', timeoutMs: 60_000, ...options })
  onTestFinished(() => fetch.close())
  return fetch
}

/** A server that sends these bytes to each client, and then the chunks of `more` until the connection ends. */
async function saying(head: string | Buffer, more?: (socket: Socket) => void) {
  const sockets = new Set<Socket>()
  const asked: string[] = []
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket)).on('error', () => undefined)
    socket.once('data', (request) => {
      asked.push(request.toString('latin1'))
      socket.write(head, () => (more ? more(socket) : socket.end()))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, asked, open: () => sockets.size }
}

/** Repeats the same bytes as fast as the client reads. */
const endlessly =
  (bytes: string | Buffer, everyMs = 0) =>
  (socket: Socket) => {
    const next = (): void => {
      if (!socket.destroyed) socket.write(bytes, () => setTimeout(next, everyMs))
    }
    next()
  }

const taken = async (fetch: GuardedFetch, url: string, init = {}): Promise<string> => {
  try {
    const answer = await fetch(url, init)
    return `${answer.status} ${(await answer.arrayBuffer()).byteLength}`
  } catch (error) {
    return (error as PegboardError).code
  }
}
const OK = 'HTTP/1.1 200 OK\r\n'
const CHUNKS = 'Transfer-Encoding: chunked\r\n\r\n'
const chunk = (bytes: Buffer | string): Buffer =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), Buffer.from(bytes), Buffer.from('\r\n')])

test.each([
  ['has an unknown compression', `${OK}Content-Encoding: zstd\r\n${CHUNKS}`],
  ['is compressed three times', `${OK}Content-Encoding: gzip, gzip, gzip\r\n${CHUNKS}`],
  ['has an unknown status', `HTTP/1.1 999 Denied\r\n${CHUNKS}`],
  ['redirects to an unsupported address', `HTTP/1.1 302 Found\r\nLocation: gopher://127.0.0.1/\r\n${CHUNKS}`],
  ['redirects to an address with a login', `HTTP/1.1 302 Found\r\nLocation: http://user:word@127.0.0.1/\r\n${CHUNKS}`],
])('rejects an endless response that %s immediately, and closes its connection', async (_what, head) => {
  const server = await saying(head, endlessly(chunk('x'.repeat(1000)), 5))
  const code = await taken(made(), server.url)
  expect(['E_HTTP_PROTOCOL', 'E_BACKEND_UNAVAILABLE', 'E_REDIRECT_BLOCKED']).toContain(code)
  await vi.waitFor(() => expect(server.open()).toBe(0), { timeout: 10_000 })
})

test.each<[string, (bytes: Buffer) => Buffer]>([
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['deflate', deflateSync],
  ['br', brotliCompressSync],
  ['gzip, br', (bytes) => brotliCompressSync(gzipSync(bytes))],
  ['deflate, gzip', (bytes) => gzipSync(deflateSync(bytes))],
])(
  'stops reading at the limit when 64 MiB arrive compressed with %s',
  async (encoding, pack) => {
    const packed = pack(Buffer.alloc(64 * MIB))
    const server = await saying(
      Buffer.concat([
        Buffer.from(`${OK}Content-Encoding: ${encoding}\r\nContent-Length: ${packed.length}\r\n\r\n`),
        packed,
      ]),
    )
    expect(await taken(made({ maxBytes: MIB, maxWireBytes: MIB }), server.url)).toBe('E_TOO_LARGE')
  },
  60_000,
)

test.each([
  ['endless headers', OK, 'X-Filler: abcdefghijklmnopqrstuvwxyz\r\n'],
  ['an endless header', `${OK}X-Filler: `, 'abcdefghijklmnopqrstuvwxyz'],
  ['an endless status line', 'HTTP/1.1 200 ', 'abcdefghijklmnopqrstuvwxyz'],
  ['an endless chunk size', `${OK}${CHUNKS}`, '0000000000000000'],
  ['an endless chunk extension', `${OK}${CHUNKS}1;`, 'a=b;c=d;e=f;g=h;'],
  ['endless trailers', `${OK}${CHUNKS}0\r\n`, 'X-Filler: abcdefghijklmnopqrstuvwxyz\r\n'],
])(
  'gives up on %s',
  async (_what, head, more) => {
    const server = await saying(head, endlessly(more.repeat(100)))
    const code = await taken(made({ timeoutMs: 3_000 }), server.url)
    expect(['E_HTTP_PROTOCOL', 'E_BACKEND_UNAVAILABLE', 'E_TIMEOUT', 'E_TOO_LARGE']).toContain(code)
    await vi.waitFor(() => expect(server.open()).toBe(0), { timeout: 10_000 })
  },
  60_000,
)

test.each([
  ['a body that arrives byte by byte', `${OK}Content-Length: 1000000\r\n\r\n`, 'x'],
  ['a response with endless early hints', '', 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'],
  ['headers that arrive byte by byte', OK, 'x'],
  [
    'a redirect whose body arrives byte by byte',
    'HTTP/1.1 302 Found\r\nLocation: /a\r\nContent-Length: 100000\r\n\r\n',
    'x',
  ],
])(
  'limits %s to the time of the request',
  async (_what, head, more) => {
    const server = await saying(head, endlessly(more, 20))
    expect(await taken(made({ timeoutMs: 1_000 }), server.url)).toBe('E_TIMEOUT')
    await vi.waitFor(() => expect(server.open()).toBe(0), { timeout: 10_000 })
  },
  60_000,
)

test.each([
  ['no status line', 'a page of HTTP/0.9\r\n'],
  ['another protocol', 'SSH-2.0-OpenSSH_9.6\r\n'],
  ['a length that is not true, and the end', `${OK}Content-Length: 100\r\n\r\nshort`],
  ['two lengths', `${OK}Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef`],
  ['a length and chunks', `${OK}Content-Length: 5\r\n${CHUNKS}0\r\n\r\n`],
  ['a negative length', `${OK}Content-Length: -5\r\n\r\nabcde`],
  ['a switch of protocols', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n'],
  ['a header with a zero byte', `${OK}X-A: a\0b\r\nContent-Length: 1\r\n\r\na`],
  [
    'half of what was packed',
    Buffer.concat([
      Buffer.from(`${OK}Content-Encoding: gzip\r\nConnection: close\r\n\r\n`),
      gzipSync('a'.repeat(10_000)).subarray(0, 30),
    ]),
  ],
])('rejects %s', async (_what, bytes) => {
  const server = await saying(bytes)
  expect(['E_HTTP_PROTOCOL', 'E_BACKEND_UNAVAILABLE']).toContain(await taken(made({ timeoutMs: 20_000 }), server.url))
})

test('does not read bytes after the content length as the next response', async () => {
  const server = await saying(`${OK}Content-Length: 1\r\n\r\na${OK}Content-Length: 6\r\n\r\nforged`, () => undefined)
  const fetch = made({ timeoutMs: 2_000 })
  const said: string[] = []
  for (let times = 0; times < 2; times++)
    said.push(
      await fetch(server.url).then(
        (answer) => answer.text(),
        (error) => error.code,
      ),
    )
  expect(said).not.toContain('forged')
  expect(said.length).toBe(2)
})

test('accepts a response with non-Latin headers, and refuses one with an unknown status', async () => {
  const utf8 = await saying(
    Buffer.from(
      `${OK}X-Title: 日本語\r\nContent-Disposition: attachment; filename="日本語.txt"\r\nContent-Length: 4\r\n\r\npage`,
    ),
  )
  expect(await taken(made(), utf8.url)).toBe('200 4')
  const odd = await saying('HTTP/1.1 999 Denied\r\nContent-Length: 4\r\n\r\npage')
  expect(await taken(made(), odd.url)).toBe('E_HTTP_PROTOCOL')
})

test('stores no cookie and contacts no other service, whatever a response requests', async () => {
  const seen: IncomingHttpHeaders[] = []
  const other: string[] = []
  const elsewhere = createHttpServer((request, answer) => {
    other.push(String(request.url))
    answer.end('elsewhere')
  })
  await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve))
  const server = createHttpServer((request, answer) => {
    seen.push(request.headers)
    const { port } = elsewhere.address() as AddressInfo
    answer.setHeader('set-cookie', ['session=stolen; Path=/', 'b=c'])
    answer.setHeader('alt-svc', `h2="127.0.0.1:${port}"; ma=3600, h3=":${port}"`)
    answer.setHeader('link', `<http://127.0.0.1:${port}/push>; rel=preload`)
    answer.setHeader('refresh', `0; url=http://127.0.0.1:${port}/refresh`)
    answer.setHeader('www-authenticate', 'Basic realm="x"')
    if (request.url === '/') answer.writeHead(302, { location: '/next' })
    answer.end('page')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const one of [server, elsewhere]) {
      one.closeAllConnections()
      one.close()
    }
  })
  const fetch = made()
  const { port } = server.address() as AddressInfo
  for (let times = 0; times < 2; times++) expect(await taken(fetch, `http://127.0.0.1:${port}/`)).toBe('200 4')
  expect(seen).toHaveLength(4)
  expect(seen.filter(({ cookie, authorization }) => cookie ?? authorization)).toEqual([])
  expect(other).toEqual([])
})

test.each([
  'http://user:word@127.0.0.1:9/',
  'http://user@127.0.0.1:9/',
  'file:///etc/passwd',
  'javascript:alert(1)',
  'data:text/plain,x',
  'ftp://127.0.0.1/',
  'ws://127.0.0.1/',
  'http://',
  'http://[::1',
  'http://169.254.169.254/latest',
  'http://0251.0376.0251.0376/',
  '//169.254.169.254/',
  '\\\\169.254.169.254\\x',
  'http:\\\\169.254.169.254/',
  'http:/\t/169.254.169.254/',
])('does not follow a redirect to %s', async (location) => {
  const server = await saying(`HTTP/1.1 302 Found\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`)
  expect(await taken(made(), server.url)).toBe('E_REDIRECT_BLOCKED')
  expect(server.asked).toHaveLength(1)
})

test('a redirect address cannot add lines to the next request', async () => {
  const server = await saying(
    'HTTP/1.1 302 Found\r\nLocation: /a%0d%0aX-Forged:1\r\nContent-Length: 0\r\n\r\n',
    () => undefined,
  )
  await taken(made({ maxRedirects: 1, timeoutMs: 2_000 }), server.url)
  const raw = await saying('HTTP/1.1 302 Found\r\nLocation: /a b\rX-Forged: 1\r\nContent-Length: 0\r\n\r\n')
  await taken(made({ maxRedirects: 1, timeoutMs: 2_000 }), raw.url)
  expect([...server.asked, ...raw.asked].filter((request) => /^x-forged/im.test(request))).toEqual([])
})
