import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { valueResult } from '../../src/core/tool-result.ts'
import { serveOnStdio } from '../../src/server/serve-stdio.ts'
import { startApp } from '../app.ts'
import { makeTool } from '../tools.ts'

const MIB = 1024 * 1024

/** A client that sends, and reads only on request. */
async function client() {
  const noisy = makeTool('m.noisy', {
    parse: (value) => ({ ok: true, value }),
    async run(_input, _ctx, relay) {
      for (let n = 0; n < 60; n++) {
        relay.notify?.('notifications/message', { level: 'info', data: 'x'.repeat(MIB) })
        await sleep(0)
      }
      return valueResult('done')
    },
  })
  const { app } = await startApp({ exposure: { mode: 'direct' }, modules: { hello: { enabled: false } } })
  app.catalog.set({ id: 'm', summary: 'm', origin: 'module', state: 'ready' }, { tools: [noisy] })
  let drained = (): void => undefined
  const output = {
    written: [] as string[],
    writableLength: 0,
    write(data: string | Buffer) {
      output.written.push(data.toString())
      output.writableLength += data.length
      return false
    },
    cork: () => undefined,
    uncork: () => undefined,
    once(event: string, then: () => void) {
      if (event === 'drain') drained = then
    },
  }
  const up = new PassThrough()
  const connection = serveOnStdio({ host: app.server, clock: systemClock, input: up, output })
  const send = (message: object) => up.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const clientInfo = { name: 'raw', version: '1' }
  send({ id: 0, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo } })
  const answered = async (id: number): Promise<boolean> => {
    for (let tries = 0; tries < 400; tries++, await sleep(5))
      if (output.written.some((text) => text.includes(`"id":${id},`))) return true
    return false
  }
  return {
    connection,
    output,
    send,
    answered,
    call: (id: number) => send({ id, method: 'tools/call', params: { name: 'm__noisy', arguments: {} } }),
    read() {
      output.writableLength = 0
      drained()
    },
  }
}

describe('a client that does not read', () => {
  it('gets no logs and progress from 16 MiB on, and still gets its results', async () => {
    const { call, answered, output, read, send } = await client()
    call(1)
    expect(await answered(1)).toBe(true)
    expect(output.writableLength).toBeGreaterThan(15 * MIB)
    expect(output.writableLength).toBeLessThan(18 * MIB)
    read()
    send({ id: 2, method: 'ping' })
    expect(await answered(2)).toBe(true)
  })

  it('is disconnected when 64 MiB are waiting', async () => {
    const { connection, output, call } = await client()
    let closed = false
    void connection.closed.then(() => {
      closed = true
    })
    call(1)
    while (output.writableLength < MIB) await sleep(1)
    output.writableLength = 65 * MIB
    for (let tries = 0; tries < 200 && !closed; tries++) await sleep(5)
    expect(closed).toBe(true)
  })
})
