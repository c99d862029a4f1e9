import { expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import type { Tool } from '../../src/core/tool.ts'
import { createRepeatedCalls } from '../../src/exec/repeated-calls.ts'
import { createManualClock } from '../clock.ts'

const MINUTE = 60_000

function rig() {
  const clock = createManualClock(1_000_000)
  const tool = { id: 'm.same', allowRepeat: false } as unknown as Tool
  const repeated = createRepeatedCalls({ limit: 3, clock, toolOf: () => tool })
  const warned = async () => {
    const request = { name: 'm.same', input: {}, caller: localCaller }
    const result = await repeated.run(request, async () => ({ kind: 'mcp', result: { content: [] } }))
    return result.kind === 'mcp' && (result.result.content ?? []).length > 0
  }
  return { clock, warned }
}

it('warns as long as a model repeats a call, even for hours', async () => {
  const { clock, warned } = rig()
  const answers: boolean[] = []
  for (let n = 0; n < 120; n++) {
    answers.push(await warned())
    clock.pass(MINUTE)
  }
  expect(answers.indexOf(true)).toBe(2)
  expect(answers.slice(2).every(Boolean)).toBe(true)
})

it('counts again after ten minutes without the call', async () => {
  const { clock, warned } = rig()
  for (let n = 0; n < 3; n++) await warned()
  clock.pass(10 * MINUTE + 1)
  expect(await warned()).toBe(false)
})
