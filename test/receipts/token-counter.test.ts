import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { expect, it, onTestFinished } from 'vitest'
import { ownPackage } from '../../src/app/package-info.ts'
import { createTokenCounter, estimateTexts } from '../../src/receipts/token-counter.ts'
import { countText } from '../../src/receipts/token-thread.ts'
import { growth } from '../measure-growth.ts'

const root = join(import.meta.dirname, '../..')
const guide = readFileSync(join(root, 'docs/guides/servers.md'), 'utf8')

it('the thread counts as o200k does, and starts with the first text', async () => {
  const counter = createTokenCounter(ownPackage().tokenThread)
  onTestFinished(counter.close)
  expect(counter.isRunning).toBe(false)
  const [hello, special, empty] = await counter.count(['hello world', '<|endoftext|>', ''])
  expect([hello?.exact, special?.exact, empty?.exact]).toEqual([2, 7, 0])
  expect(counter.isRunning).toBe(true)
  const [whole] = await counter.count([guide])
  const exact = countTokens(guide)
  expect(Math.abs((whole?.exact ?? 0) - exact) / exact).toBeLessThan(0.003)
})

it('texts that the thread cannot count are estimated', async () => {
  const counter = createTokenCounter(join(root, 'no-such-thread.cjs'))
  expect(await counter.count(['hello world'])).toEqual([{ estimate: 2 }])
  expect(counter.isRunning).toBe(false)
  expect(await counter.count([])).toEqual([])
})

it('a long word costs time in proportion to its length', async () => {
  expect(await growth((length) => countText('据库连'.repeat(length / 8)))).toBeLessThan(24)
})

it('of a long text, the beginning stands for all of it', () => {
  expect(estimateTexts(['word '.repeat(100_000)])).toEqual([{ estimate: 100_006 }])
})
