import { describe, expect, it } from 'vitest'
import { createLog, type LogLevel } from '../../src/core/log.ts'

function lines(write: (log: ReturnType<typeof createLog>) => void, level: LogLevel = 'info'): string[] {
  const told: string[] = []
  write(createLog((line) => told.push(line), level))
  return told
}

describe('a log', () => {
  it('is a line of JSON an entry, from its level on, with the scope it is written in', () => {
    const told = lines((log) => {
      log.debug('no')
      log.scoped('a').scoped('b').warn('yes', { n: 1 })
    })
    expect(told.map((line) => JSON.parse(line))).toEqual([
      { time: expect.any(String), level: 'warn', scope: 'a/b', message: 'yes', n: 1 },
    ])
  })

  it('has nothing in a line that ends it or steers a terminal, and loses none of it', () => {
    const wild = 'x\n{"level":"fatal"}\u001b[2J\u009b2J\u2028\u202e'
    const [line = ''] = lines((log) => log.info(wild))
    expect(line).toMatch(/^[\x20-\x7e]*$/)
    expect(JSON.parse(line).message).toBe(wild)
  })

  it('cuts an entry that is too long, and is JSON still', () => {
    const [line = ''] = lines((log) => log.info('long', { text: '"'.repeat(20_000) }))
    expect(line.length).toBeLessThan(16 * 1024)
    expect(JSON.parse(line)).toMatchObject({ level: 'info', message: 'long', cut: expect.stringContaining('long') })
  })

  it('fails nobody with what it cannot write', () => {
    const circle: Record<string, unknown> = {}
    circle['own'] = circle
    const told = lines((log) => {
      log.warn('circle', circle)
      log.warn('number', { big: 1n })
    })
    expect(told.map((line) => JSON.parse(line).message)).toEqual(['circle', 'number'])
  })
})
