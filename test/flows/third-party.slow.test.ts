import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Answer, answerOf, temporaryFolder } from '../app.ts'
import type { Era } from '../client.ts'
import { connectToProcess, descendants } from '../process.ts'
import { alive, until } from '../upstream/host.ts'

const root = join(import.meta.dirname, '../..')
const official = (name: string): string => join(root, `node_modules/@modelcontextprotocol/server-${name}/dist/index.js`)
const optional = (file: string): string => join(root, 'test/optional/node_modules', file)

/** The program of each server, which identifies its process. */
const PROGRAMS: Readonly<Record<string, string>> = {
  everything: official('everything'),
  filesystem: official('filesystem'),
  memory: official('memory'),
  'sequential-thinking': official('sequential-thinking'),
  playwright: optional('@playwright/mcp/cli.js'),
  'chrome-devtools': optional('chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js'),
  context7: optional('@upstash/context7-mcp/dist/index.js'),
  notionApi: optional('@notionhq/notion-mcp-server/bin/cli.mjs'),
  'mcp-server-chart': optional('@antv/mcp-server-chart/build/index.js'),
  eslint: optional('@eslint/mcp/src/mcp-cli.js'),
}
/** One of them renames its process. */
const TITLES: Readonly<Record<string, string>> = { 'chrome-devtools': 'chrome-devtools-mcp' }
const missing = Object.values(PROGRAMS).some((file) => !existsSync(file))

/**
 * Ten entries from ten pages of documentation, with all their settings. Only the programs are local, and so are the
 * services that three of them use on the internet. Two of them find no browser, wherever this runs.
 */
const pasted = (dir: string, services: string): string => {
  const at = (id: string): string => JSON.stringify(PROGRAMS[id])
  return `{
  // from everywhere
  "exposure": { "mode": "discovery", "primitives": false },
  "mcpServers": {
    "everything": { "command": "node", "args": [${at('everything')}, "stdio"] },
    "filesystem": { "command": "node", "args": [${at('filesystem')}, ${JSON.stringify(dir)}], "alwaysAllow": ["read_file"] },
    "memory": {
      "command": "node",
      "args": [${at('memory')}],
      "env": { "MEMORY_FILE_PATH": ${JSON.stringify(join(dir, 'memory.json'))} },
    },
    "sequential-thinking": { "type": "stdio", "command": "node", "args": [${at('sequential-thinking')}] },
    "playwright": {
      "command": "node",
      "args": [${at('playwright')}, "--headless", "--executable-path", ${JSON.stringify(join(dir, 'no-browser'))}],
      "disabled": false,
      "autoApprove": [],
    },
    "chrome-devtools": {
      "command": "node",
      "args": [${at('chrome-devtools')}, "--headless=true", "--isolated=true", "--executablePath", ${JSON.stringify(join(dir, 'no-browser'))}],
      "env": { "CHROME_DEVTOOLS_MCP_NO_USAGE_STATISTICS": "1", "CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS": "1" },
    },
    "context7": {
      "command": "node",
      "args": [${at('context7')}, "--api-key", "YOUR_API_KEY"],
      "env": { "CONTEXT7_API_URL": "${services}/docs" },
    },
    "notionApi": { "command": "node", "args": [${at('notionApi')}], "env": { "NOTION_TOKEN": "ntn_****", "BASE_URL": "${services}/notion" } },
    "mcp-server-chart": {
      "command": "node",
      "args": [${at('mcp-server-chart')}],
      "timeout": 60,
      "env": { "VIS_REQUEST_SERVER": "${services}/chart" },
    },
    "eslint": { "type": "stdio", "command": "node", "args": [${at('eslint')}], "cwd": ${JSON.stringify(dir)} },
  },
}`
}

const TOOLS = {
  everything: 15,
  filesystem: 14,
  memory: 9,
  'sequential-thinking': 1,
  playwright: 25,
  'chrome-devtools': 32,
  context7: 2,
  notionApi: 24,
  'mcp-server-chart': 27,
  eslint: 1,
}

/** Queries of a user, and the tool for each. */
const WISHES: readonly (readonly [string, string])[] = [
  ['add two numbers', 'mcp_everything.get-sum'],
  ['read a text file from disk', 'mcp_filesystem.read_text_file'],
  ['create entities in the knowledge graph', 'mcp_memory.create_entities'],
  ['think step by step', 'mcp_sequential-thinking.sequentialthinking'],
  ['take a screenshot of the page', 'mcp_playwright.browser_take_screenshot'],
  ['record a performance trace', 'mcp_chrome-devtools.performance_start_trace'],
  ['up to date documentation of a library', 'mcp_context7.query-docs'],
  ['query a notion data source', 'mcp_notionapi.API-query-data-source'],
  ['draw a pie chart', 'mcp_mcp-server-chart.generate_pie_chart'],
  ['check files with eslint', 'mcp_eslint.lint-files'],
]

/** One call of each that changes nothing, and its answer; two of them report a missing browser. */
const CALLS: readonly (readonly [string, string, object, string])[] = [
  ['everything', 'everything__echo', { message: 'hello' }, 'Echo: hello'],
  ['filesystem', 'filesystem__list_allowed_directories', {}, 'Allowed directories:'],
  ['memory', 'memory__read_graph', {}, '"entities": []'],
  [
    'sequential-thinking',
    'sequential-thinking__sequentialthinking',
    { thought: 'so', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 },
    '"thoughtNumber": 1',
  ],
  ['playwright', 'playwright__browser_console_messages', { level: 'info' }, 'no-browser'],
  ['chrome-devtools', 'chrome-devtools__list_pages', {}, 'no-browser'],
  ['context7', 'context7__query-docs', { libraryId: '/pegboard/docs', query: 'x' }, 'GET /docs/v2/context'],
  ['notionApi', 'notionapi__API-get-self', {}, 'GET /notion/v1/users/me'],
  ['mcp-server-chart', 'mcp-server-chart__generate_pie_chart', { data: [{ category: 'a', value: 1 }] }, 'POST /chart'],
  ['eslint', 'eslint__lint-files', { filePaths: ['clean.js'] }, 'Here are the results of running ESLint'],
]

/** Answers the internet requests of three servers with the request itself. */
async function openServices(): Promise<string> {
  const server = createServer((request, response) => {
    const asked = `${request.method} ${request.url?.split('?')[0]}`
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ success: true, resultObj: asked }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

interface Served {
  readonly client: Client
  readonly pid: number
  /** Which of the ten servers are running. */
  running(): Promise<string[]>
  call(name: string, args?: object): Promise<Answer>
  /** Ends the session like a client; returns the processes that were running. */
  close(): Promise<readonly number[]>
}

/** The built program on a pipe, as a client starts it. */
async function serve(dir: string, era: Era): Promise<Served> {
  const { client, pid } = await connectToProcess(
    {
      config: join(dir, 'mcp.config.json'),
      env: { PATH: process.env['PATH'], HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') },
    },
    { versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' } },
  )
  return {
    client,
    pid,
    async running() {
      const lines = (await descendants(pid)).map(({ args }) => args)
      return Object.entries(PROGRAMS).flatMap(([id, file]) =>
        lines.some((line) => line.includes(file) || line.trim() === TITLES[id]) ? [id] : [],
      )
    },
    call: (name, args = {}) => client.callTool({ name, arguments: args as Answer }, { timeout: 30_000 }),
    async close() {
      const pids = [pid, ...(await descendants(pid)).map((one) => one.pid)]
      await client.close()
      return pids
    },
  }
}

/** @param withinMs for servers that were learnt just now: nobody waits for the index */
const finds = async ({ call }: Served, withinMs = 0): Promise<void> => {
  const until = performance.now() + withinMs
  for (const [wish, tool] of WISHES) {
    for (;;) {
      const { tools } = answerOf(await call('search_tools', { query: wish }))
      const names = tools.map(({ name }: Answer) => name)
      if (!names.includes(tool) && performance.now() < until) await sleep(100)
      else {
        expect(names, wish).toContain(tool)
        break
      }
    }
  }
}

// In CI the packages must be installed, so the tests run and fail without them.
describe.skipIf(missing && !process.env['CI'])('ten third-party servers from one pasted file', () => {
  it('are connected once, then listed from disk without starting any, and started one by one by calls', {
    timeout: 180_000,
  }, async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'state'))
    writeFileSync(join(dir, 'mcp.config.json'), pasted(dir, await openServices()))
    writeFileSync(join(dir, 'eslint.config.mjs'), 'export default [{ rules: { "no-var": "error" } }]')
    writeFileSync(join(dir, 'clean.js'), 'const clean = 1\n')

    const first = await serve(dir, 'legacy')
    const asked = performance.now()
    expect((await first.client.listTools()).tools.map(({ name }) => name)).toEqual([
      'search_tools',
      'get_tool',
      'execute_tool',
      'list_categories',
      'browse_category',
    ])
    expect(performance.now() - asked).toBeLessThan(10_000)
    for (;;) {
      const { servers } = answerOf(await first.call('mcp__list_servers'))
      if (servers.every(({ tools }: Answer) => tools > 0)) {
        expect(Object.fromEntries(servers.map(({ id, tools }: Answer) => [id, tools]))).toEqual(TOOLS)
        break
      }
      expect(performance.now() - asked, JSON.stringify(servers)).toBeLessThan(90_000)
      await sleep(250)
    }
    const { total_tools } = answerOf(await first.call('list_categories'))
    expect(total_tools).toBeGreaterThanOrEqual(152)
    await finds(first, 10_000)
    const left = await first.close()
    await until(() => left.every((pid) => !alive(pid)))

    for (const era of ['modern', 'legacy'] as const) {
      const again = await serve(dir, era)
      await again.client.listTools()
      await finds(again)
      // Long enough for servers that start in the background.
      await sleep(3_000)
      expect(await again.running(), `${era}: nothing runs that nobody called`).toEqual([])
      const started: string[] = []
      for (const [id, tool, args, says] of CALLS) {
        const result = await again.call(tool, args)
        expect(result.content[0].text).toContain(says)
        started.push(id)
        expect((await again.running()).sort()).toEqual(started.toSorted())
      }
      const gone = await again.close()
      expect(gone.length).toBeGreaterThan(CALLS.length)
      await until(() => gone.every((pid) => !alive(pid)))
    }
  })
})
