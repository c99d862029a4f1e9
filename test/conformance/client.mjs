/**
 * The client under test of the suite's client scenarios: `node client.mjs <server-url>`. It starts Pegboard over stdio
 * with the given address as its one upstream server (direct mode, no prefix). A plain MCP client then calls Pegboard,
 * so that the suite checks requests of Pegboard. MCP_CONFORMANCE_SCENARIO, _PROTOCOL_VERSION and _CONTEXT contain the
 * scenario, the revision and its data for the client.
 */

import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { authOf, logIn } from './login.mjs'

const MODERN = '2026-07-28'
// Generous, because the machine may be busy.
const READY_MS = 40_000

const url = process.argv[2]
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? ''
const version = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION ?? '2025-11-25'
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}')

const cli = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const browser = fileURLToPath(new URL('./browser.mjs', import.meta.url))

/** Calls `drive` with a client of a Pegboard in front of the server. */
async function through(drive) {
  const folder = await mkdtemp(join(tmpdir(), 'pegboard-conformance-'))
  const config = join(folder, 'mcp.config.json')
  const auth = scenario.startsWith('auth/') ? authOf(scenario, context) : undefined
  const server = { url, prefix: '', start: 'eager', trust: 'always', ...(auth && { auth }) }
  await writeFile(
    config,
    JSON.stringify({ exposure: { mode: 'direct' }, dirs: { state: 'state' }, mcpServers: { x: server } }),
  )
  await chmod(browser, 0o755)
  // The login opens its address, and the suite's server redirects the browser immediately.
  const env = { PATH: process.env.PATH, HOME: folder, BROWSER: browser, PEGBOARD_KEYRING: 'off' }
  const login = auth?.type === 'oauth' ? () => logIn(cli, config, env) : undefined
  const client = new Client(
    { name: 'conformance', version: '1.0.0' },
    {
      capabilities: { elicitation: { form: { applyDefaults: true } }, sampling: {}, roots: {} },
      versionNegotiation: { mode: version === MODERN ? { pin: MODERN } : 'legacy' },
    },
  )
  client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: {} }))
  try {
    if (login && !(await login())) throw new Error('the login failed')
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [cli, 'serve', '--stdio', '--config', config],
      env,
      stderr: 'pipe',
    })
    const ready = untilReady(transport.stderr, login)
    await Promise.all([client.connect(transport), ready])
    await drive(client, login)
  } finally {
    await client.close()
    await rm(folder, { recursive: true, force: true })
  }
}

/** Pegboard answers before its upstream servers do. Its log reports when they are connected or failing. */
function untilReady(stderr, login) {
  return new Promise((resolve, reject) => {
    let failures = 0
    let logins = 0
    const timer = setTimeout(() => reject(new Error('the server did not become ready')), READY_MS)
    const settle = (then) => {
      clearTimeout(timer)
      then()
    }
    createInterface({ input: stderr }).on('line', (line) => {
      process.stderr.write(`${line}\n`)
      if (!line.startsWith('{')) return
      const { scope, message, retryInMs } = JSON.parse(line)
      if (scope !== 'mcp_x') return
      if (message === 'connected') settle(resolve)
      // A second login if the first was not enough; Pegboard notices it.
      if (login && /wants (a|another) login|\bauth x\b/.test(message ?? '') && logins++ === 0)
        return void login().catch(reject)
      if (retryInMs !== undefined && ++failures === 5) settle(() => reject(new Error(message)))
    })
  })
}

const tools = async (client) => (await client.listTools(undefined, { cacheMode: 'bypass' })).tools

/** Calls every tool without arguments. Logs in again once if a call reports a missing login. */
async function callAll(client, login) {
  for (const { name } of await tools(client)) {
    const { structuredContent } = await client.callTool({ name, arguments: {} })
    if (structuredContent?.error?.code !== 'E_AUTH_REQUIRED') continue
    if (await login?.()) await client.callTool({ name, arguments: {} })
  }
}

const drivers = {
  async tools_call(client) {
    await client.callTool({ name: 'add_numbers', arguments: { a: 5, b: 3 } })
  },
  async 'http-standard-headers'(client) {
    await callAll(client)
    const { resources } = await client.listResources()
    for (const { uri } of resources) if (uri !== 'server://status') await client.readResource({ uri })
    const { prompts } = await client.listPrompts()
    for (const { name } of prompts) await client.getPrompt({ name })
  },
  async 'http-custom-headers'(client) {
    await tools(client)
    for (const call of context.toolCalls) await client.callTool(call)
  },
  async 'http-invalid-tool-headers'(client) {
    for (const { name, inputSchema } of await tools(client)) {
      const args = Object.fromEntries(Object.keys(inputSchema.properties ?? {}).map((key) => [key, 'x']))
      await client.callTool({ name, arguments: args })
    }
  },
  async 'json-schema-2020-12-preservation'(client) {
    const { inputSchema } = (await tools(client)).find(({ name }) => name === 'json_schema_2020_12_tool')
    await client.callTool({ name: 'json_schema_echo', arguments: { schema: inputSchema } })
  },
}

await through(drivers[scenario] ?? callAll)
