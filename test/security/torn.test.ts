import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createVerifier } from '../../src/observe/chain.ts'
import { cli, place } from '../process.ts'
import { until } from '../upstream/host.ts'

/** No file of this process may be longer, until it is told otherwise: the system ends a write in the middle, as a full disk does. */
const LIMIT_KIB = 64
const canLimit = process.platform === 'linux' && spawnSync('prlimit', ['--version']).status === 0

test.skipIf(!canLimit)(
  'a disk that is full in the middle of a line costs the audit log no line, and gives none twice',
  async () => {
    const { dir, config, env } = place({ exposure: { mode: 'direct' }, audit: { enabled: true } })
    const serve = `ulimit -S -f ${LIMIT_KIB}; exec "$0" "$@"`
    const child = spawn('bash', ['-c', serve, process.execPath, cli, 'serve', '--stdio', '--config', config], {
      env,
      stdio: 'pipe',
    })
    const ended = once(child, 'exit')
    onTestFinished(async () => {
      child.kill('SIGKILL')
      await ended
    })
    let said = ''
    let warned = ''
    child.stdout.on('data', (chunk: Buffer) => {
      said += chunk
    })
    child.stderr.on('data', (chunk: Buffer) => {
      warned += chunk
    })
    const send = (message: object): void =>
      void child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
    const answers = (): number => said.split('\n').length - 1
    const client = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
    send({ id: 0, method: 'initialize', params: client })
    await until(() => answers() === 1, 30_000)
    send({ method: 'notifications/initialized' })
    const calls = 400
    for (let id = 1; id <= calls; id++)
      send({ id, method: 'tools/call', params: { name: 'hello__say_hello', arguments: { name: `Ada ${id}` } } })
    await until(() => answers() === 1 + calls, 60_000)
    await until(() => /the audit log could not be written/.test(warned), 30_000)
    const file = join(dir, 'state', 'audit.jsonl')
    const lines = (): string[] => readFileSync(file, 'utf8').split('\n').filter(Boolean)
    expect(lines().length).toBeLessThan(calls)
    expect(spawnSync('prlimit', [`--pid=${child.pid}`, '--fsize=unlimited:unlimited']).status).toBe(0)
    const whole = (): string[] =>
      lines().filter((line) => /"mac":"[0-9a-f]{32}"\}$/.test(line) && line.startsWith('{"time"'))
    await until(() => whole().length >= calls, 30_000)
    child.stdin.end()
    await ended
    expect(new Set(whole()).size).toBe(calls)
    const look = createVerifier(readFileSync(join(dir, 'state', 'audit.key')))
    const broken = lines()
      .map(look)
      .filter((what) => what !== undefined)
    // Half a line, where the disk was full.
    expect(broken).toEqual(['not a signed line'])
  },
  180_000,
)
