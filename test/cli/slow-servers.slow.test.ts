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

/** A server that never answers, and the file to which it writes its process id. */
function hangingServer(dir: string) {
  const script = 'require("node:fs").writeFileSync(process.argv[1], String(process.pid)); setInterval(() => {}, 1000)'
  const pidFile = join(dir, 'pid')
  return { pidFile, entry: { command: process.execPath, args: ['-e', script, pidFile] } }
}

/** Runs the command, and interrupts it as soon as the server has started. Expects that the server then ends. */
async function interrupt(argv: readonly string[], env: ReturnType<typeof where>['env'], pidFile: string) {
  const child = spawn(process.execPath, [cli, ...argv], { env })
  onTestFinished(() => void child.kill('SIGKILL'))
  let err = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  child.stdout.resume()
  const closed = once(child, 'close')
  await until(() => existsSync(pidFile) && readFileSync(pidFile, 'utf8') !== '', 15_000)
  child.kill('SIGINT')
  const [code, signal] = await closed
  expect(alive(Number(readFileSync(pidFile, 'utf8')))).toBe(false)
  return { code, signal, err }
}

it.each([[['list']], [['search', 'a file']], [['doctor']]])(
  'ends with exit code 130 at the first Ctrl-C of %j, and its servers end with it',
  async (argv) => {
    const here = place()
    const { pidFile, entry } = hangingServer(here.dir)
    writeFileSync(here.config, JSON.stringify({ mcpServers: { hangs: entry } }))
    const ended = await interrupt([...argv, '--config', here.config], here.env, pidFile)
    expect(ended).toMatchObject({ code: 130, signal: null })
  },
  20_000,
)

it('ends with exit code 130 at the first Ctrl-C of add, which then ends the server and adds nothing', async () => {
  const here = place()
  const { pidFile, entry } = hangingServer(here.dir)
  const before = '{\n  // My servers.\n  "mcpServers": {}\n}\n'
  writeFileSync(here.config, before)
  const add = ['add', 'hangs', '--yes', '--config', here.config, '--', entry.command, ...entry.args]
  const ended = await interrupt(add, here.env, pidFile)
  expect(ended).toMatchObject({ code: 130, signal: null, err: expect.stringContaining('Nothing was added.\n') })
  expect(readFileSync(here.config, 'utf8')).toBe(before)
}, 20_000)
