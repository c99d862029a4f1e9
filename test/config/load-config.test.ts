import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { loadConfig, readConfig } from '../../src/config/load-config.ts'
import { defaultDirs, type Machine } from '../../src/config/machine.ts'
import { policySettings } from '../../src/config/policy-settings.ts'
import { isPegboardError, type PegboardError } from '../../src/core/errors.ts'
import { describeReach } from '../../src/upstream/upstream-settings.ts'

const dir = mkdtempSync(join(tmpdir(), 'pegboard-config-'))
afterAll(() => rmSync(dir, { recursive: true, force: true }))

const machine: Machine = { env: {}, cwd: '/start', platform: 'linux', home: '/home/ada' }
const FILE = '/etc/pegboard/mcp.config.json'
const read = (value: unknown, env: Record<string, string> = {}) =>
  readConfig(typeof value === 'string' ? value : JSON.stringify(value, null, 1), FILE, { ...machine, env })

async function refusal(work: () => unknown): Promise<PegboardError> {
  try {
    await work()
  } catch (error) {
    if (isPegboardError(error)) return error
    throw error
  }
  throw new Error('was accepted')
}

it('rejects a configuration of 30 million characters with a readable error, whatever it contains', async () => {
  for (const text of [
    `{"server": {"name": "${'x'.repeat(30_000_000)}"}}`,
    `{"policy": {"deny": [${'"a.b",'.repeat(5_000_000)}"c"]}}`,
  ])
    expect(await refusal(() => read(text))).toMatchObject({
      code: 'E_CONFIG_INVALID',
      message: expect.stringMatching(/^mcp\.config\.json has 3\d million characters; the limit is 4 million\.$/),
    })
})

describe('the sandbox of a server', () => {
  const targetOf = (entry: object) => {
    const { config, warnings } = read({ mcpServers: { box: { command: 'npx', ...entry } } })
    return { target: config.servers['box']?.target, skipped: config.skipped, warnings }
  }

  it('has absolute paths, a home of its own, and not the folder of the configuration', () => {
    expect(targetOf({ sandbox: { network: false, read: ['data'], write: ['~/out'] } }).target).toEqual({
      kind: 'stdio',
      command: 'npx',
      args: [],
      env: {},
      sandbox: {
        kind: 'auto',
        network: false,
        read: ['/etc/pegboard/data'],
        write: ['/home/ada/out'],
        hidden: ['/etc/pegboard/mcp.config.json', '/home/ada/.local/state/pegboard', '/home/ada/.cache/pegboard'],
        home: '/home/ada/.local/state/pegboard/sandboxes/box',
      },
    })
    expect(targetOf({ sandbox: 'none' }).target).toMatchObject({ cwd: '/etc/pegboard' })
    expect(targetOf({ sandbox: 'none' }).target).not.toHaveProperty('sandbox')
  })

  it('cannot write the configuration or the state of Pegboard', () => {
    for (const folder of ['.', '/', '/etc', 'mcp.config.json', '~/.local/state/pegboard', '~/.cache', '~'])
      expect(targetOf({ sandbox: { write: [folder] } }).skipped[0]?.reason, folder).toContain(
        'where the configuration or the state of Pegboard is',
      )
  })

  it('sees neither secrets nor undo of the user when the configuration names another state folder', () => {
    const box = (sandbox: object) =>
      read({ dirs: { state: '/var/lib/pegboard' }, mcpServers: { box: { command: 'npx', sandbox } } }).config
    expect(box({ read: ['~'] }).servers['box']?.target).toMatchObject({
      sandbox: {
        hidden: [
          '/etc/pegboard/mcp.config.json',
          '/var/lib/pegboard',
          '/home/ada/.cache/pegboard',
          '/home/ada/.local/state/pegboard',
        ],
      },
    })
    expect(box({ write: ['~/.local'] }).skipped[0]?.reason).toContain(
      'where the configuration or the state of Pegboard is',
    )
  })

  it('is described with what it cannot keep apart from the network', () => {
    const reach = (sandbox: object) => {
      const settings = read({ mcpServers: { box: { command: 'npx', sandbox } } }).config.servers['box']
      return settings && describeReach(settings)
    }
    expect(reach({ kind: 'auto', read: ['data'] })).toBe(
      'sandbox; reads /etc/pegboard/data; writes its own folder only; network, also ports and abstract sockets of this machine',
    )
    expect(reach({ kind: 'docker' })).toBe('container; writes its own folder only; network')
    expect(reach({ network: false })).toBe('sandbox; writes its own folder only; no network')
  })

  it('is for local servers', () => {
    const { warnings } = read({ mcpServers: { far: { url: 'https://far.example/mcp', sandbox: 'auto' } } })
    expect(warnings).toEqual(['mcpServers.far.sandbox has no effect: the server runs elsewhere.'])
    expect(targetOf({ sandbox: { image: '--privileged' } }).skipped).toHaveLength(1)
  })
})

describe('Pegboard as a server in its own configuration', () => {
  const self = '/opt/pegboard/dist/cli/main.js'
  const skippedOf = (entry: object) =>
    readConfig(JSON.stringify({ mcpServers: { me: entry } }), FILE, { ...machine, self }).config.skipped

  it.each([
    { command: 'node', args: [self, 'serve', '--stdio', '--config', FILE] },
    { command: 'npx', args: ['-y', 'pegboard', 'serve', '--config=mcp.config.json'] },
    { command: '/usr/local/bin/pegboard', args: ['serve', '-c', './mcp.config.json'] },
  ])('is skipped: %j', (entry) => {
    expect(skippedOf(entry)).toEqual([
      {
        id: 'me',
        reason: 'mcpServers.me starts Pegboard with this same file, so each Pegboard would start another',
        self: true,
      },
    ])
  })

  it.each([
    { command: 'node', args: [self, 'serve', '--stdio', '--config', '/etc/pegboard/other.json'] },
    { command: 'node', args: ['/opt/other/main.js', 'serve', '--config', FILE] },
    { command: 'node', args: [self, 'serve', '--stdio'] },
  ])('is kept if it is another program or file: %j', (entry) => {
    expect(skippedOf(entry)).toEqual([])
  })
})

describe('loadConfig', () => {
  it('works without a file, and then loads no drop-in folder', async () => {
    const { config, warnings } = await loadConfig(machine)
    expect(warnings).toEqual([])
    expect(config).toMatchObject({
      file: undefined,
      modulesDir: undefined,
      autoload: true,
      modules: {},
      servers: {},
      server: { name: 'pegboard', http: { host: '127.0.0.1', port: 3333, auth: 'token' } },
      search: {
        embedder: 'embedded',
        embedderOptions: { dtype: 'q8', pooling: 'mean', download: true, queryTimeoutMs: 300 },
        fusion: 'learned',
      },
      exposure: { mode: 'auto', contextWindow: 131_072, share: 0.2, estimator: 'measured' },
      policy: { maxEffect: 'destructive', deny: [] },
      dirs: { state: '/home/ada/.local/state/pegboard', cache: '/home/ada/.cache/pegboard', workspace: '/start' },
    })
  })

  it('reads a file relative to the working folder, with comments', async () => {
    writeFileSync(join(dir, 'a.json'), '{ // mine\n "modulesDir": "./tools", "dirs": {"state": "var"}, }')
    const { config } = await loadConfig({ ...machine, cwd: dir }, 'a.json')
    expect(config.file).toBe(join(dir, 'a.json'))
    expect(config.modulesDir).toBe(join(dir, 'tools'))
    expect(config.dirs).toEqual({ state: join(dir, 'var'), cache: '/home/ada/.cache/pegboard', workspace: dir })
  })

  it.each([
    ['models', '/etc/pegboard/models'],
    ['../shared', '/etc/shared'],
    ['~/models', '/home/ada/models'],
    ['/srv/models', '/srv/models'],
  ])('resolves the folder of downloaded models relative to the file: %s', (cacheDir, expected) => {
    const { config } = read({ search: { embedder: 'transformers:org/name', embedderOptions: { cacheDir } } })
    expect(config.search.embedderOptions.cacheDir).toBe(expected)
  })

  it('uses the cache folder for downloaded models by default', () => {
    expect(read({}).config.search.embedderOptions).not.toHaveProperty('cacheDir')
  })

  it("fills a model server's key from the environment", () => {
    const value = {
      search: {
        embedder: 'openai:http://127.0.0.1:11434/v1',
        embedderOptions: { model: 'm', apiKey: '${KEY}', dims: '${DIMS}' },
      },
    }
    expect(read(value, { KEY: 'hunter2', DIMS: '256' }).config.search).toMatchObject({
      embedder: 'openai:http://127.0.0.1:11434/v1',
      embedderOptions: { model: 'm', apiKey: 'hunter2', dims: 256 },
    })
  })

  it('reports a missing file, and a folder in its place', async () => {
    const missing = await refusal(() => loadConfig({ ...machine, cwd: dir }, 'nope.json'))
    expect([missing.code, missing.message]).toEqual([
      'E_CONFIG_MISSING',
      'The configuration file nope.json does not exist.',
    ])
    expect((await refusal(() => loadConfig(machine, dir))).message).toBe(`The configuration file ${dir} is a folder.`)
  })
})

describe('an invalid file', () => {
  it('is reported with line and column if it is not JSON', async () => {
    const error = await refusal(() => read('{\n  "exposure": {\n    "mode": auto\n  }\n}'))
    expect(error.code).toBe('E_CONFIG_SYNTAX')
    expect(error.message).toBe(
      'mcp.config.json is not valid JSON at line 3, column 13: "a" is not allowed here; keys and strings need double quotes.',
    )
  })

  it.each([
    [{ exposure: { contextWindw: 1 } }, 'line 3: unknown key "exposure.contextWindw"; did you mean "contextWindow"?'],
    [{ exposre: {} }, 'line 2: unknown key "exposre"; did you mean "exposure"?'],
    [{ mcpServers: {}, exposre: {} }, 'line 3: unknown key "exposre"; did you mean "exposure"?'],
    [{ mcpservers: {} }, 'line 2: unknown key "mcpservers"; did you mean "mcpServers"?'],
    [
      { modules: { fs: { constraints: { allowed_action: [] } } } },
      'line 5: unknown key "modules.fs.constraints.allowed_action"; did you mean "allowed_actions"?',
    ],
    [
      { modules: { web: { access: 'read' } } },
      'line 4: unknown key "modules.web.access"; options of the module itself are in modules.web.config',
    ],
    [{ modules: { fs: { setup: [{ acton: 'x' }] } } }, 'did you mean "action"?'],
    [{ server: { http: { prt: 1 } } }, 'line 4: unknown key "server.http.prt"; did you mean "port"?'],
    [{ policy: { quux: 1 } }, 'line 3: unknown key "policy.quux"; valid keys: default, maxEffect, deny'],
    [
      { policy: { deny: [5] } },
      'policy.deny.0: must be a pattern such as "*.delete_*", or an object with tools, module',
    ],
    [
      { policy: { deny: [{ effects: ['all'] }] } },
      'policy.deny.0: effects.0: must be "read", "write" or "destructive"',
    ],
    [{ policy: { deny: [{ reason: 'why' }] } }, 'policy.deny.0: must have a condition: tools, module, actions'],
    [{ tools: { read: { enable: false } } }, 'unknown key "tools.read.enable"; did you mean "enabled"?'],
    [{ server: { http: { port: '80' } } }, 'server.http.port: must be a number, not a string'],
    [{ exposure: { share: 2 } }, 'line 3: exposure.share: must be at most 1'],
    [{ search: { embeder: 'none' } }, 'line 3: unknown key "search.embeder"; did you mean "embedder"?'],
    [{ search: { embedder: 'minilm' } }, 'line 3: search.embedder: must be "embedded", "none", "transformers:<model'],
    [
      { search: { embedderOptions: { cachDir: 'x' } } },
      'line 4: unknown key "search.embedderOptions.cachDir"; did you mean "cacheDir"?',
    ],
    [{ exposure: { mode: 'all' } }, 'exposure.mode: must be "auto", "direct"'],
    [{ modules: [] }, 'modules: must be an object, not a list'],
    [{ mcpServers: [] }, 'mcpServers: must be an object, not a list'],
    [{ loader: { startTimeoutMs: 0 } }, 'loader.startTimeoutMs: must be at least 1'],
  ])('%j is rejected by name', async (value, text) => {
    const error = await refusal(() => read(value))
    expect(error.code).toBe('E_CONFIG_INVALID')
    expect(error.message).toContain(text)
  })

  it('is reported with all problems at once', async () => {
    const error = await refusal(() =>
      read({ exposre: {}, server: { http: { port: -1 } }, dirs: { state: `$${'{NOWHERE}'}` } }),
    )
    expect(error.message).toMatch(
      /^mcp\.config\.json has \d problems:\n {2}line 2: unknown key "exposre".*\n {2}line 5: server\.http\.port: must be at least 0\n {2}line 9: dirs\.state needs the environment variable NOWHERE, which is not set\n$/,
    )
    expect(error.hint).toBe('Correct the named keys. Set the named variables, or remove the references to them.')
  })

  it('reports only the unset variable, not its consequences', async () => {
    const tokens = [{ token: `$${'{ANN}'}`, principal: 'ann' }]
    const error = await refusal(() => read({ server: { http: { tokens } } }))
    expect(error.message).toBe(
      'mcp.config.json, line 6: server.http.tokens.0.token needs the environment variable ANN, which is not set',
    )
    expect(error.hint).toBe('Set the variable, or remove the reference to it.')
  })

  it.each(['[]', '3', 'null', '"x"'])('%s is not a configuration', async (text) => {
    expect((await refusal(() => read(text))).code).toBe('E_CONFIG_SYNTAX')
  })
})

describe('tokens', () => {
  const token = 'a-token-of-sufficient-length'
  const tokens = (...list: object[]) => ({ server: { http: { tokens: list } }, profiles: { work: {} } })

  it('name their principal, and can be for one profile', () => {
    const { config } = read(tokens({ token: '${ANN}', principal: 'ann@example.com', profile: 'work' }), { ANN: token })
    expect(config.server.http.tokens).toEqual([{ token, principal: 'ann@example.com', profile: 'work', roles: [] }])
  })

  it('are rejected if authentication is off', async () => {
    const file = { server: { http: { auth: 'none', tokens: [{ token, principal: 'ann' }] } } }
    expect((await refusal(() => read(file))).message).toContain('have no effect while server.http.auth is "none"')
  })

  it.each([
    [
      [{ token, principal: 'ann', profile: 'wrok' }],
      'server.http.tokens.0.profile names "wrok", which is not under profiles',
    ],
    [
      [
        { token, principal: 'ann' },
        { token, principal: 'bob' },
      ],
      'server.http.tokens.1 has the same token as another',
    ],
    [[{ token: '${ANN}', principal: 'ann' }], 'needs the environment variable ANN'],
    [[{ token, principal: 'ann\nroot' }], 'server.http.tokens.0.principal'],
    [[{ token: 'short', principal: 'ann' }], 'server.http.tokens.0.token'],
  ])('are rejected: %j', async (list, why) => {
    const { code, message } = await refusal(() => read(tokens(...list)))
    expect([code, message]).toEqual(['E_CONFIG_INVALID', expect.stringContaining(why)])
    expect(message).not.toContain(token)
  })
})

describe('an issuer of access tokens', () => {
  const issuerOf = (issuer: string) =>
    read({ server: { http: { oauth: { issuer } } } }).config.server.http.oauth?.issuer

  it.each(['https://as.example', 'http://localhost:8080', 'http://as.localhost:8080', 'http://127.1'])(
    'can be at %s',
    (issuer) => expect(issuerOf(issuer)).toBe(issuer),
  )

  it.each(['http://as.example', 'http://localhost.example', 'http://10.0.0.1', 'ftp://localhost'])(
    'cannot be at %s',
    async (issuer) =>
      expect((await refusal(() => issuerOf(issuer))).message).toContain('must be an https address (http only on'),
  )
})

describe('variables', () => {
  it('are filled in every notation', () => {
    const value = {
      mcpServers: {
        a: {
          command: 'x',
          // biome-ignore-start lint/suspicious/noTemplateCurlyInString: the text of the file
          args: ['${ONE}', '${env:ONE}-${TWO:-two}', '${input:my-key}', '$${ONE}', '${NOT ONE}', '${EMPTY:-full}'],
          cwd: '${workspaceFolder}/sub',
          env: { HOME: '${userHome}' },
          // biome-ignore-end lint/suspicious/noTemplateCurlyInString: the text of the file
        },
      },
    }
    const { config } = read(value, { ONE: '1', PEGBOARD_INPUT_MY_KEY: 'k', EMPTY: '' })
    expect(config.servers['a']?.target).toEqual({
      kind: 'stdio',
      command: 'x',
      args: ['1', '1-two', 'k', '${ONE}', '${NOT ONE}', 'full'],
      cwd: '/etc/pegboard/sub',
      env: { HOME: '/home/ada' },
    })
  })

  it('can be used in a default; the value of a variable is never expanded', () => {
    const args = ['${NONE:-${ONE}}', '${NONE:-a ${NONE:-b} $${ONE}}', '${A}', '${EMPTY:-${A}}']
    const { config } = read(
      { mcpServers: { a: { command: 'x', args } } },
      { ONE: '1', A: '${B}', B: '${A}', EMPTY: '' },
    )
    expect(config.servers['a']?.target).toMatchObject({ args: ['1', 'a b ${ONE}', '${B}', '${B}'] })
    const { config: without } = read({ mcpServers: { a: { command: 'x', args: ['${NONE:-${NOWHERE}}'] } } }, {})
    expect(without.skipped[0]?.reason).toBe(
      'mcpServers.a.args.0 needs the environment variable NOWHERE, which is not set',
    )
  })

  it('become numbers and booleans where expected', () => {
    const value = { server: { http: { port: '${PORT}' } }, autoload: '${LOAD:-false}' }
    const { config } = read(value, { PORT: '8080' })
    expect([config.server.http.port, config.autoload]).toEqual([8080, false])
  })

  it('that are unset skip their server, naming variable and key, while the rest loads', () => {
    const { config, warnings } = read(
      {
        mcpServers: {
          github: { command: 'gh', env: { TOKEN: '${GITHUB_TOKEN}', OTHER: '${SET}' } },
          memory: { command: 'mem' },
          off: { command: 'x', args: ['${NOWHERE}'], disabled: true },
        },
      },
      { SET: 's3cr3t' },
    )
    expect(Object.keys(config.servers)).toEqual(['memory', 'off'])
    const reason = 'mcpServers.github.env.TOKEN needs the environment variable GITHUB_TOKEN, which is not set'
    expect(config.skipped).toEqual([{ id: 'github', reason }])
    expect(warnings).toEqual([`${reason}; the server is ignored.`])
  })

  it('that are unset skip their module', () => {
    const { config, warnings } = read({ modules: { weather: { config: { key: '${WEATHER_KEY}' } }, hello: {} } })
    expect(config.modules).toMatchObject({ weather: { enabled: false, config: {} }, hello: { enabled: true } })
    expect(config.missing).toEqual({
      'modules.weather': 'modules.weather.config.key needs the environment variable WEATHER_KEY, which is not set',
    })
    expect(warnings).toEqual([
      'modules.weather.config.key needs the environment variable WEATHER_KEY, which is not set; the module is ignored.',
    ])
  })

  it('that are unset skip the language model, while other services and modules stay', () => {
    const { config, warnings } = read({
      services: { llm: { baseUrl: '${LLM_URL}', apiKey: '${LLM_KEY}' }, callLog: 7 },
      modules: { hello: {} },
    })
    expect(config.services).toMatchObject({ callLog: 7, kv: true })
    expect(config.services.llm).toBeUndefined()
    expect(config.modules).toMatchObject({ hello: { enabled: true } })
    expect(config.missing).toEqual({
      'services.llm': 'services.llm.baseUrl needs the environment variable LLM_URL, which is not set',
    })
    expect(warnings).toEqual([
      'services.llm.baseUrl needs the environment variable LLM_URL, which is not set; the language model is ignored.',
      'services.llm.apiKey needs the environment variable LLM_KEY, which is not set; the language model is ignored.',
    ])
    const url = { LLM_URL: 'https://llm.example/v1', LLM_KEY: 'k' }
    expect(
      read({ services: { llm: { baseUrl: '${LLM_URL}', apiKey: '${LLM_KEY}' } } }, url).config.services.llm,
    ).toMatchObject({
      apiKey: 'k',
    })
  })

  it('never appear with their value in an error', async () => {
    const value = { server: { http: { token: '${TOKEN}', port: '${TOKEN}' } }, exposure: { mode: '${TOKEN}' } }
    const error = await refusal(() => read(value, { TOKEN: 'hunter2' }))
    expect(error.message).toContain('server.http.token')
    expect(error.message).not.toContain('hunter2')
  })
})

describe('configuration files of other clients', () => {
  it('for Claude Desktop load unchanged, with a note about foreign keys', () => {
    const { config, warnings } = read({
      globalShortcut: 'Ctrl+Space',
      scale: 1,
      mcpServers: { fs: { command: 'npx', args: ['-y', 'server', '/data'] } },
    })
    expect(config.servers['fs']).toMatchObject({
      enabled: true,
      target: { kind: 'stdio', command: 'npx', args: ['-y', 'server', '/data'], cwd: '/etc/pegboard' },
    })
    expect(warnings).toEqual(['Ignored unknown keys: globalShortcut, scale.'])
  })

  it('for VS Code load with inputs and their defaults', () => {
    const { config, warnings } = readConfig(
      `{
        // asked once
        "inputs": [{ "type": "promptString", "id": "key", "description": "Key", "default": "d", "password": true }],
        "servers": {
          "api": { "type": "http", "url": "https://example.com/mcp", "headers": { "X-Key": "\${input:key}" } },
          "local": { "type": "stdio", "command": "\${workspaceFolder}/bin/x", "envFile": ".env" },
        }
      }`,
      '/code/.vscode/mcp.json',
      machine,
    )
    expect(warnings).toEqual([])
    expect(config.servers['api']?.target).toEqual({
      kind: 'http',
      url: 'https://example.com/mcp',
      headers: { 'X-Key': 'd' },
    })
    expect(config.servers['local']?.target).toMatchObject({ command: '/code/bin/x', envFile: '/code/.vscode/.env' })
  })

  it('with invalid entries load the rest, warn about foreign keys, and prefer mcpServers', () => {
    const { config, warnings } = read({
      mcpServers: { bad: {}, good: { command: 'a', alwaysAllow: ['x'] } },
      servers: { good: { command: 'b' }, more: { url: 'https://example.com/mcp' } },
    })
    expect(Object.keys(config.servers)).toEqual(['good', 'more'])
    expect(config.skipped).toEqual([{ id: 'bad', reason: 'mcpServers.bad names neither a command nor a url' }])
    expect(warnings).toEqual([
      'servers.good is ignored: mcpServers.good is there too.',
      'mcpServers.bad names neither a command nor a url; the server is ignored.',
      'mcpServers.good.alwaysAllow is not a setting of Pegboard.',
    ])
  })
})

describe('an entry in "servers"', () => {
  it('is named by that key in errors', () => {
    const { config } = read({ servers: { bad: { url: 'htp:/x' }, worse: {} } })
    expect(config.skipped.map(({ reason }) => reason)).toEqual([
      'servers.bad.url is not an http or https address',
      'servers.worse names neither a command nor a url',
    ])
  })
})

describe('defaultDirs', () => {
  it.each([
    ['linux', { XDG_STATE_HOME: '/xs', XDG_CACHE_HOME: '/xc' }, '/xs/pegboard', '/xc/pegboard'],
    ['darwin', {}, '/home/ada/Library/Application Support/pegboard', '/home/ada/Library/Caches/pegboard'],
    ['win32', { LOCALAPPDATA: '/local' }, '/local/pegboard', '/local/pegboard/cache'],
    ['linux', { PEGBOARD_STATE_DIR: 'mine' }, '/start/mine', '/start/mine/cache'],
  ] as const)('for %s with %j', (platform, env, state, cache) => {
    expect(defaultDirs({ ...machine, platform, env }, '/base')).toEqual({ state, cache, workspace: '/base' })
  })
})

describe('policySettings', () => {
  it('contains constraints and disabled tools', () => {
    const { config } = read({
      policy: { deny: ['*.rm'] },
      modules: { fs: { constraints: { blocked_actions: ['write'] } }, hello: {} },
      tools: { 'hello.status': { enabled: false }, 'hello.greet': {} },
    })
    expect(policySettings(config)).toMatchObject({
      maxEffect: 'destructive',
      deny: ['*.rm'],
      constraints: { fs: { blocked_actions: ['write'] } },
      disabled: ['hello.status'],
    })
  })
})
