import { expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { PegboardError } from '../../src/core/errors.ts'
import { valueResult } from '../../src/core/tool-result.ts'
import { runParallel } from '../../src/exec/parallel.ts'
import type { CallRequest } from '../../src/exec/tool-calls.ts'

const actions = ['late', 'well'].map((name) => ({ name, params: {} }))
const later = (ms: number) => new Promise((done) => setTimeout(done, ms))

it('a call that hits its own time limit does not affect calls beside it', async () => {
  const whole = new AbortController()
  const call = async ({ name, abort }: CallRequest) => {
    if (name === 'late') abort?.abort(new PegboardError('E_TIMEOUT', 'too late'))
    await later(5)
    abort?.signal.throwIfAborted()
    return valueResult(name)
  }
  const request = { name: 'run_parallel', input: {}, caller: localCaller, abort: whole }
  const { value } = await runParallel(actions, request, call, String, () => 0)
  expect(value.results).toMatchObject([{ code: 'E_TIMEOUT' }, { success: true, data: 'well' }])
  expect(whole.signal.aborted).toBe(false)
})

it('aborting the whole aborts all of its calls with the same reason', async () => {
  const whole = new AbortController()
  const call = async ({ abort }: CallRequest) => {
    await later(20)
    abort?.signal.throwIfAborted()
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
