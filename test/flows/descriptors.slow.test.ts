import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expect, it, onTestFinished } from 'vitest'
import { cli, place } from '../process.ts'
import { canLimit, lowestFreeDescriptor } from '../process-limits.ts'
import { scripted } from '../upstream/host.ts'

/** A server on stdio with a known number of open files. */
async function served(config: string, env: NodeJS.ProcessEnv) {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [cli, 'serve', '--stdio', '--config', config],
    env: env as Record<string, string>,
    stderr: 'pipe',
  })
  let stderr = ''
  transport.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk
  })
  const client = new Client({ name: 'test', version: '1' })
  onTestFinished(() => client.close())
  await client.connect(transport)
  const pid = String(transport.pid)
  return {
    client,
    limit: (most: number): unknown => execFileSync('prlimit', ['--pid', pid, `--nofile=${most}:`]),
    lowestFree: () => lowestFreeDescriptor(pid),
    said: () => stderr,
  }
}

const moduleThatSays = (
  word: string,
): string => `export default { name: 'word', description: 'Says a word to whoever asks.',
  tools: { say: { description: 'Says its word, which is always the same.', effect: 'read', run: () => '${word}' } } }`

it.runIf(canLimit)(
  'a server without free descriptors reports that it cannot watch its configuration, and watches it later',
  async () => {
    const settings = { exposure: { mode: 'direct' } }
    const { config, env } = place(settings)
    const { client, limit, lowestFree, said } = await served(config, env)
    limit(lowestFree())
    await client.listTools()
    await expect.poll(said, { timeout: 20_000 }).toMatch(/cannot watch (a file|files) for now/)
    limit(1_024)
    writeFileSync(config, JSON.stringify({ ...settings, modules: { hello: { enabled: false } } }))
    await expect.poll(said, { timeout: 60_000 }).toMatch(/configuration reloaded/)
  },
  120_000,
)

it.runIf(canLimit)(
  'a server without free descriptors rejects what needs one, does not exit, and recovers',
  async () => {
    const { config, env, dir } = place(
      {
        exposure: { mode: 'direct' },
        execution: { scheduler: true, watchers: true },
        mcpServers: { old: scripted() },
        modules: {
          filesystem: { config: { roots: ['.'] } },
          database: {
            config: { connections: { shop: { driver: 'sqlite', database: 'shop.db', options: { create: true } } } },
          },
        },
      },
      { 'first.mjs': moduleThatSays('one').replace("'word'", "'first'") },
    )
    writeFileSync(join(dir, 'a.txt'), 'a word\n')
    const { client, limit, lowestFree, said } = await served(config, env)
    const call = async (name: string, input: Record<string, unknown> = {}): Promise<string> => {
      const answer = await client.callTool({ name, arguments: input }, { timeout: 60_000 })
      const text = (answer.content as { text?: string }[])[0]?.text ?? ''
      return answer.isError ? (/^E_[A-Z_]+/.exec(text)?.[0] ?? text) : 'done'
    }
    const all = async (): Promise<string[]> => [
      await call('first__say'),
      await call('filesystem__read', { path: 'a.txt' }),
      await call('filesystem__grep', { pattern: 'w[o]rd', path: '.' }),
      await call('database__query', { sql: 'SELECT 1' }),
      await call('schedule_list'),
      await call('mcp__reconnect', { server_id: 'old' }),
    ]
    const lowest = lowestFree()
    limit(lowest)
    writeFileSync(join(dir, 'modules/word.mjs'), moduleThatSays('two'))
    const CODES = ['done', 'E_OVERLOADED', 'E_STATE_UNAVAILABLE', 'E_UPSTREAM_UNAVAILABLE', 'E_DB_UNAVAILABLE']
    for (let spare = 0; spare <= 24; spare++) {
      limit(lowest + spare)
      const told = await all()
      const failures = said()
        .split('\n')
        .filter((line) => line.includes('E_INTERNAL'))
      expect([spare, told, told.filter((one) => !CODES.includes(one)), failures]).toEqual([spare, told, [], []])
      if (spare === 0) expect(told.slice(3, 5)).toEqual(['E_OVERLOADED', 'E_STATE_UNAVAILABLE'])
    }
    limit(1_024)
    expect(await all()).toEqual(['done', 'done', 'done', 'done', 'done', 'done'])
    // Drop-ins that were added while no folder could be read are found.
    await expect.poll(() => call('word__say'), { timeout: 60_000, interval: 500 }).toBe('done')
    expect(said()).not.toMatch(/panicked|TypeError|uncaught/i)
  },
  180_000,
)

it.runIf(canLimit)(
  'a module that needs more descriptors than available starts when there are enough',
  async () => {
    const { config, env, dir } = place({ exposure: { mode: 'direct' } })
    const { client, limit, lowestFree, said } = await served(config, env)
    await client.listTools()
    const start = `start() { const opened = []
      try { while (opened.length < 60) opened.push(openSync(${JSON.stringify(config)}, 'r')) }
      finally { for (const one of opened) closeSync(one) } }`
    const wide = moduleThatSays('wide').replace("'word'", "'wide'").replace('tools:', `${start}, tools:`)
    limit(lowestFree() + 30)
    writeFileSync(join(dir, 'modules/wide.mjs'), `import { closeSync, openSync } from 'node:fs'\n${wide}`)
    await expect.poll(said, { timeout: 30_000 }).toMatch(/wide did not start: EMFILE/)
    limit(1_024)
    const say = async () => (await client.callTool({ name: 'wide__say', arguments: {} })).isError ?? false
    await expect.poll(say, { timeout: 30_000, interval: 500 }).toBe(false)
  },
  120_000,
)
