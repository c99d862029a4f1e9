import { expect, test } from 'vitest'
import { newHandle } from '../../src/core/handle.ts'
import { isOwnTask } from '../../src/exec/task-requests.ts'

test('a task of ours is known by its handle, and by the shorter one of an earlier version', () => {
  expect([newHandle(), '0123456789ab'].map(isOwnTask)).toEqual([true, true])
  expect(['0123456789abc', '../../etc/passwd', 7, undefined].map(isOwnTask)).toEqual([false, false, false, false])
})
