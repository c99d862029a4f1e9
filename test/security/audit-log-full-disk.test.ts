import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createChainVerifier } from '../../src/observe/hash-chain.ts'
import { place, talkTo } from '../process.ts'
import { canLimit } from '../process-limits.ts'
import { until } from '../upstream/host.ts'

/** Limits the file size of this process, so that the system ends a write in the middle, like a full disk. */
const LIMIT_KIB = 64

test.skipIf(!canLimit)(
  'a disk that fills up within a line loses and repeats no line of the audit log',
  async () => {
    const where = place({ exposure: { mode: 'direct' }, audit: { enabled: true } })
    const serve = `ulimit -S -f ${LIMIT_KIB}; exec "$0" "$@"`
    const { child, ended, messages, stderr, send } = await talkTo(where, ['bash', '-c', serve])
    const calls = 400
    for (let id = 1; id <= calls; id++)
      send({ id, method: 'tools/call', params: { name: 'hello__say_hello', arguments: { name: `Ada ${id}` } } })
    await until(() => messages.length === 1 + calls, 60_000)
    await until(() => /cannot write the audit log/.test(stderr()), 30_000)
    const file = join(where.dir, 'state', 'audit.jsonl')
    const lines = (): string[] => readFileSync(file, 'utf8').split('\n').filter(Boolean)
    expect(lines().length).toBeLessThan(calls)
    expect(spawnSync('prlimit', [`--pid=${child.pid}`, '--fsize=unlimited:unlimited']).status).toBe(0)
    const whole = (): string[] =>
      lines().filter((line) => /"mac":"[0-9a-f]{32}"\}$/.test(line) && line.startsWith('{"time"'))
    await until(() => whole().length >= calls, 30_000)
    child.stdin.end()
    await ended
    expect(new Set(whole()).size).toBe(calls)
    const look = createChainVerifier(readFileSync(join(where.dir, 'state', 'audit.key')))
    const broken = lines()
      .map(look)
      .filter((what) => what !== undefined)
    // Half a line, at the end of the space.
    expect(broken).toEqual(['not a signed line'])
  },
  180_000,
)
