import { tmpdir } from 'node:os'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createPrograms, type Programs } from '../../src/programs/programs.ts'
import { canLimit, useUpDescriptors } from '../process-limits.ts'
import { alive } from '../upstream/host.ts'

function programs(environment: Record<string, string | undefined> = process.env): Programs {
  const made = createPrograms({ platform: process.platform, environment, warn: () => undefined })
  onTestFinished(() => made.stop())
  return made
}

const cwd = tmpdir()
const node = process.execPath

describe('programs of tools', () => {
  it('get a short environment, plus the variables they name and request', async () => {
    const made = programs({ PATH: process.env['PATH'], SECRET_TOKEN: 'canary', WANTED: 'w' })
    expect(Object.keys(made.environment())).toEqual(['PATH'])
    expect(made.environment(['WANTED', 'MISSING'])).toMatchObject({ WANTED: 'w' })
    const script =
      'process.stdout.write(JSON.stringify([process.env.SECRET_TOKEN ?? null, process.env.WANTED, process.env.MORE]))'
    const program = await made.start({
      command: node,
      args: ['-e', script],
      cwd,
      env: { MORE: 'm' },
      inherit: ['WANTED'],
    })
    let text = ''
    program.stdout.on('data', (chunk) => {
      text += chunk
    })
    program.stderr.resume()
    expect(await program.ended).toEqual({ code: 0, signal: null })
    expect(JSON.parse(text)).toEqual([null, 'w', 'm'])
  })

  it('that cannot start report why', async () => {
    const made = programs()
    await expect(made.start({ command: 'no-such-program-anywhere', cwd })).rejects.toMatchObject({
      code: 'E_NOT_FOUND',
    })
    await expect(made.start({ command: node, cwd: '/no/such/folder' })).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
  })

  it.runIf(canLimit)('end on request even without free descriptors', async () => {
    const program = await programs().start({ command: node, args: ['-e', 'setTimeout(() => 0, 60_000)'], cwd })
    const free = useUpDescriptors()
    onTestFinished(free)
    await program.stop(0)
    expect((await program.ended).code).toBeNull()
  })

  it.runIf(canLimit)('report that usage cannot be read without free descriptors', async () => {
    const program = await programs().start({ command: node, args: ['-e', 'setTimeout(() => 0, 60_000)'], cwd })
    // Descriptors of earlier programs close a moment later and would be free.
    await new Promise((resolve) => setTimeout(resolve, 300))
    const free = useUpDescriptors()
    onTestFinished(free)
    await expect(program.usage()).rejects.toMatchObject({ code: 'E_OVERLOADED' })
    await expect(program.list()).rejects.toMatchObject({ code: 'E_OVERLOADED' })
    free()
    expect((await program.usage()).processes).toBe(1)
  })

  it.runIf(process.platform !== 'win32')('report the total resource use of all their processes', async () => {
    const program = await programs().start({ command: '/bin/sh', args: ['-c', 'sleep 100 & sleep 100 & wait'], cwd })
    await expect.poll(async () => (await program.usage()).processes).toBe(3)
    expect((await program.usage()).bytes).toBeGreaterThan(500_000)
    await program.stop()
    expect(await program.usage()).toEqual({ processes: 0, bytes: 0 })
  })

  it.runIf(process.platform !== 'win32')('list and signal their own processes, and no others', async () => {
    const program = await programs().start({ command: '/bin/sh', args: ['-c', 'sleep 100 & wait; sleep 100'], cwd })
    await expect.poll(async () => (await program.list()).map(({ command }) => command)).toContain('sleep 100')
    const child = (await program.list()).find(({ command }) => command === 'sleep 100')
    expect(child).toEqual({
      pid: expect.any(Number),
      parent: program.pid,
      command: 'sleep 100',
      bytes: expect.any(Number),
    })
    expect([process.pid, process.ppid, 1].map((pid) => program.signal(pid, 'SIGTERM'))).toEqual([false, false, false])
    expect(program.signal(child?.pid ?? 0, 'SIGTERM')).toBe(true)
    await expect.poll(async () => (await program.list()).some(({ pid }) => pid === child?.pid)).toBe(false)
    await program.stop()
    expect(await program.list()).toEqual([])
    expect(program.signal(program.pid, 'SIGTERM')).toBe(false)
  })

  it('end when all are stopped, and none starts afterwards', async () => {
    const made = programs()
    const script = `process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)`
    const program = await made.start({ command: node, args: ['-e', script], cwd })
    expect(alive(program.pid)).toBe(true)
    await made.stop()
    expect(alive(program.pid)).toBe(false)
    await expect(made.start({ command: node, cwd })).rejects.toMatchObject({ code: 'E_SHUTTING_DOWN' })
  })
})
