import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { runProgram } from '../../modules/_program.ts'
import type { Processes } from '../../src/core/service-types.ts'
import { createPrograms } from '../../src/programs/programs.ts'
import { temporaryFolder } from '../app.ts'

function programs(): Processes {
  const all = createPrograms({ platform: process.platform, environment: process.env, warn: () => undefined })
  onTestFinished(() => all.stop())
  return all
}
const node = (code: string) => ({
  command: process.execPath,
  args: ['-e', code],
  folder: temporaryFolder(),
  as: 'node',
})
const long = { signal: new AbortController().signal, seconds: 60, hint: 'Wait.' }
const forEver = 'setInterval(() => {}, 1000)'

test('a call cancelled while its program starts leaves no program behind', async () => {
  const real = programs()
  const call = new AbortController()
  let ended: Promise<unknown> = Promise.resolve('never started')
  const processes: Processes = {
    ...real,
    async start(program) {
      const started = await real.start(program)
      ended = started.ended
      call.abort(new Error('the client went'))
      return started
    },
  }
  await expect(runProgram(processes, { ...node(forEver), signal: call.signal, limit: long })).rejects.toThrow(
    'the client went',
  )
  expect(await ended).toMatchObject({ signal: 'SIGTERM' })
})

test('a call cancelled before starts no program', async () => {
  const started: unknown[] = []
  const real = programs()
  const processes: Processes = {
    ...real,
    start(program) {
      started.push(program)
      return real.start(program)
    },
  }
  const signal = AbortSignal.abort(new Error('the client went'))
  await expect(runProgram(processes, { ...node(forEver), signal, limit: long })).rejects.toThrow('the client went')
  expect(started).toEqual([])
})

test('a program over its time limit is stopped and reported as timed out', async () => {
  const limit = { signal: AbortSignal.timeout(100), seconds: 0.1, hint: 'Ask for less.' }
  await expect(runProgram(programs(), { ...node(forEver), limit })).rejects.toMatchObject({
    code: 'E_TIMEOUT',
    message: 'node took longer than 0.1 s.',
    hint: 'Ask for less.',
  })
})

test("a failing program's last output is reported, without its folder", async () => {
  const run = {
    ...node(`process.stderr.write('x'.repeat(400) + process.cwd() + '/speech.wav is bad'); process.exitCode = 3`),
  }
  const failed = await runProgram(programs(), { ...run, limit: long }).catch((error: Error) => error.message)
  expect(failed).toMatch(/^node failed with code 3: x+…\/speech\.wav is bad$/)
  await expect(
    runProgram(programs(), { ...run, command: join(run.folder, 'none'), limit: long }),
  ).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
})
