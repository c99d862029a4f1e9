import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import { temporaryFolder } from '../app.ts'

it('measures how a program at a terminal finds and calls the right tool', async () => {
  const json = join(temporaryFolder(), 'results.json')
  const args = ['--terminal', '--requests', '2', '--servers', 'git,memory', '--json', json]
  const child = spawn(process.execPath, ['bench/search-agent/run.mjs', ...args], { stdio: ['pipe', 'pipe', 'ignore'] })
  onTestFinished(() => void child.kill())
  child.stdin.end(
    [
      'search_tools {"query":"remember that Anna likes tea"}',
      'execute_tool {"name":"mcp_memory.add_observations","params":{"observations":[]}}',
      'done',
      'done',
    ].join('\n'),
  )
  const [shown] = await Promise.all([text(child.stdout), once(child, 'exit')])
  expect(shown).toContain('2 requests over 2 servers')
  const [first, second] = JSON.parse(await readFile(json, 'utf8'))
  expect(first).toMatchObject({ searches: 1, calls: 1, used: ['memory/add_observations'] })
  expect(second).toMatchObject({ searches: 0, calls: 0, used: [], shown: false, ok: false })
})
