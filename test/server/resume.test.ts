import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { ProtocolFailure } from '../../src/core/failure.ts'
import { noRelay, type Relay } from '../../src/core/tool.ts'
import { type Asked, createResumes } from '../../src/server/resume.ts'
import { createManualClock } from '../clock.ts'

type Json = Readonly<Record<string, unknown>>

const form = { mode: 'form', message: 'Name?', requestedSchema: { type: 'object' } }
const all = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} }

function rig() {
  const clock = createManualClock(1_000)
  const key = randomBytes(32)
  const resumes = createResumes({ clock, key: () => key })
  const asked = (relay: Partial<Relay> = {}, more: Partial<Asked> = {}): Asked => ({
    principal: 'ann',
    era: 'modern',
    method: 'tools/call',
    params: { name: 'greet', arguments: {} },
    relay: { ...noRelay, clientCapabilities: all, ...relay },
    ...more,
  })
  return { clock, resumes, asked, next: createResumes({ clock, key: () => key }) }
}

/** A tool of a server that asks this and then says what it was answered. */
const asks =
  (...questions: readonly (readonly [string, unknown])[]) =>
  async ({ relay }: { readonly relay: Relay }): Promise<Json> => {
    const answers = []
    for (const [method, params] of questions) answers.push(await relay.request?.(method, params))
    return { answers }
  }

const never = (): Promise<Json> => Promise.reject(new Error('must not be called'))
const invalid = { code: -32602 }

describe('a call to a server that asks while it runs, of a client that can only be asked by an answer', () => {
  it('is answered with the question, and goes on when the client comes back with what it was told', async () => {
    const { resumes, asked } = rig()
    const first = await resumes.run(asked(), asks(['elicitation/create', form]))
    expect(first).toEqual({
      resultType: 'input_required',
      inputRequests: { 'elicitation-1': { method: 'elicitation/create', params: form } },
      requestState: expect.stringMatching(/^[\w-]+\.[\w-]+$/),
    })
    const inputResponses = { 'elicitation-1': { action: 'accept', content: { name: 'Ann' } } }
    expect(await resumes.run(asked({ requestState: first['requestState'], inputResponses }), never)).toEqual({
      answers: [{ action: 'accept', content: { name: 'Ann' } }],
    })
  })

  it('may ask several times, each round with a state of its own', async () => {
    const { resumes, asked } = rig()
    const sampling = { messages: [], maxTokens: 1 }
    const work = asks(['elicitation/create', form], ['sampling/createMessage', sampling], ['roots/list', {}])
    const first = await resumes.run(asked(), work)
    const yes = { 'elicitation-1': { action: 'accept' } }
    const second = await resumes.run(asked({ requestState: first['requestState'], inputResponses: yes }), never)
    expect(second['inputRequests']).toEqual({ 'sampling-2': { method: 'sampling/createMessage', params: sampling } })
    // The state of the first round says nothing any more.
    await expect(
      resumes.run(asked({ requestState: first['requestState'], inputResponses: yes }), never),
    ).rejects.toMatchObject(invalid)
    const third = await resumes.run(
      asked({ requestState: second['requestState'], inputResponses: { 'sampling-2': { model: 'm' } } }),
      never,
    )
    expect(third['inputRequests']).toEqual({ 'roots-3': { method: 'roots/list', params: {} } })
    expect(
      await resumes.run(
        asked({ requestState: third['requestState'], inputResponses: { 'roots-3': { roots: [] } } }),
        never,
      ),
    ).toEqual({ answers: [{ action: 'accept' }, { model: 'm' }, { roots: [] }] })
  })

  it('asks again for what was not answered', async () => {
    const { resumes, asked } = rig()
    const first = await resumes.run(asked(), asks(['elicitation/create', form]))
    for (const inputResponses of [undefined, {}, { other: {} }, { 'elicitation-1': 'yes' }]) {
      const fresh = await resumes.run(asked(), asks(['elicitation/create', form]))
      const again = await resumes.run(asked({ requestState: fresh['requestState'], inputResponses }), never)
      expect(again['inputRequests']).toEqual(first['inputRequests'])
    }
  })

  it('goes to nobody but who made it, and to no other request [AUTH-11]', async () => {
    const { resumes, asked } = rig()
    const { requestState } = await resumes.run(asked(), asks(['elicitation/create', form]))
    const inputResponses = { 'elicitation-1': { action: 'accept' } }
    const text = String(requestState)
    for (const other of [
      asked({ requestState, inputResponses }, { principal: 'bob' }),
      asked({ requestState, inputResponses }, { params: { name: 'other', arguments: {} } }),
      asked({ requestState, inputResponses }, { params: { name: 'greet', arguments: { x: 1 } } }),
      asked({ requestState: `${text.slice(0, -1)}${text.endsWith('A') ? 'B' : 'A'}`, inputResponses }),
      asked({ requestState: '', inputResponses }),
    ])
      await expect(resumes.run(other, never)).rejects.toMatchObject(invalid)
    expect(await resumes.run(asked({ requestState, inputResponses }), never)).toEqual({
      answers: [{ action: 'accept' }],
    })
  })

  it('ends when its client does not come back within five minutes, and the server is told', async () => {
    const { resumes, asked, clock } = rig()
    let told: AbortSignal | undefined
    const { requestState } = await resumes.run<Json>(asked(), async ({ relay, signal }) => {
      told = signal
      return { answer: await relay.request?.('elicitation/create', form) }
    })
    clock.pass(299_999)
    expect(told?.aborted).toBe(false)
    clock.pass(1)
    expect(told?.reason).toMatchObject({ code: 'E_CANCELLED' })
    await expect(resumes.run(asked({ requestState, inputResponses: {} }), never)).rejects.toMatchObject(invalid)
    expect(clock.waiting).toBe(0)
  })

  it('ends when we do', async () => {
    const { resumes, asked } = rig()
    let told: AbortSignal | undefined
    await resumes.run(asked(), async ({ relay, signal }) => {
      told = signal
      return { answer: await relay.request?.('elicitation/create', form) }
    })
    resumes.close()
    expect(told?.reason).toMatchObject({ code: 'E_SHUTTING_DOWN' })
  })

  it('ends when its client gives up while it is served, and not when an answer has gone out', async () => {
    const { resumes, asked } = rig()
    const gone = new AbortController()
    let told: AbortSignal | undefined
    const work = async ({ relay, signal }: { relay: Relay; signal?: AbortSignal | undefined }): Promise<Json> => {
      told = signal
      await relay.request?.('elicitation/create', form)
      return await new Promise((_, reject) =>
        signal?.addEventListener('abort', () => reject(signal.reason), { once: true }),
      )
    }
    const { requestState } = await resumes.run(asked({}, { signal: gone.signal }), work)
    gone.abort()
    expect(told?.aborted).toBe(false)
    const again = new AbortController()
    const inputResponses = { 'elicitation-1': { action: 'accept' } }
    const waiting = resumes.run(asked({ requestState, inputResponses }, { signal: again.signal }), never)
    await new Promise(setImmediate)
    again.abort(new Error('gone'))
    await expect(waiting).rejects.toThrow('gone')
  })

  it('shows progress and logs to the request that waits now', async () => {
    const { resumes, asked } = rig()
    const heard: unknown[] = []
    const ear = (name: string) => ({ onProgress: (done: number) => heard.push([name, done]) })
    const first = await resumes.run<Json>(asked({}, ear('first')), async ({ relay, onProgress }) => {
      onProgress?.(1)
      await relay.request?.('elicitation/create', form)
      onProgress?.(2)
      relay.notify?.('notifications/message', {})
      return {}
    })
    const notify = (method: string): void => void heard.push(method)
    const relay = { requestState: first['requestState'], inputResponses: { 'elicitation-1': {} }, notify }
    await resumes.run(asked(relay, ear('second')), never)
    expect(heard).toEqual([['first', 1], ['second', 2], 'notifications/message'])
  })

  it('is not kept beyond the bound of its principal: the question is cancelled and the call goes on', async () => {
    const { resumes, asked } = rig()
    for (let n = 0; n < 32; n++)
      expect(await resumes.run(asked(), asks(['elicitation/create', form]))).toMatchObject({
        resultType: 'input_required',
      })
    expect(await resumes.run(asked(), asks(['elicitation/create', form]))).toEqual({ answers: [{ action: 'cancel' }] })
    await expect(resumes.run(asked(), asks(['roots/list', {}]))).rejects.toMatchObject({ code: -32603 })
    expect(await resumes.run(asked({}, { principal: 'bob' }), asks(['elicitation/create', form]))).toMatchObject({
      resultType: 'input_required',
    })
  })
})

describe('the state of a server that asks by answering', () => {
  const ask = (inner: unknown) => async (): Promise<Json> => ({
    resultType: 'input_required',
    inputRequests: {},
    ...(inner === undefined ? {} : { requestState: inner }),
  })

  it('leaves sealed and comes back as the server gave it, also to another process of ours', async () => {
    const { resumes, next, asked } = rig()
    const first = await resumes.run(asked(), ask('opaque "1"'))
    expect(first['requestState']).not.toContain('opaque')
    const seen: unknown[] = []
    const inputResponses = { name: { action: 'accept' } }
    await next.run(asked({ requestState: first['requestState'], inputResponses }), async ({ relay }) => {
      seen.push(relay.requestState, relay.inputResponses)
      return {}
    })
    expect(seen).toEqual(['opaque "1"', inputResponses])
  })

  it('is not made up where the server has none', async () => {
    const { resumes, asked } = rig()
    expect(await resumes.run(asked(), ask(undefined))).toEqual({ resultType: 'input_required', inputRequests: {} })
    const seen: Json[] = []
    await resumes.run(asked({ inputResponses: { a: {} } }), async ({ relay }) => {
      seen.push({ ...relay })
      return {}
    })
    expect(seen[0]).toMatchObject({ inputResponses: { a: {} } })
    expect(seen[0]).not.toHaveProperty('requestState')
  })

  it('never reaches the server altered, expired or with another request [AUTH-11]', async () => {
    const { resumes, asked, clock } = rig()
    const { requestState } = await resumes.run(asked(), ask('opaque'))
    for (const other of [
      asked({ requestState: 'opaque' }),
      asked({ requestState: `${requestState}x` }),
      asked({ requestState }, { principal: 'bob' }),
      asked({ requestState }, { params: { name: 'greet', arguments: { admin: true } } }),
    ])
      await expect(resumes.run(other, never)).rejects.toMatchObject(invalid)
    clock.pass(60 * 60_000)
    await expect(resumes.run(asked({ requestState }), never)).rejects.toMatchObject(invalid)
  })
})

describe('a 2025-era server that wants a page opened first', () => {
  const wants = async (): Promise<Json> => {
    throw new ProtocolFailure(-32042, 'open it', {
      elicitations: [{ mode: 'url', elicitationId: 'e1', url: 'https://example.com/x', message: 'Log in' }],
    })
  }

  it('is put to a 2026-era client as a question, and called again as if for the first time', async () => {
    const { resumes, asked } = rig()
    const first = await resumes.run(asked(), wants)
    expect(first['inputRequests']).toEqual({
      'url-1': {
        method: 'elicitation/create',
        params: { mode: 'url', url: 'https://example.com/x', message: 'Log in' },
      },
    })
    const relays: Relay[] = []
    await resumes.run(
      asked({ requestState: first['requestState'], inputResponses: { 'url-1': { action: 'accept' } } }),
      async ({ relay }) => {
        relays.push(relay)
        return {}
      },
    )
    expect(relays[0]).not.toHaveProperty('requestState')
    expect(relays[0]).not.toHaveProperty('inputResponses')
  })

  it('is an error that names the capability, where the client opens no pages', async () => {
    const { resumes, asked } = rig()
    await expect(
      resumes.run(asked({ clientCapabilities: { elicitation: { form: {} } } }), wants),
    ).rejects.toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { elicitation: { url: {} } } },
    })
  })

  it('is left as it is for a 2025-era client', async () => {
    const { resumes, asked } = rig()
    await expect(
      resumes.run(asked({ request: () => Promise.resolve({}) }, { era: 'legacy' }), wants),
    ).rejects.toMatchObject({ code: -32042 })
  })
})

describe('a call that waits for its client', () => {
  it('waits five minutes, and longer where a person may think longer, never shorter', async () => {
    for (const [patienceMs, waits] of [
      [undefined, 300_000],
      [30_000, 300_000],
      [600_000, 600_000],
    ] as const) {
      const { asked } = rig()
      const clock = createManualClock()
      const resumes = createResumes({ clock, key: () => Buffer.alloc(32), ...(patienceMs && { patienceMs }) })
      const first = await resumes.run(
        asked(),
        async ({ relay }): Promise<Json> => ({
          said: await relay.request?.('elicitation/create', {}),
        }),
      )
      const back = () =>
        resumes.run(asked({ requestState: first['requestState'], inputResponses: {} }), async (): Promise<Json> => ({}))
      clock.pass(waits - 1)
      const again = await back()
      expect(again['resultType']).toBe('input_required')
      clock.pass(waits)
      await expect(
        resumes.run(
          asked({ requestState: again['requestState'], inputResponses: {} }),
          async (): Promise<Json> => ({}),
        ),
      ).rejects.toMatchObject({ code: -32602 })
    }
  })
})

describe('the name of a task', () => {
  it('is found again after a restart, by its principal alone, and not when it was altered [AUTH-11]', () => {
    const { resumes, next } = rig()
    const name = resumes.nameTask('ann', 'mcp_t', 'id:1')
    expect(name).not.toContain('id:1')
    expect(next.findTask('ann', name)).toEqual({ owner: 'mcp_t', id: 'id:1' })
    expect(next.findTask('bob', name)).toBeUndefined()
    expect(next.findTask('ann', name.replace('.', 'A.'))).toBeUndefined()
  })
})
