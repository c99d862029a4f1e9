import { once } from 'node:events'
import { type AddressInfo, createServer, isIP, type Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createConnect } from '../../src/policy/connect.ts'
import { createFetch } from '../../src/policy/guarded-fetch.ts'

/** A service on this machine that sends a greeting and counts connections. */
async function service() {
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket)
    socket.end('hello')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, sockets }
}

describe('a guarded connection', () => {
  it('reaches this machine if allowed', async () => {
    const { port } = await service()
    const connect = createConnect({ allowPrivate: true, setting: 'x.allow' })
    for (const host of ['127.0.0.1', 'localhost']) {
      const socket = await connect(host, port)
      expect(String((await once(socket, 'data'))[0])).toBe('hello')
      socket.destroy()
    }
  })

  it.each(['127.0.0.1', 'localhost', '2130706433', '0x7f.1', '::1', '::ffff:127.0.0.1', '10.0.0.1'])(
    'does not reach %s if it is not allowed, and names the setting',
    async (host) => {
      const { port, sockets } = await service()
      await expect(createConnect({ setting: 'x.allow' })(host, port)).rejects.toMatchObject({
        code: 'E_SSRF_BLOCKED',
        hint: 'Use another address, or ask the operator to change x.allow.',
      })
      expect(sockets).toEqual([])
    },
  )

  it.each(['169.254.169.254', '100.100.100.200', '240.0.0.1'])(
    'does not reach %s, and suggests no setting, because none allows it',
    async (host) => {
      await expect(createConnect({ setting: 'x.allow' })(host, 80)).rejects.toMatchObject({
        code: 'E_SSRF_BLOCKED',
        hint: 'Use another address. A change of x.allow would not allow this one.',
      })
    },
  )

  it.each(['169.254.1.1', 'fe80::1'])('does not reach the link-local address %s, as fetch does not', async (host) => {
    const lookup = async () => [{ address: host, family: isIP(host) }]
    const options = { allowPrivate: true, setting: 'x', lookup }
    const refused = { code: 'E_SSRF_BLOCKED', hint: 'No setting allows it.' }
    for (const target of [host, 'board.example'])
      await expect(createConnect(options)(target, 79), target).rejects.toMatchObject(refused)
    const url = `http://${isIP(host) === 6 ? `[${host}]` : host}/`
    for (const target of [url, 'http://board.example/'])
      await expect(createFetch(options)(target), target).rejects.toMatchObject(refused)
  })

  it('rejects a name that resolves to this machine, and always cloud metadata', async () => {
    const { port, sockets } = await service()
    const lookup = async () => [
      { address: '8.8.8.8', family: 4 },
      { address: '127.0.0.1', family: 4 },
    ]
    await expect(createConnect({ setting: 'x', lookup })('board.example', port)).rejects.toMatchObject({
      code: 'E_SSRF_BLOCKED',
    })
    const metadata = createConnect({ allowPrivate: true, setting: 'x' })
    await expect(metadata('169.254.169.254', port)).rejects.toMatchObject({ code: 'E_SSRF_BLOCKED' })
    expect(sockets).toEqual([])
  })

  it('says what failed: unknown host, connection refused, timeout, cancelled', async () => {
    const { port } = await service()
    const connect = createConnect({ allowPrivate: true, setting: 'x' })
    for (const [host, wrong] of [
      ['a b', 79],
      ['a/b', 79],
      ['a', 0],
      ['a', 70_000],
    ] as const)
      await expect(connect(host, wrong), host).rejects.toMatchObject({ code: 'E_VALIDATION' })
    await expect(connect('127.0.0.1', 1)).rejects.toMatchObject({ code: 'E_BACKEND_UNAVAILABLE' })
    const slow = createConnect({ setting: 'x', lookup: () => new Promise(() => undefined) })
    await expect(slow('board.example', port, { timeoutMs: 20 })).rejects.toMatchObject({ code: 'E_TIMEOUT' })
    const ended = AbortSignal.abort(new Error('no longer wanted'))
    await expect(connect('127.0.0.1', port, { signal: ended })).rejects.toThrow('no longer wanted')
    const later = new AbortController()
    const waiting = slow('board.example', port, { signal: later.signal })
    later.abort(new Error('no longer wanted'))
    await expect(waiting).rejects.toThrow('no longer wanted')
  })
})
