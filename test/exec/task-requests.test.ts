import { expect, test } from 'vitest'
import { randomId } from '../../src/core/random-id.ts'
import { isOwnTask } from '../../src/exec/task-requests.ts'

test("one of Pegboard's tasks is recognized by its id, and by the shorter one of an earlier version", () => {
  expect([randomId(), '0123456789ab'].map(isOwnTask)).toEqual([true, true])
  expect(['0123456789abc', '../../etc/passwd', 7, undefined].map(isOwnTask)).toEqual([false, false, false, false])
})
