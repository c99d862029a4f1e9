import { expect, it } from 'vitest'
import { createModelProgress } from '../../src/cli/progress.ts'
import { terminal } from './terminal.ts'

const show = (isTerminal: boolean, ...progress: Parameters<ReturnType<typeof createModelProgress>['show']>[]) => {
  const { io, err } = terminal('/')
  const bar = createModelProgress(io, isTerminal)
  for (const [one] of progress) bar.show(one)
  bar.done()
  return err()
}

it('shows the download progress of a model, and clears the line', () => {
  expect(show(true, [{ file: 'model.onnx', loaded: 5_000_000, total: 20_000_000 }])).toBe(
    '\r\u001b[K[######..................] 25 % of 20.0 MB model.onnx\r\u001b[K',
  )
  expect(show(true, [{ file: 'model.onnx', loaded: 1_500_000, total: undefined }])).toContain('1.5 MB model.onnx')
})

it('prints nothing without a terminal, or if nothing was downloaded', () => {
  expect(show(false, [{ file: 'model.onnx', loaded: 5, total: 20 }])).toBe('')
  expect(show(true)).toBe('')
})
