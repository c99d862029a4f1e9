import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createEndpoint } from '../../src/services/llm-endpoint.ts'

interface Asked {
  readonly url: string | undefined
  readonly authorization: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: what a request holds is what the test is about
  readonly body: any
}

/** A model server with configurable answers. */
async function modelServer(answer: (asked: Asked) => { status?: number; text: string }, { model = 'small' } = {}) {
  const asked: Asked[] = []
  const server = createServer(async (req, res) => {
    let text = ''
    for await (const part of req) text += part
    const one = { url: req.url, authorization: req.headers.authorization, body: JSON.parse(text) }
    asked.push(one)
    const { status = 200, text: out } = answer(one)
    res.writeHead(status, { 'content-type': 'application/json' }).end(out)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const endpoint = createEndpoint({
    baseUrl: `http://127.0.0.1:${port}/v1/`,
    ...(model === '' ? {} : { model }),
    apiKey: 'sk-very-secret',
    timeoutMs: 5_000,
  })
  onTestFinished(() => endpoint.close())
  return { asked, llm: endpoint.for(undefined) }
}

const says = (content: string) => ({ text: JSON.stringify({ model: 'small-1', choices: [{ message: { content } }] }) })

describe('a language model endpoint', () => {
  it("is called in OpenAI's format, and returns text", async () => {
    const { asked, llm } = await modelServer(() => says('Hello.'))
    expect(await llm.complete({ system: 'Be short.', user: 'Hi', temperature: 0, maxTokens: 9 })).toEqual({
      text: 'Hello.',
      model: 'small-1',
    })
    expect(asked[0]).toEqual({
      url: '/v1/chat/completions',
      authorization: 'Bearer sk-very-secret',
      body: {
        model: 'small',
        messages: [
          { role: 'system', content: 'Be short.' },
          { role: 'user', content: 'Hi' },
        ],
        max_tokens: 9,
        temperature: 0,
      },
    })
  })

  it('returns JSON on request, fenced or not, and reports if there is none', async () => {
    const { asked, llm } = await modelServer(({ body }) =>
      says(body.messages.at(-1).content === 'good' ? '```json\n{"n": 1}\n```' : 'one'),
    )
    expect((await llm.complete({ user: 'good', json: true, model: 'other' })).json).toEqual({ n: 1 })
    expect(asked[0]?.body).toMatchObject({ model: 'other', response_format: { type: 'json_object' } })
    await expect(llm.complete({ user: 'bad', json: true })).rejects.toMatchObject({ code: 'E_TOOL_FAILED' })
  })

  it('uses the model a tool names if the setting has none, and fails without one', async () => {
    const { asked, llm } = await modelServer(() => says('ok'), { model: '' })
    expect(llm).not.toHaveProperty('model')
    expect((await llm.complete({ user: 'x', model: 'named' })).text).toBe('ok')
    expect(asked[0]?.body.model).toBe('named')
    await expect(llm.complete({ user: 'x' })).rejects.toMatchObject({
      code: 'E_BACKEND_UNAVAILABLE',
      hint: 'Set services.llm.model.',
    })
    expect(asked).toHaveLength(1)
    expect((await modelServer(() => says('ok'))).llm.model).toBe('small')
  })

  it('fails without revealing its key', async () => {
    const { llm } = await modelServer(() => ({ status: 401, text: 'Incorrect API key: sk-very-secret' }))
    const failure = await llm.complete({ user: 'x' }).catch((error: unknown) => error as Error & { code: string })
    expect(failure).toMatchObject({ code: 'E_BACKEND_UNAVAILABLE' })
    expect(String((failure as Error).message)).toContain('status 401')
    expect(String((failure as Error).message)).not.toContain('sk-very-secret')
  })

  it('may be at a private address only if the setting itself names it', async () => {
    const { llm } = await modelServer(() => says('ok'))
    expect((await llm.complete({ user: 'x' })).text).toBe('ok')
    const plain = createEndpoint({ baseUrl: 'http://example.com/v1', model: 'm', timeoutMs: 1_000 })
    await expect(plain.for(undefined).complete({ user: 'x' })).rejects.toMatchObject({
      code: 'E_SSRF_BLOCKED',
      hint: 'Use another address, or ask the operator to change services.llm.baseUrl.',
    })
    const metadata = createEndpoint({ baseUrl: 'http://169.254.169.254/v1', model: 'm', timeoutMs: 1_000 })
    await expect(metadata.for(undefined).complete({ user: 'x' })).rejects.toMatchObject({ code: 'E_SSRF_BLOCKED' })
  })
})
