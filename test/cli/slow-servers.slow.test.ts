import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { cli, place } from '../process.ts'
import { alive, scripted, until } from '../upstream/host.ts'

const where = () => place({ mcpServers: { good: scripted(), hangs: { command: 'sleep', args: ['100'] } } })

/** Runs the command; its output by milliseconds since the start. */
async function timed({ config, env }: ReturnType<typeof where>, ...args: string[]) {
  const startedAt = performance.now()
  const child = spawn(process.execPath, [cli, ...args, '--config', config, '--wait', '9'], { env })
  onTestFinished(() => void child.kill('SIGKILL'))
  const seen: { readonly at: number; readonly text: string; readonly from: 'out' | 'err' }[] = []
  for (const [from, stream] of [
    ['out', child.stdout],
    ['err', child.stderr],
  ] as const)
    stream
      .setEncoding('utf8')
      .on('data', (text: string) => seen.push({ at: performance.now() - startedAt, text, from }))
  await once(child, 'close')
  const all = (from: 'out' | 'err'): string => seen.flatMap((one) => (one.from === from ? [one.text] : [])).join('')
  return {
    out: all('out'),
    err: all('err'),
    endedMs: performance.now() - startedAt,
    at: (text: string) => seen.find((one) => one.text.includes(text))?.at ?? Number.POSITIVE_INFINITY,
  }
}

it.each([
  ['list', 'servers', 'mcp_good'],
  ['list', 'tools', 'mcp_good.echo'],
  ['check', '', 'mcp_good'],
])(
  'prints known tools before a hanging server times out: %s %s',
  async (command, what, known) => {
    const { out, err, at, endedMs } = await timed(where(), command, ...(what ? [what] : []))
    expect(endedMs).toBeGreaterThan(9_000)
    // The wait for the hanging server ends nine seconds after the start of the others.
    expect(endedMs - at(known)).toBeGreaterThan(4_000)
    expect(err).toContain('pegboard: waiting for mcp_hangs\n')
    expect(`${out}${err}`).not.toContain('downloading')
    if (command === 'list') expect(out.split('\n').filter((line) => line.startsWith(`${known} `))).toHaveLength(1)
  },
  40_000,
)

it('does not interleave output with the JSON of a list', async () => {
  const { out } = await timed(where(), 'list', 'servers', '--json')
  expect(JSON.parse(out)).toMatchObject([{ id: 'mcp_good' }, { id: 'mcp_hangs', reason: 'starting' }])
}, 40_000)

it.each([[['list']], [['search', 'a file']], [['doctor']]])(
  'ends with exit code 130 at the first Ctrl-C of %j, and its servers end with it',
  async (argv) => {
    const script = 'require("node:fs").writeFileSync(process.argv[1], String(process.pid)); setInterval(() => {}, 1000)'
    const here = place()
    const pidFile = join(here.dir, 'pid')
    const entry = { command: process.execPath, args: ['-e', script, pidFile] }
    writeFileSync(here.config, JSON.stringify({ mcpServers: { hangs: entry } }))
    const child = spawn(process.execPath, [cli, ...argv, '--config', here.config], { env: here.env })
    onTestFinished(() => void child.kill('SIGKILL'))
    const closed = once(child, 'close')
    await until(() => existsSync(pidFile) && readFileSync(pidFile, 'utf8') !== '', 15_000)
    child.kill('SIGINT')
    expect(await closed).toEqual([130, null])
    expect(alive(Number(readFileSync(pidFile, 'utf8')))).toBe(false)
  },
  20_000,
)
