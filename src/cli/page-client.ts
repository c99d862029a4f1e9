import { messageOf, PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import type { LaterRow, LiveEvent } from '../ui/api-types.ts'
import { PAGE_HEADER } from '../ui/ui-guard.ts'
import { createNotRunningError, type PageAddress } from './served-page.ts'

async function request({ url, key }: PageAddress, path: string, init: RequestInit): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, [PAGE_HEADER]: '1', 'content-type': 'application/json' }
  let response: Response
  try {
    response = await fetch(`${url}/ui/api/${path}`, { ...init, headers, redirect: 'error' })
  } catch (error) {
    if (init.signal?.aborted) throw error
    // The server was killed, and left its file.
    throw createNotRunningError()
  }
  if (response.ok) return response
  const problem: unknown = await response.json().catch(() => undefined)
  throw new PegboardError(
    'E_UPSTREAM_UNAVAILABLE',
    `The running server refused the request (HTTP ${response.status}): ${isRecord(problem) ? String(problem['message']) : 'no reason given'}`,
    { hint: 'Restart it with pegboard serve --http.' },
  )
}

/** A link that opens the page of a running server once. @throws PegboardError E_NOT_FOUND if none runs */
export async function requestLink(address: PageAddress): Promise<string> {
  const response = await request(address, 'link', { method: 'POST', body: '{}' })
  const body: unknown = await response.json()
  if (isRecord(body) && typeof body['url'] === 'string') return body['url']
  throw createNotRunningError()
}

/** Background tasks, watchers and schedules of all users. */
export async function listLater(address: PageAddress): Promise<readonly LaterRow[]> {
  const response = await request(address, 'later', { method: 'GET' })
  return (await response.json()) as readonly LaterRow[]
}

export async function stopLater(address: PageAddress, { kind, id }: Pick<LaterRow, 'kind' | 'id'>): Promise<void> {
  const response = await request(address, 'stop', { method: 'POST', body: JSON.stringify({ kind, id }) })
  await response.body?.cancel()
}

/** What a running server sends to its pages. Ends when the server ends. */
export async function* followPage(address: PageAddress, signal: AbortSignal): AsyncGenerator<LiveEvent> {
  const response = await request(address, 'events', { method: 'GET', signal })
  const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader()
  let incomplete = ''
  try {
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return
      const frames = (incomplete + value).split('\n\n')
      incomplete = frames.pop() ?? ''
      for (const frame of frames) {
        const data = /^data: (.*)$/m.exec(frame)?.[1]
        if (data !== undefined) yield JSON.parse(data) as LiveEvent
      }
    }
  } catch (error) {
    if (signal.aborted) return
    throw new PegboardError('E_UPSTREAM_UNAVAILABLE', `The connection to the server broke: ${messageOf(error)}.`)
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}
