import { expect, it } from 'vitest'
import { localCaller } from '../../src/core/context.ts'
import { createEnding } from '../../src/core/ending.ts'
import { PegboardError } from '../../src/core/errors.ts'
import { valueResult } from '../../src/core/result.ts'
import type { CallRequest } from '../../src/exec/call.ts'
import { runParallel } from '../../src/exec/parallel.ts'

const actions = ['late', 'well'].map((name) => ({ name, params: {} }))
const later = (ms: number) => new Promise((done) => setTimeout(done, ms))

it('a call that is ended at its own time limit ends no call beside it', async () => {
  const whole = createEnding()
  const call = async ({ name, abort }: CallRequest) => {
    if (name === 'late') abort?.abort(new PegboardError('E_TIMEOUT', 'too late'))
    await later(5)
    if (abort?.aborted) throw abort.reason
    return valueResult(name)
  }
  const request = { name: 'run_parallel', input: {}, caller: localCaller, abort: whole }
  const { value } = await runParallel(actions, request, call, String, () => 0)
  expect(value.results).toMatchObject([{ code: 'E_TIMEOUT' }, { success: true, data: 'well' }])
  expect(whole.aborted).toBe(false)
})

it('what ends the whole ends all of its calls, with the same reason', async () => {
  const whole = createEnding()
  const call = async ({ abort }: CallRequest) => {
    await later(20)
    if (abort?.aborted) throw abort.reason
    return valueResult(1)
  }
  const running = runParallel(
    actions,
    { name: 'run_parallel', input: {}, caller: localCaller, abort: whole },
    call,
    String,
    () => 0,
  )
  whole.abort(new PegboardError('E_CANCELLED', 'not wanted'))
  const { value } = await running
  expect(value.results).toMatchObject([{ code: 'E_CANCELLED' }, { code: 'E_CANCELLED' }])
})
