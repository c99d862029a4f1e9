import { expect, it } from 'vitest'
import { ProtocolFailure } from '../../src/core/protocol-failure.ts'
import { noRelay } from '../../src/core/tool.ts'
import { createProcessRpc } from '../../src/server/process-rpc.ts'
import { createManualClock } from '../clock.ts'

/** Two processes that receive each other's messages. */
function two() {
  const listeners: Array<(text: string) => void> = []
  const shared = () => {
    const at = listeners.length
    return {
      publish: (_topic: string, text: string) => listeners.forEach((listen, n) => void (n === at || listen(text))),
      subscribe: (_topic: string, listen: (text: string) => void) => void listeners.push(listen),
    }
  }
  const clock = createManualClock(0)
  return [createProcessRpc(shared(), clock), createProcessRpc(shared(), clock)] as const
}

it('errors of another process are the same as local ones, without text that was not written for clients', async () => {
  const [one, other] = two()
  const said: Record<string, Error> = {
    raw: new Error('connect ECONNREFUSED 10.0.0.5:5432 at /srv/app/secret.js'),
    protocol: new ProtocolFailure(-32602, 'There is no such task'),
  }
  other.answer('it', ({ error }) => Promise.reject(said[String(error)]))
  const failure = (error: string) => one.ask('it', { error }, { relay: noRelay }).catch((thrown: unknown) => thrown)
  expect(await failure('protocol')).toMatchObject({ code: -32602, message: 'There is no such task' })
  expect(await failure('raw')).toMatchObject({ code: -32603, message: 'Internal error' })
})

it('a request that was aborted before is not sent to another process', async () => {
  const [one, other] = two()
  let served = 0
  other.answer('it', () => {
    served++
    return Promise.resolve({})
  })
  const signal = AbortSignal.abort(new Error('the client left'))
  await expect(one.ask('it', {}, { relay: noRelay, signal })).rejects.toThrow('the client left')
  expect(served).toBe(0)
})
