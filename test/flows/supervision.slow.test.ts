import { once } from 'node:events'
import { describe, expect, it, onTestFinished } from 'vitest'
import { descendants, place, talkTo } from '../process.ts'
import { serving } from '../signal-ignoring-server.ts'
import { alive, until } from '../upstream/host.ts'

// Ancestors are read from /proc.
describe.runIf(process.platform === 'linux')(
  'a server started by npx that ignores the end of stdin and SIGTERM',
  () => {
    /** Stops the watchdog, so that Pegboard must end its children itself. */
    const alone = async ({ talk, pids }: Awaited<ReturnType<typeof serving>>): Promise<typeof talk> => {
      const [dog, ...more] = (await descendants(talk.child.pid)).filter(({ args }) =>
        args.includes('pegboard-watchdog'),
      )
      expect([dog !== undefined && !pids.includes(dog.pid), more]).toEqual([true, []])
      const { pid } = dog as { readonly pid: number }
      process.kill(pid, 'SIGSTOP')
      onTestFinished(() => void process.kill(pid, 'SIGKILL'))
      return talk
    }
    const gone = async (pids: readonly number[], withinMs: number): Promise<void> => {
      await until(
        () => !pids.some(alive),
        withinMs,
        () => pids.filter(alive).join(' '),
      )
    }

    it('is killed when its client disconnects', async () => {
      const served = await serving()
      const { child } = await alone(served)
      const ended = once(child, 'exit')
      child.stdin.end()
      expect(await ended).toEqual([0, null])
      await gone(served.pids, 5_000)
    })

    it.each(['SIGTERM', 'SIGHUP'] as const)('is killed on %s', async (signal) => {
      const served = await serving()
      const { child } = await alone(served)
      const ended = once(child, 'exit')
      child.kill(signal)
      expect(await ended).toEqual([0, null])
      await gone(served.pids, 5_000)
    })
  },
)

const slow = `
export default { name: 'slow', description: 'Takes its time.', tools: { wait: { description: 'Waits for some milliseconds.', effect: 'read',
  input: { type: 'object', properties: { ms: { type: 'integer' } }, required: ['ms'] },
  run: ({ ms }) => new Promise((resolve) => setTimeout(() => resolve('waited'), ms)) } } }`

describe('a stop signal', () => {
  it('waits for running calls only during the grace period', async () => {
    const { child, send, answer } = await talkTo(place({}, { 'slow.mjs': slow }))
    send({ id: 1, method: 'tools/call', params: { name: 'slow__wait', arguments: { ms: 60_000 } } })
    send({ id: 2, method: 'ping' })
    await answer(2)
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
  })
})
