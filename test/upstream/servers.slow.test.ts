import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type UpstreamContract, upstreamContract } from '../contract/upstream.ts'
import { modern, real, scripted, withHttpServer } from './host.ts'

const folder = mkdtempSync(join(tmpdir(), 'pegboard-servers-'))
writeFileSync(join(folder, 'note.txt'), 'a note for the test')

const on =
  (entry: object): UpstreamContract['serve'] =>
  (use) =>
    use(entry)

const everything = {
  tools: ['echo', 'get-sum', 'trigger-long-running-operation'],
  call: { tool: 'echo', input: { message: 'to all' }, says: 'Echo: to all' },
  resources: 7,
  prompts: ['simple-prompt'],
  era: 'legacy',
} as const

// The servers cannot choose a port, and two concurrent runs must not collide.
const port = (offset: number): string => String(20_000 + ((process.pid * 7 + offset) % 20_000))

const served =
  (mode: string, path: string, offset: number): UpstreamContract['serve'] =>
  (use) =>
    withHttpServer(
      real('everything', mode),
      /(?:running|listening) on port (\d+)/,
      (at) => use({ url: `http://127.0.0.1:${at}${path}` }),
      { PORT: port(offset) },
    )

upstreamContract('server-everything on stdio', {
  ...everything,
  serve: on(real('everything', 'stdio')),
  transport: 'stdio',
})
upstreamContract('server-everything on Streamable HTTP', {
  ...everything,
  serve: served('streamableHttp', '/mcp', 1),
  transport: 'http',
})
upstreamContract('server-everything on HTTP+SSE', { ...everything, serve: served('sse', '/sse', 2), transport: 'sse' })
upstreamContract('server-filesystem', {
  serve: on(real('filesystem', folder)),
  transport: 'stdio',
  era: 'legacy',
  tools: ['read_text_file', 'write_file', 'list_directory'],
  call: { tool: 'read_text_file', input: { path: join(folder, 'note.txt') }, says: 'a note for the test' },
})
upstreamContract('server-memory', {
  serve: on({ ...real('memory'), env: { MEMORY_FILE_PATH: join(folder, 'memory.json') } }),
  transport: 'stdio',
  era: 'legacy',
  tools: ['create_entities', 'read_graph', 'delete_entities'],
  call: { tool: 'read_graph', input: {}, says: 'entities' },
})
upstreamContract('server-sequential-thinking', {
  serve: on(real('sequential-thinking')),
  transport: 'stdio',
  era: 'legacy',
  tools: ['sequentialthinking'],
  call: {
    tool: 'sequentialthinking',
    input: { thought: 'so', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 },
    says: 'thoughtNumber',
  },
})
upstreamContract('a 2026-07-28 server on stdio', {
  serve: on(modern()),
  transport: 'stdio',
  era: 'modern',
  tools: ['echo', 'greet'],
  call: { tool: 'echo', input: { text: 'new' }, says: 'new' },
  resources: 1,
  prompts: ['hello'],
})
upstreamContract('a 2026-07-28 server on HTTP', {
  serve: (use) =>
    withHttpServer(modern('--http', '--only'), /port (\d+)/, (at) => use({ url: `http://127.0.0.1:${at}/mcp` })),
  transport: 'http',
  era: 'modern',
  tools: ['echo', 'get_param'],
  call: { tool: 'echo', input: { text: 'new' }, says: 'new' },
  resources: 1,
})
upstreamContract('a server without a library', {
  serve: on(scripted()),
  transport: 'stdio',
  era: 'legacy',
  tools: ['echo', 'burst'],
  call: { tool: 'echo', input: { text: 'plain' }, says: 'plain' },
})
