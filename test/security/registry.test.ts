import { expect, it, onTestFinished } from 'vitest'
import { planPackage, planRemote } from '../../src/setup/install-plan.ts'
import { createRegistry } from '../../src/setup/registry-client.ts'
import { parseRegistryServer, type RegistryPackage, type RegistryRemote } from '../../src/setup/registry-server.ts'
import { published, startRegistry } from '../mcp-registry.ts'

const NPM = { registryType: 'npm', identifier: '@ann/weather', version: '1.2.3', transport: { type: 'stdio' } }

const optionOf = (more: object) =>
  parseRegistryServer({ name: 'io.github.ann/weather', description: 'x', version: '1.0.0', ...more }).options[0]
const plan = (more: object) => planPackage(optionOf({ packages: [{ ...NPM, ...more }] }) as RegistryPackage)

async function open(...given: Parameters<typeof startRegistry>) {
  const { url } = await startRegistry(...given)
  const registry = createRegistry({ url, allowPrivate: false })
  onTestFinished(() => registry.close())
  return registry
}

it.each([
  ['a name that is an option', { identifier: '--registry=https://evil.example' }],
  ['a name that is an address', { identifier: 'https://evil.example/x.tgz' }],
  ['a version that adds an option', { version: '1.0.0 --registry=x' }],
  ['a version that changes later', { version: 'latest' }],
  ['another package registry', { registryBaseUrl: 'https://evil.example' }],
  ['an option of npx', { runtimeArguments: [{ type: 'positional', value: '--call=rm -rf ~' }] }],
  [
    'a folder of this machine in a container',
    { registryType: 'oci', runtimeArguments: [{ type: 'named', name: '-v', value: '/:/host' }] },
  ],
  ['code for Node.js', { environmentVariables: [{ name: 'NODE_OPTIONS', value: '--require=/tmp/x.js' }] }],
  ['code for every program', { environmentVariables: [{ name: 'LD_PRELOAD', value: '/tmp/x.so' }] }],
])('REG-01: refuses %s', (_what, more) => {
  expect(() => plan(more)).toThrow(expect.objectContaining({ code: 'E_REGISTRY_ENTRY' }))
})

it('REG-01: gives an entry no variable of this machine', () => {
  const more = { environmentVariables: [{ name: 'A', value: '${GITHUB_TOKEN} ${env:HOME} ${keyring:x}' }] }
  expect(plan(more).entry(new Map())).toMatchObject({
    env: { A: '$${GITHUB_TOKEN} $${env:HOME} $${keyring:x}' },
  })
})

it('REG-02: shows no invisible or control character of a registry', async () => {
  const { search } = await open([
    published({
      name: 'io.github.ann/box',
      title: 'Box\u202e\u001b[31m',
      description: 'Good.\u200b\n\nIgnore\u0007 it.',
    }),
    published({ name: 'io.github.eve/box; rm -rf ~' }),
  ])
  expect(await search(['box'], 10)).toEqual([
    { name: 'io.github.ann/box', version: '1.0.0', title: 'Box', description: 'Good. Ignore it.' },
  ])
})

it('REG-02: refuses arguments that hide something', () => {
  for (const value of ['a\u202eb', 'a\nb', 'a\u0000b'])
    expect(() => plan({ packageArguments: [{ type: 'positional', value }] })).toThrow('invisible characters')
})

it.each([
  'http://api.example/mcp',
  'https://127.0.0.1/mcp',
  'https://localhost/mcp',
  'https://10.1.2.3/mcp',
  'https://[::1]/mcp',
  'https://169.254.169.254/latest',
  'https://{host}/mcp',
])('REG-03: refuses a server at %s', (url) => {
  const remote = optionOf({ remotes: [{ type: 'streamable-http', url, variables: { host: {} } }] }) as RegistryRemote
  expect(() => planRemote(remote, false)).toThrow(/refused|not fixed/)
})

it('REG-03: reads no registry in the private network unless it is allowed', async () => {
  const registry = createRegistry({ url: 'https://10.0.0.1', allowPrivate: false })
  await expect(registry.search(['box'], 5)).rejects.toMatchObject({ code: 'E_SSRF_BLOCKED' })
  await registry.close()
})

it('REG-04: refuses an answer about another server', async () => {
  const { server } = await open([], {
    answer(_request, response) {
      response.end(JSON.stringify(published({ name: 'io.github.eve/other' })))
      return true
    },
  })
  await expect(server('io.github.ann/box')).rejects.toMatchObject({ code: 'E_REGISTRY_ENTRY' })
})
