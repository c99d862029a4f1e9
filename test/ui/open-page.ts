import { request } from 'node:http'
import { join } from 'node:path'
import { systemClock } from '../../src/core/clock.ts'
import { silentLog } from '../../src/core/log.ts'
import { createUi, type Ui } from '../../src/ui/ui-server.ts'
import { type Answer, serveAppOverHttp, startApp, type TestApp } from '../app.ts'

export const KEY = 'key-of-the-page-0123456789'
export const OPERATOR = 'operator-token-0123456789'

export interface OpenPage extends TestApp {
  readonly url: string
  /** A link that opens the page once. */
  link(): string
}

/** Serves an app that was started with `page: true`. */
export async function servePage<T extends Pick<TestApp, 'app'>>(
  started: T,
  tokens: readonly object[] = [],
): Promise<T & Pick<OpenPage, 'url' | 'link'>> {
  const { app } = started
  const host = await app.openUi()
  if (!host) throw new Error('the app has no page')
  let ui: Ui | undefined
  const page = (url: () => string): Ui => {
    const dir = join(import.meta.dirname, '../../dist/ui')
    ui = createUi({ host, dir, key: KEY, clock: systemClock, log: silentLog, url })
    return ui
  }
  const http = await serveAppOverHttp(app, { token: OPERATOR, tokens }, { page })
  return { ...started, url: http.url, link: () => ui?.createLink(60_000) ?? '' }
}

/** A server with its page, from source. */
export const openPage = async (
  settings: Record<string, unknown> = {},
  tokens: readonly object[] = [],
): Promise<OpenPage> => servePage(await startApp(settings, undefined, { page: true }), tokens)

export interface Asked {
  readonly status: number
  readonly headers: NodeJS.Dict<string | string[]>
  readonly text: string
  /** The parsed body; undefined if it is not JSON. */
  readonly body: Answer
}

/** A request with exactly these headers, as any program on this machine could send it. */
export function ask(
  url: string,
  path: string,
  { method = 'GET', headers = {}, body }: { method?: string; headers?: Record<string, string>; body?: unknown } = {},
): Promise<Asked> {
  return new Promise((resolve, reject) => {
    const sent = request(`${url}${path}`, { method, headers, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.once('end', () => {
        let parsed: Answer
        try {
          parsed = JSON.parse(text)
        } catch {
          parsed = undefined
        }
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, body: parsed })
      })
    })
    sent.once('error', reject)
    sent.end(body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body))
  })
}

export const JSON_HEADERS = { 'content-type': 'application/json', 'x-pegboard-page': '1' }

/** Opens a link and returns the cookie of the session. */
export async function signIn({ url, link }: Pick<OpenPage, 'url' | 'link'>): Promise<string> {
  const answer = await ask(url, '/ui/api/login', {
    method: 'POST',
    headers: JSON_HEADERS,
    body: { code: link().split('#')[1] },
  })
  const [cookie = ''] = [answer.headers['set-cookie'] ?? []].flat()
  return cookie.split(';')[0] ?? ''
}

/** The API with a session. */
export async function createClient(page: Pick<OpenPage, 'url' | 'link'>) {
  const cookie = await signIn(page)
  return {
    cookie,
    get: async (path: string): Promise<Answer> =>
      (await ask(page.url, `/ui/api/${path}`, { headers: { cookie } })).body,
    post: (path: string, body: unknown): Promise<Asked> =>
      ask(page.url, `/ui/api/${path}`, { method: 'POST', headers: { ...JSON_HEADERS, cookie }, body }),
  }
}
