import { describe, expect, it } from 'vitest'
import { createLog, type LogLevel } from '../../src/core/log.ts'

function lines(write: (log: ReturnType<typeof createLog>) => void, level: LogLevel = 'info'): string[] {
  const told: string[] = []
  write(createLog((line) => told.push(line), level))
  return told
}

describe('a log', () => {
  it('writes one line of JSON per entry, from its level on, with its scope', () => {
    const told = lines((log) => {
      log.debug('no')
      log.scoped('a').scoped('b').warn('yes', { n: 1 })
    })
    expect(told.map((line) => JSON.parse(line))).toEqual([
      { time: expect.any(String), level: 'warn', scope: 'a/b', message: 'yes', n: 1 },
    ])
  })

  it('writes nothing that ends a line or controls a terminal, and loses no text', () => {
    const wild = 'x\n{"level":"fatal"}\u001b[2J\u009b2J\u2028\u202e'
    const [line = ''] = lines((log) => log.info(wild))
    expect(line).toMatch(/^[\x20-\x7e]*$/)
    expect(JSON.parse(line).message).toBe(wild)
  })

  it('shortens an entry that is too long, and stays valid JSON', () => {
    const [line = ''] = lines((log) => log.info('long', { text: '"'.repeat(20_000) }))
    expect(line.length).toBeLessThan(16 * 1024)
    expect(JSON.parse(line)).toMatchObject({ level: 'info', message: 'long', cut: expect.stringContaining('long') })
  })

  it('never throws for a value that cannot be written', () => {
    const circle: Record<string, unknown> = {}
    circle['own'] = circle
    const told = lines((log) => {
      log.warn('circle', circle)
      log.warn('number', { big: 1n })
    })
    expect(told.map((line) => JSON.parse(line).message)).toEqual(['circle', 'number'])
  })
})
