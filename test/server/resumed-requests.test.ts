import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { ProtocolFailure } from '../../src/core/protocol-failure.ts'
import { noRelay, type Relay } from '../../src/core/tool.ts'
import { createResumedRequests, type ResumableRequest } from '../../src/server/resumed-requests.ts'
import { createManualClock, type ManualClock } from '../clock.ts'

type Json = Readonly<Record<string, unknown>>

const form = { mode: 'form', message: 'Name?', requestedSchema: { type: 'object' } }
const all = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} }

/** A manual clock on which the delay for collecting questions passes in real time. */
function gatheringClock(): ManualClock {
  const manual = createManualClock(1_000)
  const after: ManualClock['after'] = (ms, fn) => (ms < 1_000 ? systemClock : manual).after(ms, fn)
  return Object.assign(Object.create(manual), { after })
}

function rig() {
  const clock = gatheringClock()
  const key = randomBytes(32)
  const resumes = createResumedRequests({ clock, key: () => key })
  const asked = (relay: Partial<Relay> = {}, more: Partial<ResumableRequest> = {}): ResumableRequest => ({
    principal: 'ann',
    era: 'modern',
    method: 'tools/call',
    params: { name: 'greet', arguments: {} },
    relay: { ...noRelay, clientCapabilities: all, ...relay },
    ...more,
  })
  return { clock, resumes, asked, next: createResumedRequests({ clock, key: () => key }) }
}

/** A tool of a server that asks this and then returns the answers. */
const asks =
  (...questions: readonly (readonly [string, unknown])[]) =>
  async ({ relay }: { readonly relay: Relay }): Promise<Json> => {
    const answers = []
    for (const [method, params] of questions) answers.push(await relay.request?.(method, params))
    return { answers }
  }

const never = (): Promise<Json> => Promise.reject(new Error('must not be called'))
const invalid = { code: -32602 }

describe('a call to a server that asks, from a client that can only be asked in a result', () => {
  it('returns the question, and continues when the client repeats the call with the answer', async () => {
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

  it('may ask several times, each round with its own state', async () => {
    const { resumes, asked } = rig()
    const sampling = { messages: [], maxTokens: 1 }
    const work = asks(['elicitation/create', form], ['sampling/createMessage', sampling], ['roots/list', {}])
    const first = await resumes.run(asked(), work)
    const yes = { 'elicitation-1': { action: 'accept' } }
    const second = await resumes.run(asked({ requestState: first['requestState'], inputResponses: yes }), never)
    expect(second['inputRequests']).toEqual({ 'sampling-2': { method: 'sampling/createMessage', params: sampling } })
    // The state of the first round is no longer valid.
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

  it('asks again for missing answers', async () => {
    const { resumes, asked } = rig()
    const first = await resumes.run(asked(), asks(['elicitation/create', form]))
    for (const inputResponses of [undefined, {}, { other: {} }, { 'elicitation-1': 'yes' }]) {
      const fresh = await resumes.run(asked(), asks(['elicitation/create', form]))
      const again = await resumes.run(asked({ requestState: fresh['requestState'], inputResponses }), never)
      expect(again['inputRequests']).toEqual(first['inputRequests'])
    }
  })

  it('continues only for its caller and this very request [AUTH-11]', async () => {
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

  it('ends if its client does not return within five minutes, and the server is notified', async () => {
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

  it('ends when Pegboard stops', async () => {
    const { resumes, asked } = rig()
    let told: AbortSignal | undefined
    await resumes.run(asked(), async ({ relay, signal }) => {
      told = signal
      return { answer: await relay.request?.('elicitation/create', form) }
    })
    resumes.close()
    expect(told?.reason).toMatchObject({ code: 'E_SHUTTING_DOWN' })
  })

  it('ends if its client cancels while it is served, and not once an answer was sent', async () => {
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

  it('sends progress and logs to the current request', async () => {
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

  it('is not kept beyond the limit of its principal: the question is cancelled and the call continues', async () => {
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

describe('the state of a server that asks in its result', () => {
  const ask = (inner: unknown) => async (): Promise<Json> => ({
    resultType: 'input_required',
    inputRequests: {},
    ...(inner === undefined ? {} : { requestState: inner }),
  })

  it('is sealed and returned to the server unchanged, also by another process', async () => {
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

  it('is not invented for the server if it sent none', async () => {
    const { resumes, asked } = rig()
    const { requestState } = await resumes.run(asked(), ask(undefined))
    const seen: Json[] = []
    await resumes.run(asked({ requestState, inputResponses: { a: {} } }), async ({ relay }) => {
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

describe('a 2025-era server that requires a URL to be opened', () => {
  const wants = async (): Promise<Json> => {
    throw new ProtocolFailure(-32042, 'open it', {
      elicitations: [{ mode: 'url', elicitationId: 'e1', url: 'https://example.com/x', message: 'Log in' }],
    })
  }

  it('becomes a question for a 2026-era client, and the call is then made as if for the first time', async () => {
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

  it('becomes an error that names the missing capability, if the client opens no URLs', async () => {
    const { resumes, asked } = rig()
    await expect(
      resumes.run(asked({ clientCapabilities: { elicitation: { form: {} } } }), wants),
    ).rejects.toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { elicitation: { url: {} } } },
    })
  })

  it('is passed on unchanged to a 2025-era client', async () => {
    const { resumes, asked } = rig()
    await expect(
      resumes.run(asked({ request: () => Promise.resolve({}) }, { era: 'legacy' }), wants),
    ).rejects.toMatchObject({ code: -32042 })
  })
})

describe('a call that waits for its client', () => {
  it('waits five minutes, or longer if approvals may take longer', async () => {
    for (const [patienceMs, waits] of [
      [undefined, 300_000],
      [30_000, 300_000],
      [600_000, 600_000],
    ] as const) {
      const { asked } = rig()
      const clock = gatheringClock()
      const resumes = createResumedRequests({ clock, key: () => Buffer.alloc(32), ...(patienceMs && { patienceMs }) })
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

describe('a task id', () => {
  it('is valid after a restart, for its principal only, and not when altered [AUTH-11]', () => {
    const { resumes, next } = rig()
    const name = resumes.nameTask('ann', 'mcp_t', 'id:1')
    expect(name).not.toContain('id:1')
    expect(next.findTask('ann', name)).toEqual({ owner: 'mcp_t', id: 'id:1' })
    expect(next.findTask('bob', name)).toBeUndefined()
    expect(next.findTask('ann', name.replace('.', 'A.'))).toBeUndefined()
  })
})
