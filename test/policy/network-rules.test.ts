import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import undici from 'undici'
import { describe, expect, it } from 'vitest'
import {
  type AddressKind,
  addressKind,
  assertReachable,
  createGuardedAgent,
  isLoopback,
  isSafeUrl,
  type NetRules,
  publicOnly,
} from '../../src/policy/network-rules.ts'

const strict = publicOnly('web.allowPrivate')

describe('an address', () => {
  const kinds: Record<AddressKind, readonly string[]> = {
    public: [
      '8.8.8.8',
      '1.1.1.1',
      '172.32.0.1',
      '100.128.0.1',
      '2606:4700::1111',
      '64:ff9b::808:808',
      '2002:808:808::1',
    ],
    loopback: [
      '127.0.0.1',
      '127.9.9.9',
      '0.0.0.0',
      '::1',
      '::',
      '::ffff:127.0.0.1',
      '::ffff:7f00:1',
      '64:ff9b::7f00:1',
    ],
    private: [
      '10.1.2.3',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.1.1',
      '100.64.0.1',
      'fd12:3456::1',
      'fec0::1',
      '::ffff:10.0.0.1',
      '::ffff:0:a00:1',
      '64:ff9b:1::a00:1',
      '64:ff9b:1::808:808',
      '64:ff9b:1:ffff:ffff:ffff:ffff:ffff',
      '2002:a00:1::',
    ],
    'link-local': ['169.254.1.1', '::ffff:169.254.1.1', 'fe80::1', 'fe80::1%eth0', 'febf::1'],
    metadata: [
      '169.254.169.254',
      '::ffff:169.254.169.254',
      '100.100.100.200',
      '168.63.129.16',
      'fd00:ec2::254',
      'fd20:ce::254',
      'fd20:00ce:0:0:0:0:0:254',
      '192.0.0.192',
      '169.254.0.23',
      '169.254.42.42',
      'fd00:42::42',
      'fe80::a9fe:a9fe',
      'fe80::a9fe:a9fe%eth0',
    ],
    reserved: [
      '224.0.0.1',
      '255.255.255.255',
      '0.1.2.3',
      '192.0.2.1',
      '198.18.0.1',
      '203.0.113.9',
      '2001:db8::1',
      '2001::1',
      'ff02::1',
      '4000::1',
      'example.com',
      '',
    ],
  }
  for (const [kind, addresses] of Object.entries(kinds))
    for (const address of addresses) it(`"${address}" is ${kind}`, () => expect(addressKind(address)).toBe(kind))

  it('that embeds loopback in another notation is loopback', () =>
    expect(['2002:7f00:1::', '::7f00:1'].map(addressKind)).toEqual(['loopback', 'loopback']))
})

describe('a URL is rejected by its text', () => {
  const refusal = (url: string, rules: NetRules = strict): string | undefined => {
    try {
      assertReachable(new URL(url), rules)
      return undefined
    } catch (error) {
      return `${(error as { code: string }).code} ${(error as Error).message} ${(error as { hint: string }).hint}`
    }
  }

  it('if it is not http or https', () => {
    for (const url of [
      'file:///etc/passwd',
      'javascript:alert(1)',
      'data:,x',
      'ftp://example.com/',
      'ws://example.com',
    ])
      expect(refusal(url)).toBe(
        'E_SSRF_BLOCKED The address is refused: only http and https addresses are used. Use another address, or ask the operator to change web.allowPrivate.',
      )
  })
  it('if it contains a password, which the error does not repeat', () => {
    expect(refusal('https://user:hunter2@example.com/')).toContain('user or password')
    expect(refusal('https://user:hunter2@example.com/')).not.toContain('hunter2')
  })
  it('if it is plain http', () => expect(refusal('http://example.com/')).toContain('plain http'))
  it('if it is a private literal, in any notation', () => {
    for (const host of [
      '127.0.0.1',
      '2130706433',
      '0x7f000001',
      '017700000001',
      '0177.0.0.1',
      '127.1',
      '[::1]',
      'localhost',
      'a.localhost',
      'localhost.',
    ])
      expect(refusal(`https://${host}/`), host).toContain('a loopback address')
    expect(refusal('https://[::ffff:10.0.0.1]/')).toContain('a private address')
    expect(refusal('https://169.254.169.254/')).toContain('a metadata address')
  })
  it('and not if it is public', () => expect(refusal('https://example.com/x?y')).toBeUndefined())
  it('and metadata even if private addresses are allowed', () => {
    const open: NetRules = { allow: new Set(['public', 'private', 'loopback']), http: true, setting: 'x' }
    expect(refusal('http://10.0.0.1/', open)).toBeUndefined()
    expect(refusal('http://169.254.169.254/', open)).toContain('metadata')
  })
  it('and plain http to loopback is allowed where loopback is', () => {
    expect(refusal('http://localhost:1/', { ...strict, allow: new Set(['public', 'loopback']) })).toBeUndefined()
    expect(refusal('http://example.com/', { ...strict, allow: new Set(['public', 'loopback']) })).toContain(
      'plain http',
    )
  })
  it('and this machine is distinguished from others', () =>
    expect(
      ['http://localhost', 'http://[::1]', 'http://127.1', 'http://10.0.0.1'].map((url) => isLoopback(new URL(url))),
    ).toEqual([true, true, true, false]))
  it('and is safe with https, or on this machine', () =>
    expect(
      ['https://a.example', 'http://a.localhost', 'http://a.example', 'ws://localhost'].map((url) =>
        isSafeUrl(new URL(url)),
      ),
    ).toEqual([true, true, false, false]))
})

describe('a guarded agent', () => {
  async function withTarget(test: (port: number, hits: () => number) => Promise<void>): Promise<void> {
    let hits = 0
    const server = createServer((_request, response) => response.end('ok'))
    server.on('connection', () => hits++)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    try {
      await test((server.address() as AddressInfo).port, () => hits)
    } finally {
      server.closeAllConnections()
      server.close()
    }
  }

  async function get(url: string, rules: NetRules): Promise<string> {
    const agent = await createGuardedAgent(rules)
    try {
      const answer = await undici.request(url, { dispatcher: agent })
      return await answer.body.text()
    } catch (error) {
      return String((error as { code?: string }).code)
    } finally {
      await agent.destroy()
    }
  }

  const leads =
    (...addresses: string[]): NonNullable<NetRules['lookup']> =>
    async () =>
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))

  it('rejects a literal without connecting', () =>
    withTarget(async (port, hits) => {
      expect(await get(`http://127.0.0.1:${port}/`, strict)).toBe('E_SSRF_BLOCKED')
      expect(await get(`http://localhost:${port}/`, strict)).toBe('E_SSRF_BLOCKED')
      expect(hits()).toBe(0)
    }))
  it('rejects a name that resolves to this machine', () =>
    withTarget(async (port, hits) => {
      expect(await get(`http://a.test:${port}/`, { ...strict, lookup: leads('127.0.0.1') })).toBe('E_SSRF_BLOCKED')
      expect(hits()).toBe(0)
    }))
  it('rejects a name with one disallowed DNS answer of two', () =>
    withTarget(async (port, hits) => {
      expect(await get(`http://a.test:${port}/`, { ...strict, lookup: leads('8.8.8.8', '127.0.0.1') })).toBe(
        'E_SSRF_BLOCKED',
      )
      expect(hits()).toBe(0)
    }))
  it('reaches what the rules allow', () =>
    withTarget(async (port, hits) => {
      const rules: NetRules = { allow: new Set(['loopback']), http: true, setting: 'x', lookup: leads('127.0.0.1') }
      expect(await get(`http://127.0.0.1:${port}/`, rules)).toBe('ok')
      expect(await get(`http://a.test:${port}/`, rules)).toBe('ok')
      expect(hits()).toBe(2)
    }))
  it('reports the DNS error for an unknown name', async () =>
    expect(await get('http://a.test/', { ...strict, lookup: leads() })).toBe('ENOTFOUND'))
})
