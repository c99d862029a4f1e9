import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { isStale } from '../../src/upstream/era-history.ts'
import { decodeManifest } from '../../src/upstream/manifest.ts'
import { keeping, until, withServers } from './host.ts'

const fixture = fileURLToPath(new URL('../fixtures/upstreams/slow-probe.mjs', import.meta.url))
const HOUR_MS = 60 * 60_000

/** Connects to one server at each of these hours, and returns the requests of each handshake. */
async function connecting(
  args: readonly string[],
  test: (connect: (hours: number, settled?: (era: unknown) => boolean) => Promise<Connected>) => Promise<void>,
): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'pegboard-probe-'))
  const log = join(dir, 'log')
  const manifests = keeping()
  const startedAt = Date.now()
  try {
    await test(async (hours, settled) => {
      writeFileSync(log, '')
      const kept = (): Verdict | undefined => {
        const [bytes] = [...manifests.kept.values()]
        const verdict = bytes && decodeManifest(bytes)?.verdict
        return verdict && { ...verdict, at: Math.round((verdict.at - startedAt) / HOUR_MS) }
      }
      await withServers(
        { s: { command: process.execPath, args: [fixture, log, ...args], start: 'eager' } },
        async ({ upstreams }) => {
          await until(() => upstreams.status()[0]?.state === 'ready')
          if (settled) await until(() => settled(kept()?.era))
        },
        {
          manifests,
          wait: false,
          clock: { now: () => Date.now() + hours * HOUR_MS, after: systemClock.after },
        },
      )
      return { sent: readFileSync(log, 'utf8').trim().split('\n').slice(0, 2), verdict: kept() }
    })
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

type Verdict = Record<string, unknown> & { readonly at: number; readonly era: string }
interface Connected {
  readonly sent: readonly string[]
  readonly verdict: Verdict | undefined
}

describe('the era of a server', () => {
  it(
    'that ignored the probe is probed again a day later, and not at each start',
    () =>
      connecting(['0', '--mute'], async (connect) => {
        const silent = { era: 'legacy', transport: 'stdio', silent: true }
        expect(await connect(0)).toEqual({ sent: ['server/discover', 'initialize'], verdict: { ...silent, at: 0 } })
        // The verdict has the age of the probe.
        expect(await connect(20)).toEqual({ sent: ['initialize', 'tools/list'], verdict: { ...silent, at: 0 } })
        expect(await connect(25)).toEqual({ sent: ['server/discover', 'initialize'], verdict: { ...silent, at: 25 } })
      }),
    30_000,
  )

  it(
    'that answered the probe late is the newer one from the next connection on',
    () =>
      connecting(['2400'], async (connect) => {
        const first = await connect(0, (era) => era === 'modern')
        expect(first).toEqual({
          sent: ['server/discover', 'initialize'],
          verdict: { era: 'modern', transport: 'stdio', at: 0 },
        })
        // Pegboard now knows that waiting for the answer is useful.
        expect(await connect(1)).toMatchObject({ sent: ['server/discover', 'tools/list'], verdict: { era: 'modern' } })
      }),
    30_000,
  )

  it('that rejected the probe is probed again a week later', () => {
    const legacy = { era: 'legacy', transport: 'stdio', at: 0 } as const
    const stale = (days: number, more: object = {}): boolean => isStale({ ...legacy, ...more }, days * 24 * HOUR_MS)
    expect([stale(6.9), stale(7.1)]).toEqual([false, true])
    expect([stale(0.9, { silent: true }), stale(1.1, { silent: true })]).toEqual([false, true])
    expect(stale(100, { era: 'modern' })).toBe(false)
  })
})
