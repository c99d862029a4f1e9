import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { listenForRedirect } from '../../../src/upstream/oauth/loopback.ts'

it.each([
  ['//', 404],
  ['http://[', 404],
  ['/callback/as.example?state=other', 400],
])('the page for the redirect rejects a request for %s, and still receives the redirect', async (target, status) => {
  const loopback = await listenForRedirect(0, 'https://as.example')
  try {
    const socket = connect(Number(new URL(loopback.redirectUrl).port), '127.0.0.1')
    socket.write(`GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    expect(await text(socket)).toContain(`HTTP/1.1 ${status} `)
    const redirected = loopback.redirected('s1')
    await fetch(`${loopback.redirectUrl}?state=s1&code=c`)
    expect((await redirected).get('code')).toBe('c')
  } finally {
    loopback.close()
  }
})
