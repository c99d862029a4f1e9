import { describe, expect, it } from 'vitest'
import { readSource } from '../../src/setup/add-source.ts'
import { idOf, planPackage, planRemote } from '../../src/setup/install-plan.ts'
import { parseRegistryServer, type RegistryPackage, type RegistryRemote } from '../../src/setup/registry-server.ts'

const stdio = { type: 'stdio' }
const NPM = { registryType: 'npm', identifier: '@ann/weather', version: '1.2.3', transport: stdio }

const optionOf = (more: object) =>
  parseRegistryServer({ name: 'io.github.ann/weather', description: 'x', version: '1.0.0', ...more }).options[0]
const packageOf = (more: object = {}): RegistryPackage =>
  optionOf({ packages: [{ ...NPM, ...more }] }) as RegistryPackage
const remoteOf = (more: object): RegistryRemote => optionOf({ remotes: [more] }) as RegistryRemote
/** References as a person writes them, and texts. */
const valuesOf = (values: Readonly<Record<string, string>>) =>
  new Map(Object.entries(values).map(([name, text]) => [name, { text, isReference: /^\$\{\w+:/.test(text) }]))
const entryOf = (more: object = {}, values: Readonly<Record<string, string>> = {}) =>
  planPackage(packageOf(more)).entry(valuesOf(values))

describe('a package', () => {
  it('runs in its pinned version', () => {
    expect(entryOf()).toEqual({ command: 'npx', args: ['-y', '@ann/weather@1.2.3'] })
    expect(entryOf({ registryType: 'pypi', identifier: 'weather-mcp' })).toEqual({
      command: 'uvx',
      args: ['weather-mcp==1.2.3'],
    })
    expect(entryOf({ registryType: 'oci', identifier: 'docker.io/ann/weather:2.0.1', version: undefined })).toEqual({
      command: 'docker',
      args: ['run', '-i', '--rm', 'docker.io/ann/weather:2.0.1'],
    })
  })

  it('gets its arguments after the package, and its variables', () => {
    const more = {
      runtimeArguments: [{ type: 'positional', value: '-y' }],
      packageArguments: [
        { type: 'positional', value: 'serve' },
        { type: 'named', name: '--units', description: 'Units.', choices: ['metric', 'imperial'], default: 'metric' },
        { type: 'named', name: '--verbose' },
        { type: 'positional', valueHint: 'folder', isRequired: true, format: 'filepath' },
      ],
      environmentVariables: [
        { name: 'WEATHER_API_KEY', description: 'The key.', isRequired: true, isSecret: true },
        { name: 'WEATHER_URL', value: 'https://{host}/v1', variables: { host: { default: 'api.example' } } },
        { name: 'WEATHER_MODE', value: 'fast' },
        { name: 'WEATHER_EXTRA' },
      ],
    }
    expect(planPackage(packageOf(more)).inputs).toEqual([
      { name: 'WEATHER_API_KEY', description: 'The key.', required: true, secret: true },
      { name: 'host', description: '', required: false, secret: false, default: 'api.example' },
      { name: 'WEATHER_EXTRA', description: '', required: false, secret: false },
      {
        name: 'units',
        description: 'Units.',
        required: false,
        secret: false,
        default: 'metric',
        choices: ['metric', 'imperial'],
      },
      { name: 'folder', description: '', required: true, secret: false },
    ])
    expect(
      entryOf(more, { WEATHER_API_KEY: '${env:WEATHER_API_KEY}', host: 'h', folder: '/data', units: 'metric' }),
    ).toEqual({
      command: 'npx',
      args: ['-y', '@ann/weather@1.2.3', 'serve', '--units', 'metric', '--verbose', '/data'],
      env: {
        WEATHER_API_KEY: '${env:WEATHER_API_KEY}',
        WEATHER_URL: 'https://h/v1',
        WEATHER_MODE: 'fast',
      },
    })
  })

  it('passes variables to a container by name', () => {
    const more = {
      registryType: 'oci',
      identifier: 'ghcr.io/ann/weather',
      runtimeArguments: [
        { type: 'named', name: '-e', value: 'LEVEL={level}', variables: { level: { default: 'info' } } },
      ],
      environmentVariables: [{ name: 'KEY', isSecret: true }],
    }
    expect(entryOf(more, { KEY: '${keyring:weather.KEY}', level: 'info' })).toEqual({
      command: 'docker',
      args: ['run', '-i', '--rm', '-e', 'KEY', '-e', 'LEVEL', 'ghcr.io/ann/weather:1.2.3'],
      env: { KEY: '${keyring:weather.KEY}', LEVEL: 'info' },
    })
  })

  it('cannot read variables of this machine', () => {
    const more = { environmentVariables: [{ name: 'A', value: '${GITHUB_TOKEN} $5 ${env:HOME}' }] }
    expect(entryOf(more)).toMatchObject({ env: { A: '$${GITHUB_TOKEN} $5 $${env:HOME}' } })
    const variables = { x: { default: '{GITHUB_TOKEN}' }, y: { default: '${env:GITHUB_TOKEN}' } }
    const filled = { environmentVariables: [{ name: 'A', value: '${x} {y}', variables }] }
    const values = new Map(
      Object.entries(variables).map(([name, one]) => [name, { text: one.default, isReference: false }]),
    )
    expect(planPackage(packageOf(filled)).entry(values)).toMatchObject({
      env: { A: '$${GITHUB_TOKEN} $${env:GITHUB_TOKEN}' },
    })
    expect(() => entryOf(filled, { x: '${env:MINE}', y: '' })).toThrow('another reference')
  })

  it('is refused if it wants to inject options, variables or other sources', () => {
    const refused: ReadonlyArray<readonly [more: object, message: string]> = [
      [{ identifier: '--registry=https://evil.example' }, 'The name of the package is not valid.'],
      [{ identifier: 'weather --call x' }, 'The name of the package is not valid.'],
      [{ identifier: 'https://evil.example/x.tgz' }, 'The name of the package is not valid.'],
      [{ version: 'latest' }, 'The version of the package is not fixed ("latest").'],
      [{ version: '^1.0.0' }, 'The version of the package is not fixed ("^1.0.0").'],
      [{ version: undefined }, 'The version of the package is not fixed.'],
      [{ version: '1.0.0 --registry=x' }, 'The version of the package is not fixed ("1.0.0 --registry=x").'],
      [{ registryBaseUrl: 'https://evil.example' }, 'The package comes from another registry (https://evil.example).'],
      [
        { runtimeArguments: [{ type: 'named', name: '--registry', value: 'https://evil.example' }] },
        'It wants the option "--registry https://evil.example" of npx.',
      ],
      [
        { runtimeArguments: [{ type: 'positional', value: '--call=rm -rf ~' }] },
        'It wants the option "--call=rm -rf ~" of npx.',
      ],
      [
        {
          registryType: 'oci',
          identifier: 'ann/weather:1.0',
          runtimeArguments: [{ type: 'named', name: '-v', value: '/:/host' }],
        },
        'It wants the option "-v /:/host" of docker.',
      ],
      [{ registryType: 'oci', identifier: '--privileged' }, 'The name of the package is not valid.'],
      [
        { environmentVariables: [{ name: 'NODE_OPTIONS', value: '--require=/tmp/x.js' }] },
        'It wants to set the variable NODE_OPTIONS.',
      ],
      [
        { environmentVariables: [{ name: 'npm_config_registry' }] },
        'It wants to set the variable npm_config_registry.',
      ],
      [{ environmentVariables: [{ name: 'LD_PRELOAD' }] }, 'It wants to set the variable LD_PRELOAD.'],
      [{ registryType: 'gem', identifier: 'weather' }, 'Packages of the kind "gem" are not supported.'],
      [
        { transport: { type: 'sse', url: 'http://localhost' } },
        'The package starts a server that listens at an address.',
      ],
    ]
    for (const [more, message] of refused) expect(() => planPackage(packageOf(more)), message).toThrow(message)
  })

  it('of a kind that Pegboard does not run comes with the commands that run it', () => {
    const answers: ReadonlyArray<readonly [more: object, message: string, hint: string]> = [
      [
        { registryType: 'mcpb', identifier: 'https://github.com/ann/x/releases/download/v1/weather.mcpb' },
        'It is a bundle (mcpb), which Pegboard does not install.',
        'Download https://github.com/ann/x/releases/download/v1/weather.mcpb, unpack it with unzip, and add the command in its manifest.json: pegboard add weather -- COMMAND.',
      ],
      [
        { registryType: 'nuget', identifier: 'Ann.WeatherMcp' },
        'It is a NuGet package, which Pegboard does not run.',
        'Install the .NET 10 SDK, then run: pegboard add ann-weathermcp -- dnx Ann.WeatherMcp@1.2.3 --yes',
      ],
      [
        { registryType: 'cargo', identifier: 'weather-mcp' },
        'It is a crate of Rust, which Pegboard does not build.',
        'Run: cargo install --locked weather-mcp@1.2.3. Then run: pegboard add weather -- weather-mcp',
      ],
      [
        { registryType: 'go', identifier: 'github.com/ann/weather-mcp', version: 'v1.2.3' },
        'It is a Go module, which Pegboard does not build.',
        'Run: go install github.com/ann/weather-mcp@v1.2.3. Then run: pegboard add weather -- weather-mcp',
      ],
    ]
    const errorOf = (more: object): unknown => {
      try {
        return planPackage(packageOf(more))
      } catch (error) {
        return error
      }
    }
    for (const [more, message, hint] of answers) expect(errorOf(more)).toMatchObject({ message, hint })
    // A command that a person copies must not contain another one.
    for (const [registryType, identifier] of [
      ['cargo', 'x; rm -rf ~'],
      ['nuget', 'x$(id)'],
      ['go', 'github.com/a/`id`'],
      ['mcpb', 'https://x.example/a.mcpb;id'],
    ])
      expect(errorOf({ registryType, identifier })).toMatchObject({
        message: expect.stringMatching(/, and its name or version is not valid\.$/),
      })
    expect(errorOf({ registryType: 'cargo', identifier: 'x', version: '1 && id' })).toMatchObject({
      message: 'It is a crate of Rust, which Pegboard does not build, and its name or version is not valid.',
    })
  })

  it('is refused if its texts hide something', () => {
    for (const value of ['a\u202eb', 'a\nb', 'a\u0000b', 'x'.repeat(3_000)])
      expect(() => packageOf({ packageArguments: [{ type: 'positional', value }] })).toThrow('invisible characters')
    expect(() => packageOf({ packageArguments: [{ type: 'named', name: '-x; rm' }] })).toThrow('not allowed')
    expect(() => packageOf({ environmentVariables: [{ name: 'A B' }] })).toThrow('not allowed')
  })
})

describe('a remote server', () => {
  const plan = (more: object, allowPrivate = false) =>
    planRemote(remoteOf({ type: 'streamable-http', ...more }), allowPrivate)

  it('gets its address and headers, and must not lead into this network', () => {
    const { id, inputs, entry } = plan({
      url: 'https://api.weather.example/{region}/mcp',
      variables: { region: { isRequired: true } },
      headers: [
        { name: 'Authorization', value: 'Bearer {token}', variables: { token: { isSecret: true, isRequired: true } } },
        { name: 'X-Client', value: 'pegboard' },
      ],
    })
    expect(id).toBe('weather')
    expect(inputs.map(({ name, secret }) => [name, secret])).toEqual([
      ['region', false],
      ['token', true],
    ])
    expect(entry(valuesOf({ region: 'eu/../x', token: '${keyring:w.token}' }))).toEqual({
      type: 'http',
      url: 'https://api.weather.example/eu%2F..%2Fx/mcp',
      headers: { Authorization: 'Bearer ${keyring:w.token}', 'X-Client': 'pegboard' },
      allowPrivate: false,
    })
  })

  it('is refused at other addresses', () => {
    for (const url of [
      'http://api.example/mcp',
      'https://127.0.0.1/mcp',
      'https://localhost/mcp',
      'https://10.1.2.3/mcp',
      'https://[::1]/mcp',
      'https://169.254.169.254/latest',
      'https://user:secret@api.example/mcp',
      'https://{host}/mcp',
      '{base}/mcp',
    ])
      expect(() => plan({ url, variables: { host: {}, base: {} } }), url).toThrow(/refused|not fixed/)
    expect(() => plan({ url: 'https://a.example', headers: [{ name: 'Host', value: 'b' }] })).toThrow('the header Host')
    expect(plan({ url: 'http://127.0.0.1:3000/mcp' }, true).entry(new Map())).toEqual({
      type: 'http',
      url: 'http://127.0.0.1:3000/mcp',
    })
  })
})

it('derives short names', () => {
  expect(
    [
      '@modelcontextprotocol/server-memory',
      'mcp-server-git',
      'weather-mcp',
      'mcp.linear.app',
      'Box Server',
      '@x/mcp',
      '10.0.0.5',
    ].map(idOf),
  ).toEqual(['memory', 'git', 'weather', 'linear', 'box', 'mcp', '10-0-0-5'])
})

it('reads what is to be added', () => {
  const programs = new Set(['node', 'npx', './start'])
  const source = (...words: string[]) => readSource(words, (word) => programs.has(word))
  expect(source('https://a.example/mcp')).toEqual({ kind: 'url', url: 'https://a.example/mcp' })
  expect(source('io.github.ann/weather@1.0.0')).toEqual({
    kind: 'registry',
    name: 'io.github.ann/weather',
    version: '1.0.0',
  })
  expect(source('@ann/weather')).toEqual({ kind: 'package', type: 'npm', name: '@ann/weather', args: [] })
  expect(source('npm:weather@1.2.3', 'x')).toEqual({
    kind: 'package',
    type: 'npm',
    name: 'weather',
    version: '1.2.3',
    args: ['x'],
  })
  expect(source('pypi:weather==1.2')).toEqual({
    kind: 'package',
    type: 'pypi',
    name: 'weather',
    version: '1.2',
    args: [],
  })
  expect(source('node', 'x.js')).toEqual({ kind: 'command', command: 'node', args: ['x.js'] })
  expect(source('box', 'node', 'x.js')).toEqual({ kind: 'command', id: 'box', command: 'node', args: ['x.js'] })
  expect(source('./start')).toEqual({ kind: 'command', command: './start', args: [] })
  expect(source('weather')).toEqual({ kind: 'word', word: 'weather' })
  expect(source()).toBeUndefined()
})
