import { describe, expect, it } from 'vitest'
import { parseServer } from '../../src/upstream/upstream-settings.ts'

const parse = (raw: unknown) => parseServer('srv', raw)

describe('an invalid enumeration value', () => {
  it('is rejected with the valid ones', () => {
    expect(() => parseServer('s', { command: 'x', trust: 'allways' })).toThrow(
      'mcpServers.s.trust: must be "review", "first-use" or "always".',
    )
  })
})

describe('an entry of mcpServers', () => {
  it('is read as Claude Desktop writes it', () => {
    expect(parse({ command: 'npx', args: ['-y', '@scope/server', 3], env: { KEY: 'k', PORT: 80 } })).toEqual({
      settings: {
        target: { kind: 'stdio', command: 'npx', args: ['-y', '@scope/server', '3'], env: { KEY: 'k', PORT: '80' } },
        enabled: true,
        prefix: 'srv',
        allow: [],
        deny: [],
        trustHints: false,
        relay: ['elicitation'],
        start: 'lazy',
        idleStopMs: 300_000,
        maxConcurrent: 128,
        maxQueued: 1_000,
        maxInstances: 32,
        maxInstancesPerPrincipal: 8,
        trust: 'first-use',
        allowPrivate: true,
        where: 'mcpServers.srv',
        tools: {},
      },
      warnings: [],
    })
  })

  it('has settings for single tools, or lists the wanted ones', () => {
    const { settings } = parse({
      command: 'x',
      tools: { get_page: { rename: 'fetch', alias: 'download', replaces: 'web.fetch_url', timeoutMs: 5_000 } },
    })
    expect(settings.tools).toEqual({
      get_page: { rename: 'fetch', alias: ['download'], replaces: 'web.fetch_url', timeoutMs: 5_000 },
    })
    const listed = parse({ command: 'x', tools: ['get_*'] }).settings
    expect(listed).toMatchObject({ allow: ['get_*'], tools: {} })
  })

  it("ignores trust settings from other clients' files", () => {
    expect(parse({ command: 'x', trust: true })).toMatchObject({ settings: { trust: 'first-use' }, warnings: [] })
    expect(parse({ command: 'x', trust: 'review' }).settings.trust).toBe('review')
  })

  it('has login settings', () => {
    const { settings } = parse({ url: 'https://h/mcp', auth: { clientId: 'me', scopes: 'read write', other: 1 } })
    expect(settings.auth).toEqual({
      type: 'oauth',
      clientId: 'me',
      scopes: ['read', 'write'],
      perPrincipal: false,
      allowPrivate: false,
    })
  })

  it.each([
    ['http://mcp.example/', 'plain http is not allowed here'],
    ['https://10.0.0.7/mcp', 'a private address is not allowed here'],
    ['https://localhost/mcp', 'a loopback address is not allowed here'],
    ['https://[::ffff:192.168.0.1]/mcp', 'a private address is not allowed here'],
  ])('at %s is rejected if allowPrivate is false, and accepted otherwise [TOM-37]', (url, why) => {
    for (const key of ['allowPrivate', 'allow_private'])
      expect(() => parse({ url, [key]: false })).toThrowError(
        expect.objectContaining({
          code: 'E_CONFIG_INVALID',
          message: `mcpServers.srv.url: The address is refused: ${why}.`,
          hint: 'mcpServers.srv.allowPrivate is false, so only https and public addresses are allowed.',
        }),
      )
    expect(parse({ url, allowPrivate: true }).settings.allowPrivate).toBe(true)
  })

  it('at a public https address is accepted if allowPrivate is false [TOM-37]', () =>
    expect(parse({ url: 'https://mcp.example/', allowPrivate: false }).settings.allowPrivate).toBe(false))

  it.each([
    [{ type: 'client-credentials' }, 'client-credentials needs "clientId" and "clientSecret" or "privateKey".'],
    [{ clientSecret: 'hush' }, 'a secret or key needs its "clientId".'],
    [
      { type: 'client-credentials', clientId: 'a', clientSecret: 'b', perPrincipal: true },
      'client-credentials has one login for all principals, so perPrincipal cannot be set.',
    ],
    [
      { type: 'enterprise', clientId: 'a', clientSecret: 'b' },
      'enterprise needs "idp" with "idToken" or "idTokenFile".',
    ],
  ])('with auth %j is rejected', (auth, why) =>
    expect(() => parse({ url: 'https://h/mcp', auth })).toThrowError(`mcpServers.srv.auth: ${why}`),
  )

  it('is read as Cursor and VS Code write it', () => {
    const { settings, warnings } = parse({
      type: 'stdio',
      command: 'uvx',
      cwd: '/srv',
      envFile: '/srv/.env',
      gallery: true,
      autoApprove: ['x'],
      alwaysAllow: ['y'],
      disabledTools: ['rm_*'],
    })
    expect(settings).toMatchObject({
      target: { kind: 'stdio', command: 'uvx', cwd: '/srv', envFile: '/srv/.env' },
      deny: ['rm_*'],
    })
    expect(warnings).toEqual([
      'mcpServers.srv.gallery is not a setting of Pegboard.',
      'mcpServers.srv.autoApprove is not a setting of Pegboard.',
      'mcpServers.srv.alwaysAllow is not a setting of Pegboard.',
    ])
  })

  it.each([
    [{ url: 'https://h/mcp' }, 'http'],
    [{ serverUrl: 'https://h/mcp', headers: { Authorization: 'Bearer x' } }, 'http'],
    [{ type: 'http', url: 'https://h/sse' }, 'http'],
    [{ type: 'streamable-http', url: 'https://h/' }, 'http'],
    [{ transport: 'streamableHttp', url: 'https://h/' }, 'http'],
    [{ type: 'sse', url: 'https://h/events' }, 'sse'],
    [{ url: 'https://h/sse' }, 'sse'],
    [{ type: 'http', command: 'unused', url: 'https://h/' }, 'http'],
  ])('%j is reached by %s', (raw, kind) => {
    expect(parse(raw).settings.target.kind).toBe(kind)
  })

  it('can be disabled, filtered, renamed and described', () => {
    const { settings } = parse({
      command: 'c',
      disabled: true,
      prefix: '',
      allow: ['a'],
      allowed_actions: ['b'],
      deny: ['c'],
      blocked_actions: ['d'],
      timeoutMs: 5_000,
      trustHints: true,
      description: 'About it.',
    })
    expect(settings).toMatchObject({
      enabled: false,
      prefix: '',
      allow: ['a', 'b'],
      deny: ['c', 'd'],
      timeoutMs: 5_000,
      trustHints: true,
      summary: 'About it.',
    })
  })

  it('with a misspelled key causes a warning with the nearest key', () => {
    expect(parse({ command: 'c', prefx: 'p' }).warnings).toEqual([
      'mcpServers.srv.prefx is not a setting of Pegboard; did you mean "prefix"?',
    ])
  })

  it.each([
    [{}, 'mcpServers.srv names neither a command nor a url.'],
    [
      { comand: 'node', args: ['server.js'] },
      'mcpServers.srv names neither a command nor a url; "comand" is probably a misspelling of "command".',
    ],
    [{ type: 'stdio', url: 'https://h/' }, 'mcpServers.srv is of type "stdio" and names no command.'],
    [{ url: 'file:///etc/passwd' }, 'mcpServers.srv.url is not an http or https address.'],
    [{ url: 'nonsense' }, 'mcpServers.srv.url is not an http or https address.'],
    ['npx', 'mcpServers.srv: must be an object, not a string.'],
    [{ command: 'c', args: 'not a list' }, 'mcpServers.srv.args: must be a list, not a string.'],
    [{ command: 'c', timeoutMs: 1 }, 'mcpServers.srv.timeoutMs: must be at least 100.'],
    [{ command: 'c', timeoutMs: 600_001 }, 'mcpServers.srv.timeoutMs: must be at most 600000.'],
    [
      { command: 'c', tools: { t: { timeoutMs: 600_001 } } },
      'mcpServers.srv.tools.t.timeoutMs: must be at most 600000.',
    ],
  ])('%j is rejected', (raw, message) => {
    expect(() => parse(raw)).toThrow(expect.objectContaining({ code: 'E_CONFIG_INVALID', message }))
  })
})

describe('the service that a server provides', () => {
  it.each([
    [{ url: 'https://a.test/mcp', provides: 'url_fetcher' }, 'url_fetcher', 'http'],
    [{ url: 'https://a.test/mcp', type: 'web_search' }, 'web_search', 'http'],
    [{ url: 'https://a.test/x', type: 'url_fetcher', transport: 'sse' }, 'url_fetcher', 'sse'],
    [{ command: 'x', type: 'url_fetcher' }, 'url_fetcher', 'stdio'],
    [{ url: 'https://a.test/mcp', type: 'http', provides: 'web_search' }, 'web_search', 'http'],
    [{ url: 'https://a.test/sse', type: 'sse' }, undefined, 'sse'],
  ])('is set by provides, or by type without a transport: %j', (entry, provides, kind) => {
    const { settings, warnings } = parse(entry)
    expect([settings.provides, settings.target.kind, warnings]).toEqual([provides, kind, []])
  })

  it('is one of two values', () => {
    expect(() => parse({ command: 'x', provides: 'coffee' })).toThrow('mcpServers.srv.provides')
  })
})
