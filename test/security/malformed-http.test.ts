import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { initialize, TOKEN } from '../server/echo.ts'
import { countRuns, type HttpApp, startHttpApp } from './http-app.ts'

// Requests in unusual notations, which a proxy in front of the server may parse differently.

const HOST = 'Host: localhost\r\n'
const AUTH = `Authorization: Bearer ${TOKEN}\r\n`
const KIND = 'Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n'
const BODY = JSON.stringify(initialize)
const LENGTH = `Content-Length: ${Buffer.byteLength(BODY)}\r\n`

/** The output on one connection: whole responses, and whether it was closed. */
interface Talk {
  send(bytes: string): void
  /** Resolves with all output once it is complete. */
  hears(enough: (text: string) => boolean): Promise<string>
  readonly ended: Promise<string>
}

function talk({ port }: HttpApp): Talk {
  let text = ''
  const waiting = new Set<() => void>()
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk
    for (const look of waiting) look()
  })
  socket.on('error', () => undefined)
  return {
    send: (bytes) => void socket.write(Buffer.from(bytes, 'latin1')),
    hears: (enough) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (!enough(text)) return
          waiting.delete(look)
          resolve(text)
        }
        waiting.add(look)
        look()
      }),
    ended: new Promise((resolve) => void socket.once('close', () => resolve(text))),
  }
}

const statuses = (text: string): string[] => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => String(status))

test('a rejected request with Expect: 100-continue has its connection closed, so that later bytes are not a request', async () => {
  const server = await startHttpApp()
  for (const refused of [
    `POST /mcp HTTP/1.1\r\n${HOST}${KIND}`,
    `POST /mcp HTTP/1.1\r\n${HOST}${AUTH}Content-Type: text/plain\r\n`,
    `POST /nothing HTTP/1.1\r\n${HOST}${AUTH}${KIND}`,
    `GET /health HTTP/1.1\r\n${HOST}`,
  ]) {
    const one = talk(server)
    one.send(`${refused}Expect: 100-continue\r\n${LENGTH}\r\n`)
    const said = await one.hears((text) => statuses(text).length > 0 && text.includes('\r\n\r\n'))
    expect(said.toLowerCase()).toContain('connection: close')
    expect(statuses(await one.ended)).toHaveLength(1)
  }
  const let_in = talk(server)
  let_in.send(`POST /mcp HTTP/1.1\r\n${HOST}${AUTH}${KIND}Expect: 100-continue\r\n${LENGTH}\r\n`)
  await let_in.hears((text) => text === 'HTTP/1.1 100 Continue\r\n\r\n')
  let_in.send(BODY)
  const answered = await let_in.hears((text) => text.includes('protocolVersion'))
  expect(answered.toLowerCase()).toContain('connection: keep-alive')
  let_in.send(`GET /health HTTP/1.1\r\n${HOST}\r\n`)
  expect(statuses(await let_in.hears((text) => text.includes('"ok"')))).toEqual(['100', '200', '200'])
  expect(await countRuns(server)).toBe(0)
})

test('a request of HTTP/1.0 gets no 100 Continue, which it would read as its answer', async () => {
  const one = talk(await startHttpApp())
  one.send(`POST /mcp HTTP/1.0\r\n${HOST}${AUTH}${KIND}Expect: 100-continue\r\n${LENGTH}\r\n${BODY}`)
  expect(statuses(await one.ended)).toEqual(['200'])
})

test.each(['utf-16le', 'utf-7', '"utf-16"', 'iso-8859-1', 'utf-8; charset=utf-7', ''])(
  'a body with charset %s gets 415, because others may read it differently',
  async (charset) => {
    const server = await startHttpApp()
    const ask = async (type: string) => {
      const headers = { authorization: `Bearer ${TOKEN}`, accept: 'application/json, text/event-stream' }
      const answer = await fetch(new URL('/mcp', server.url), {
        method: 'POST',
        headers: { ...headers, 'content-type': type },
        body: BODY,
      })
      await answer.text()
      return answer.status
    }
    expect(await ask(`application/json; charset=${charset}`)).toBe(415)
    for (const fine of ['application/json', 'application/json; charset=utf-8', 'application/json;charset="UTF-8"'])
      expect(await ask(fine)).toBe(200)
  },
)

test.each([
  [
    'both lengths',
    `POST /mcp HTTP/1.1\r\n${HOST}${AUTH}${KIND}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\n${HOST}\r\n`,
  ],
  [
    'two lengths',
    `POST /mcp HTTP/1.1\r\n${HOST}${AUTH}${KIND}Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcdGET /health HTTP/1.1\r\n${HOST}\r\n`,
  ],
  [
    'a length with a sign',
    `POST /mcp HTTP/1.1\r\n${HOST}${AUTH}${KIND}Content-Length: +4\r\n\r\nabcdGET /health HTTP/1.1\r\n${HOST}\r\n`,
  ],
  [
    'an encoding that is none',
    `POST /mcp HTTP/1.1\r\n${HOST}${AUTH}${KIND}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\n${HOST}\r\n`,
  ],
  [
    'a space before the colon',
    `POST /mcp HTTP/1.1\r\n${HOST}${AUTH}${KIND}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\n${HOST}\r\n`,
  ],
  [
    'a header over two lines',
    `GET /health HTTP/1.1\r\nHost: localhost\r\n .evil\r\n\r\nGET /health HTTP/1.1\r\n${HOST}\r\n`,
  ],
  ['lines without CR', `GET /health HTTP/1.1\nHost: localhost\n\nGET /health HTTP/1.1\r\n${HOST}\r\n`],
  ['a NUL', `GET /health HTTP/1.1\r\n${HOST}X: a\0b\r\n\r\nGET /health HTTP/1.1\r\n${HOST}\r\n`],
])('a request with %s gets 400 and ends its connection', async (_what, bytes) => {
  const one = talk(await startHttpApp())
  one.send(bytes)
  expect(statuses(await one.ended)).toEqual(['400'])
})
