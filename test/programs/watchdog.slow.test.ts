import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createWatchdog, watchdogPlan } from '../../src/programs/watchdog.ts'
import { alive, until } from '../upstream/host.ts'

const stubborn = `process.on('SIGTERM', () => {}); process.on('SIGHUP', () => {}); setInterval(() => {}, 1000)`

/** A process group with a child that ignores SIGTERM, and its descendants, all printed on one line. */
async function family(script: string): Promise<readonly number[]> {
  const child = spawn(process.execPath, ['-e', script], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] })
  onTestFinished(() => end(child))
  const [line] = (await once(child.stdout as NonNullable<typeof child.stdout>, 'data')) as [Buffer]
  return [child.pid as number, ...(JSON.parse(line.toString()) as number[])]
}

function end(child: ChildProcess): void {
  try {
    process.kill(-(child.pid as number), 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

const alone = `${stubborn}; console.log('[]')`
const withGrandchildren = `${stubborn}
const { spawn } = require('node:child_process')
const start = (detached) => spawn(process.execPath, ['-e', ${JSON.stringify(stubborn)}], { stdio: 'ignore', detached }).pid
const pids = [start(false), start(true)]
setTimeout(() => console.log(JSON.stringify(pids)), 200)`

/** A process without a parent in its own session, with this in its environment. */
async function orphan(mark: string): Promise<number> {
  const script = `setsid sh -c 'echo $$; exec sleep 600' 2>&- & wait`
  const child = spawn('sh', ['-c', script], {
    env: { PATH: process.env['PATH'], PEGBOARD_CHILD: mark },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [line] = (await once(child.stdout as NonNullable<typeof child.stdout>, 'data')) as [Buffer]
  const pid = Number(line.toString())
  child.kill('SIGKILL')
  await once(child, 'exit')
  onTestFinished(() => void (alive(pid) && process.kill(pid, 'SIGKILL')))
  return pid
}

const watch = () => {
  const warned: string[] = []
  const watchdog = createWatchdog({
    platform: process.platform,
    environment: process.env,
    warn: (message) => warned.push(message),
  })
  onTestFinished(() => watchdog.stop())
  return { watchdog, warned }
}

describe('the watchdog', () => {
  it.runIf(process.platform === 'linux')(
    'kills processes with our mark, whatever their parent, and no others',
    async () => {
      const { watchdog } = watch()
      const [ours, others] = [await orphan(watchdog.mark()), await orphan(watch().watchdog.mark())]
      const [leader] = await family(alone)
      watchdog.guard(leader as number)
      watchdog.stop()
      await until(() => !alive(ours) && !alive(leader as number))
      expect(alive(others)).toBe(true)
    },
  )

  it('ends every group that it watches when Pegboard dies, also processes that left their group [LIFE-03]', async () => {
    const { watchdog } = watch()
    const pids = await family(withGrandchildren)
    expect(pids).toHaveLength(3)
    const spared = await family(alone)
    for (const pid of [pids[0], spared[0]]) watchdog.guard(pid as number)
    watchdog.release(spared[0] as number)
    expect(pids.map(alive)).toEqual([true, true, true])
    const dog = watchdog.pid as number
    // Closes stdin, like the death of Pegboard.
    watchdog.stop()
    await until(() => !pids.some(alive) && !alive(dog))
    expect(alive(spared[0] as number)).toBe(true)
  })

  it('is restarted when killed, with the list of everything it watches', async () => {
    const { watchdog, warned } = watch()
    const [pid] = (await family(alone)) as [number]
    watchdog.guard(pid)
    const first = watchdog.pid as number
    process.kill(first, 'SIGKILL')
    await until(() => watchdog.pid !== undefined && watchdog.pid !== first)
    expect(warned).toEqual(['the watchdog ended (SIGKILL)'])
    watchdog.stop()
    await until(() => !alive(pid))
  })

  it('ends by itself when nothing is watched, and ignores signals meant for Pegboard', async () => {
    const { watchdog } = watch()
    watchdog.wake()
    const dog = watchdog.pid as number
    await new Promise((resolve) => setTimeout(resolve, 200))
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) process.kill(dog, signal)
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect(alive(dog)).toBe(true)
    watchdog.stop()
    await until(() => !alive(dog))
  })

  it('that cannot be started is reported once', async () => {
    const warned: string[] = []
    const plan = { file: '/no-such-shell', args: [], options: {} }
    const warn = (message: string) => void warned.push(message)
    const watchdog = createWatchdog({ platform: process.platform, environment: process.env, plan, warn })
    for (let pid = 100_000_000; pid < 100_000_003; pid++) watchdog.guard(pid)
    await until(() => warned.length > 0)
    watchdog.wake()
    expect(warned).toEqual(['the watchdog ended (ENOENT); children may outlive a killed Pegboard'])
  })

  it('is a shell in its own session, and on Windows Node with taskkill', () => {
    expect(watchdogPlan('linux', '/node')).toMatchObject({ file: '/bin/sh', options: { detached: true, cwd: '/' } })
    const windows = watchdogPlan('win32', 'C:\\node.exe')
    expect(windows).toMatchObject({ file: 'C:\\node.exe', options: { detached: true, windowsHide: true } })
    expect(windows.args[1]).toContain(`spawnSync('taskkill', ['/pid', pid, '/T', '/F']`)
    expect(windows.args[1]).toContain('/^\\d+$/')
  })
})
