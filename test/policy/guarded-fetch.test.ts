import { execFileSync } from 'node:child_process'
import { getEventListeners } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { brotliCompressSync, createGzip, gzipSync } from 'node:zlib'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { PegboardError } from '../../src/core/errors.ts'
import { createFetch, type FetchOptions, type GuardedFetch } from '../../src/policy/guarded-fetch.ts'
import { temporaryFolder } from '../app.ts'
import { derivedFrom } from '../signals.ts'

const setting = 'x.allow_private'

function made(options: Partial<FetchOptions> = {}): GuardedFetch {
  const fetch = createFetch({ allowPrivate: true, setting, ...options })
  onTestFinished(() => fetch.close())
  return fetch
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}
const serve = async (listener: RequestListener): Promise<string> =>
  `http://127.0.0.1:${await listening(createServer(listener))}`

const leads = (...addresses: string[]) =>
  Promise.resolve(addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })))

describe('a guarded fetch', () => {
  it('reaches this machine only if allowed, and never metadata addresses', async () => {
    let hits = 0
    const port = Number(new URL(await serve((_, answer) => answer.end(String(++hits)))).port)
    const strict = made({ allowPrivate: false })
    for (const host of [
      ...['127.0.0.1', 'localhost', '[::1]', '0.0.0.0', '10.0.0.1', '172.16.0.1', '192.168.1.1', '169.254.169.254'],
      ...['2130706433', '0x7f000001', '017700000001', '0177.0.0.1', '127.1', '100.64.0.1'],
      ...[
        '[::ffff:127.0.0.1]',
        '[::ffff:7f00:1]',
        '[64:ff9b::7f00:1]',
        '[2002:7f00:1::]',
        '[::7f00:1]',
        '168.63.129.16',
      ],
    ]) {
      const error = await strict(`http://${host}:${port}/`).catch((reason: unknown) => reason)
      // No setting allows these.
      const isNeverAllowed = ['169.254.169.254', '168.63.129.16'].includes(host)
      expect(error, host).toMatchObject({
        code: 'E_SSRF_BLOCKED',
        hint: isNeverAllowed
          ? 'Use another address. A change of x.allow_private would not allow this one.'
          : 'Use another address, or ask the operator to change x.allow_private.',
      })
      expect((error as Error).message, host).not.toMatch(/\d+\.\d+/)
    }
    expect(hits).toBe(0)
    const open = made()
    expect(await (await open(`http://127.0.0.1:${port}/`)).text()).toBe('1')
    await expect(open('http://169.254.169.254/latest')).rejects.toMatchObject({ code: 'E_SSRF_BLOCKED' })
    await expect(open('http://168.63.129.16/')).rejects.toMatchObject({ code: 'E_SSRF_BLOCKED' })
  })

  it('rejects a name with one disallowed DNS answer', async () => {
    let hits = 0
    const { port } = new URL(await serve((_, answer) => answer.end(String(++hits))))
    for (const found of [['127.0.0.1'], ['8.8.8.8', '127.0.0.1'], ['8.8.8.8', '10.0.0.1']]) {
      const fetch = made({ allowPrivate: false, lookup: () => leads(...found) })
      await expect(fetch(`http://a.test:${port}/`)).rejects.toMatchObject({ code: 'E_SSRF_BLOCKED' })
    }
    expect(hits).toBe(0)
    const unknown = made({ lookup: () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' })) })
    await expect(unknown('http://a.test/')).rejects.toMatchObject({ code: 'E_DNS' })
  })

  it('checks an address without a request, for callers that use another program', async () => {
    let hits = 0
    const url = await serve((_, answer) => answer.end(String(++hits)))
    const lookup = (name: string) => leads(...(name === 'open.test' ? ['8.8.8.8'] : ['8.8.8.8', '10.0.0.1']))
    const strict = made({
      allowPrivate: false,
      lookup,
      check: ({ pathname }) => {
        if (pathname === '/no') throw new PegboardError('E_DENIED_BY_POLICY', 'No.')
      },
    })
    await expect(strict.check(url)).rejects.toMatchObject({
      code: 'E_SSRF_BLOCKED',
      hint: 'Use another address, or ask the operator to change x.allow_private.',
    })
    await expect(strict.check('http://closed.test/')).rejects.toMatchObject({ code: 'E_SSRF_BLOCKED' })
    await expect(strict.check('http://open.test/no')).rejects.toMatchObject({ code: 'E_DENIED_BY_POLICY' })
    await expect(strict.check('ftp://open.test/')).rejects.toMatchObject({ code: 'E_VALIDATION' })
    expect(await strict.check('http://open.test/')).toBeUndefined()
    const unknown = made({ lookup: () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' })) })
    await expect(unknown.check('http://a.test/')).rejects.toMatchObject({ code: 'E_DNS' })
    expect(hits).toBe(0)
  })

  it('follows redirects within one origin only, if told so', async () => {
    const other = await serve((_, answer) => answer.end('other'))
    const url = await serve((request, answer) =>
      request.url === '/there'
        ? answer.end('there')
        : answer.writeHead(302, { location: request.url === '/away' ? other : '/there' }).end(),
    )
    const fetch = made()
    expect(await (await fetch(`${url}/here`, { redirect: 'same-origin' })).text()).toBe('there')
    await expect(fetch(`${url}/away`, { redirect: 'same-origin' })).rejects.toMatchObject({
      code: 'E_REDIRECT_BLOCKED',
    })
    expect(await (await fetch(`${url}/away`)).text()).toBe('other')
  })

  it('rejects other schemes, and passwords in addresses, which it does not repeat', async () => {
    const fetch = made()
    for (const url of ['file:///etc/passwd', 'ftp://a/', 'gopher://a', 'data:,x', 'javascript:1', 'ws://a', 'nonsense'])
      await expect(fetch(url), url).rejects.toMatchObject({
        code: 'E_VALIDATION',
        hint: 'Give a full address with http:// or https://.',
      })
    for (const url of ['http://user:hunter2@example.com/', 'http://user:hunter2@'])
      expect(JSON.stringify(await fetch(url).catch((error: Error) => [error.message, { ...error }]))).not.toContain(
        'hunter2',
      )
  })

  it('checks every redirect', async () => {
    let hits = 0
    const inner = await serve((_, answer) => answer.end(String(++hits)))
    const to =
      (location: string): RequestListener =>
      (_, answer) =>
        answer.writeHead(302, { location }).end()
    const check = (url: URL): void => {
      if (url.origin === inner) throw new PegboardError('E_SSRF_BLOCKED', 'Not that one.', { hint: 'x.hosts decides.' })
    }
    await expect(made({ check })(await serve(to(inner)))).rejects.toMatchObject({
      code: 'E_REDIRECT_BLOCKED',
      hint: 'x.hosts decides.',
    })
    for (const location of [
      'http://169.254.169.254/',
      'http://[fd00:ec2::254]/',
      'file:///etc/passwd',
      'http://u:p@a/',
    ])
      await expect(made()(await serve(to(location))), location).rejects.toMatchObject({ code: 'E_REDIRECT_BLOCKED' })
    await expect(made()(await serve(to('/')))).rejects.toMatchObject({ code: 'E_REDIRECT_BLOCKED' })
    expect(hits).toBe(0)
    const shown = await made()(await serve(to(inner)), { redirect: 'manual' })
    expect([shown.status, shown.headers.get('location')]).toEqual([302, inner])
  })

  it('sends nothing secret, and no body, to another origin', async () => {
    const seen: Record<string, unknown>[] = []
    const other = await serve((request, answer) => {
      seen.push({ method: request.method, ...request.headers })
      answer.end('there')
    })
    const here = await serve((request, answer) => {
      const status = Number(request.url?.slice(1)) || 302
      answer.writeHead(status, { location: `${other}/x#y` }).end()
    })
    const headers = { Authorization: 'Bearer secret', 'x-key': 'secret', cookie: 'secret', accept: 'text/plain' }
    const answer = await made()(`${here}/302`, { method: 'POST', body: 'secret', headers })
    expect([await answer.text(), answer.url, answer.redirected]).toEqual(['there', `${other}/x`, true])
    expect(seen).toMatchObject([{ method: 'GET', accept: 'text/plain' }])
    expect(JSON.stringify(seen)).not.toContain('secret')
    await expect(made()(`${here}/307`, { method: 'POST', body: 'x' })).rejects.toMatchObject({
      code: 'E_REDIRECT_BLOCKED',
    })
    expect(seen).toHaveLength(1)
  })

  it('decompresses responses, within limits for compressed and decompressed size', async () => {
    const zeros = Buffer.alloc(1024 * 1024)
    const url = await serve((request, answer) => {
      if (request.url === '/gzip') answer.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('packed'))
      else if (request.url === '/br')
        answer.writeHead(200, { 'content-encoding': 'br' }).end(brotliCompressSync('brotli'))
      else if (request.url === '/many') answer.writeHead(200, { 'content-encoding': 'gzip,gzip,gzip' }).end('x')
      else if (request.url === '/plain') answer.end(zeros)
      else if (request.url === '/broken') answer.writeHead(200, { 'content-encoding': 'gzip' }).end('not packed at all')
      else {
        const gzip = createGzip()
        gzip.pipe(answer.writeHead(200, { 'content-encoding': 'gzip' }))
        let left = 300
        const more = (): void => {
          while (left-- > 0) if (!gzip.write(zeros)) return void gzip.once('drain', more)
          gzip.end()
        }
        answer.on('error', () => undefined)
        more()
      }
    })
    const fetch = made()
    expect(await (await fetch(`${url}/gzip`)).text()).toBe('packed')
    expect(await (await fetch(`${url}/br`)).text()).toBe('brotli')
    const before = process.memoryUsage().rss
    await expect((await fetch(`${url}/bomb`)).text()).rejects.toMatchObject({ code: 'E_TOO_LARGE' })
    expect(process.memoryUsage().rss - before).toBeLessThan(64 * 1024 * 1024)
    await expect((await fetch(`${url}/plain`, { maxWireBytes: 1000 })).text()).rejects.toMatchObject({
      code: 'E_TOO_LARGE',
      hint: 'x.allow_private decides.',
    })
    await expect(fetch(`${url}/many`)).rejects.toMatchObject({ code: 'E_HTTP_PROTOCOL' })
    await expect((await fetch(`${url}/broken`)).text()).rejects.toMatchObject({ code: 'E_HTTP_PROTOCOL' })
  })

  it('stops at its timeout, and on abort', async () => {
    const url = await serve((request, answer) => {
      if (request.url === '/half') answer.write('half')
    })
    await expect(made()(url, { timeoutMs: 50 })).rejects.toMatchObject({ code: 'E_TIMEOUT' })
    const half = made()(`${url}/half`, { timeoutMs: 300 }).then((answer) => answer.text())
    await expect(half).rejects.toMatchObject({ code: 'E_TIMEOUT' })
    const abort = new AbortController()
    const asked = made()(url, { signal: abort.signal })
    abort.abort(new Error('enough'))
    await expect(asked).rejects.toThrow('enough')
  })

  it('leaves no listener on a long-lived signal', async () => {
    const url = await serve((request, answer) =>
      request.url === '/moved' ? answer.writeHead(302, { location: '/' }).end() : answer.end('whole'),
    )
    const { signal } = new AbortController()
    const fetch = made()
    for (const path of ['', '/moved']) expect(await (await fetch(url + path, { signal })).text()).toBe('whole')
    await (await fetch(url, { signal, method: 'HEAD' })).text()
    await expect(fetch('http://0.0.0.0:1', { signal })).rejects.toBeInstanceOf(PegboardError)
    await expect.poll(() => getEventListeners(signal, 'abort').length).toBe(0)
    expect(derivedFrom(signal)).toBe(0)
  })

  it('verifies certificates whatever the environment says, and ignores proxy variables', async () => {
    const dir = temporaryFolder()
    const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')]
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:prime256v1',
        '-nodes',
        '-keyout',
        key,
        '-out',
        cert,
      ].concat(['-days', '1', '-subj', '/CN=localhost']),
      { stdio: 'ignore' },
    )
    const port = await listening(
      createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }, (_, answer) => answer.end('no')),
    )
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
    vi.stubEnv('HTTP_PROXY', 'http://127.0.0.1:1')
    onTestFinished(() => void vi.unstubAllEnvs())
    await expect(made()(`https://localhost:${port}/`)).rejects.toMatchObject({ code: 'E_TLS' })
    const plain = await serve((_, answer) => answer.end('direct'))
    expect(await (await made()(plain)).text()).toBe('direct')
  })

  it('names a status code above 599', async () => {
    const address = await serve((_, answer) => answer.writeHead(999).end('not for programs'))
    await expect(made()(address)).rejects.toMatchObject({
      code: 'E_HTTP_PROTOCOL',
      message: 'The address answered with HTTP 999, which is not a valid status.',
    })
  })
})
