import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { digestOf } from '../../src/core/canonical.ts'
import { createLog } from '../../src/core/log.ts'
import { type AuditEntry, type AuditOptions, createAudit } from '../../src/observe/audit-log.ts'
import { temporaryFolder } from '../app.ts'
import { createManualClock } from '../clock.ts'
import { verifyChain } from './verify-chain.ts'

function auditIn(dir: string, options: Partial<AuditOptions> = {}) {
  const warnings: string[] = []
  const clock = createManualClock()
  const file = join(dir, 'state', 'audit.jsonl')
  const log = createLog((line) => warnings.push(line), 'warn')
  const key = () => Buffer.alloc(32, 7)
  const audit = createAudit({
    ...{ file, clock, log, key, maxBytes: 100 * 1024 * 1024, keep: 5, arguments: 'shape' },
    ...options,
  })
  const write = (tool: string, more: object = {}): void =>
    audit.write({ event: 'call', callId: 'c', tool, principal: 'local', profile: 'default', ...more } as AuditEntry)
  const lines = (name = 'audit.jsonl'): Array<Record<string, unknown>> =>
    readFileSync(join(dir, 'state', name), 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
  return { audit, write, lines, warnings, clock, file, dir: join(dir, 'state') }
}

describe('the audit log', () => {
  it('writes lines in order, in a private file', async () => {
    const { audit, write, lines, file } = auditIn(temporaryFolder())
    for (let n = 0; n < 500; n++) write(`m.${n}`)
    await audit.flush()
    write('m.500')
    await audit.flush()
    expect(lines().map(({ tool }) => tool)).toEqual(Array.from({ length: 501 }, (_, n) => `m.${n}`))
    expect(lines()[0]).toEqual({
      time: '1970-01-01T00:00:00.000Z',
      event: 'call',
      callId: 'c',
      tool: 'm.0',
      principal: 'local',
      profile: 'default',
      run: expect.stringMatching(/^[0-9a-f]{12}$/),
      seq: 1,
      prev: '',
      mac: expect.stringMatching(/^[0-9a-f]{32}$/),
    })
    expect((statSync(file).mode & 0o777).toString(8)).toBe('600')
  })

  it('starts a new line after an incomplete one of a killed process', async () => {
    const { audit, write, file, dir } = auditIn(temporaryFolder())
    mkdirSync(dir)
    writeFileSync(file, '{"tool":"half')
    write('m.1')
    await audit.flush()
    write('m.2')
    await audit.flush()
    const [half, ...others] = readFileSync(file, 'utf8').trimEnd().split('\n')
    expect(half).toBe('{"tool":"half')
    expect(others.map((line) => JSON.parse(line).tool)).toEqual(['m.1', 'm.2'])
    expect(verifyChain(others, Buffer.alloc(32, 7))).toEqual([])
  })

  it('continues in a second file at 1 KiB, and splits no line', async () => {
    const { audit, write, lines, dir } = auditIn(temporaryFolder(), { maxBytes: 1_024 })
    for (let n = 0; n < 6; n++) {
      write(`m.${n}`)
      await audit.flush()
    }
    expect(readdirSync(dir).sort()).toEqual(['audit.jsonl', 'audit.jsonl.1'])
    expect(statSync(join(dir, 'audit.jsonl.1')).size).toBeLessThanOrEqual(1_024)
    expect([...lines('audit.jsonl.1'), ...lines()].map(({ tool }) => tool)).toEqual(
      Array.from({ length: 6 }, (_, n) => `m.${n}`),
    )
  })

  it('keeps the configured number of old files, also when much is written at once', async () => {
    const { audit, write, lines, dir } = auditIn(temporaryFolder(), { maxBytes: 1_024, keep: 2 })
    for (let n = 0; n < 100; n++) write(`m.${n}`)
    await audit.flush()
    expect(readdirSync(dir).sort()).toEqual(['audit.jsonl', 'audit.jsonl.1', 'audit.jsonl.2'])
    for (const name of readdirSync(dir)) expect(statSync(join(dir, name)).size).toBeLessThanOrEqual(1_024)
    expect(lines().at(-1)?.['tool']).toBe('m.99')
  })

  it('keeps earlier content of the file, of any writer', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'state'))
    writeFileSync(join(dir, 'state', 'audit.jsonl'), '{"tool":"before"}\n')
    const { audit, write, lines } = auditIn(dir)
    write('after')
    await audit.flush()
    expect(lines().map(({ tool }) => tool)).toEqual(['before', 'after'])
  })

  it('warns once while it cannot be written, drops the excess, and says how much afterwards', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'state', 'audit.jsonl'), { recursive: true })
    const { audit, write, lines, warnings, clock } = auditIn(dir, { maxWaiting: 600 })
    for (let n = 0; n < 10; n++) write(`m.${n}`)
    await audit.flush()
    await audit.flush()
    expect(warnings).toHaveLength(1)
    expect(audit.dropped).toBe(7)
    rmSync(join(dir, 'state', 'audit.jsonl'), { recursive: true })
    clock.pass(1_000)
    await audit.flush()
    expect(lines().map(({ event, tool, lines: n }) => tool ?? `${event} ${n}`)).toEqual([
      'm.0',
      'm.1',
      'm.2',
      'dropped 7',
    ])
    write('m.10')
    await audit.flush()
    expect(lines().at(-1)?.['tool']).toBe('m.10')
  })

  it('writes one line whatever it contains', async () => {
    const { audit, write, file } = auditIn(temporaryFolder())
    write('x\n{"level":"fatal"}', { reason: '\u001b[2J' })
    await audit.flush()
    const text = readFileSync(file, 'utf8')
    expect(text.split('\n')).toHaveLength(2)
    expect(text).not.toContain('\u001b')
  })

  it('records the shape of arguments only, or their values without credentials', () => {
    const input = { to: 'canary', list: [1, 2], deep: { password: 'canary', n: 1, ok: null } }
    const { audit } = auditIn(temporaryFolder())
    const shape = audit.argumentsOf(input)
    expect(shape.arguments).toEqual({
      to: 'string(6)',
      list: 'array(2)',
      deep: { password: 'string(6)', n: 'number', ok: 'null' },
    })
    expect(shape.digest).toMatch(/^[0-9a-f]{64}$/)
    expect(audit.argumentsOf({ list: [1, 2], deep: input.deep, to: 'canary' }).digest).toBe(shape.digest)
    expect(audit.argumentsOf({ ...input, to: 'other' }).digest).not.toBe(shape.digest)
    expect(shape.bytesIn).toBe(73)
    // A plain SHA-256 of the JSON, which would confirm guesses.
    expect(shape.digest).not.toBe(digestOf(input))
    const elsewhere = auditIn(temporaryFolder(), { key: () => Buffer.alloc(32, 8) }).audit
    expect(elsewhere.argumentsOf(input).digest).not.toBe(shape.digest)
    const redacted = auditIn(temporaryFolder(), { arguments: 'redacted' }).audit.argumentsOf(input)
    expect(redacted.arguments).toEqual({ to: 'canary', list: [1, 2], deep: { password: '[redacted]', n: 1, ok: null } })
  })
})
