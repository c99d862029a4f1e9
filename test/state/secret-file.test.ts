import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readSecret } from '../../src/state/secret-file.ts'
import { temporaryFolder } from '../app.ts'

const never = (error: unknown): never => {
  throw error
}

describe('a secret kept in a file', () => {
  it('is 32 random bytes, the same for every later reader, and private', () => {
    const file = join(temporaryFolder(), 'state', 'state.key')
    const made = readSecret(file, never)
    expect(made.length).toBe(32)
    expect(readSecret(file, never)).toEqual(made)
    expect(readFileSync(file)).toEqual(made)
    if (process.platform !== 'win32') expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readSecret(join(temporaryFolder(), 'state.key'), never)).not.toEqual(made)
  })

  it('lasts as long as the process if it cannot be stored, and says so', () => {
    const dir = temporaryFolder()
    writeFileSync(join(dir, 'a file'), '')
    writeFileSync(join(dir, 'short'), 'abc')
    const told: unknown[] = []
    expect(readSecret(join(dir, 'a file', 'state.key'), (error) => told.push(error)).length).toBe(32)
    expect(readSecret(join(dir, 'short'), (error) => told.push(error)).length).toBe(32)
    expect(told).toHaveLength(2)
    expect(String(told[1])).toBe(
      `Error: ${join(dir, 'short')} has 3 bytes instead of 32. Delete it: Pegboard then creates a new one.`,
    )
  })
})
