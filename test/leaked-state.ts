/** Fails a test file of the fast tier that leaves something behind, because later files run in the same process. */
import { afterAll, expect, vi } from 'vitest'

const state = () => ({
  cwd: process.cwd(),
  env: { ...process.env },
  hasFakeTimers: vi.isFakeTimers(),
})
const before = state()

afterAll(() => {
  const after = state()
  vi.unstubAllEnvs()
  vi.useRealTimers()
  expect(after, 'what this file leaves behind').toEqual(before)
})
