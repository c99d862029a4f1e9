import { timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PegboardError } from '../../core/errors.ts'

/** Waits on this machine for the browser to come back from a login. */
export interface Loopback {
  readonly redirectUrl: string
  /** The parameters of the first redirect that carries `state`. Others are answered and change nothing. */
  redirected(state: string): Promise<URLSearchParams>
  close(): void
}

/**
 * Listens on 127.0.0.1 alone.
 * @param port 0 takes a free one
 * @throws PegboardError E_AUTH_FAILED when the port is taken
 */
export async function listenForRedirect(port: number): Promise<Loopback> {
  const waiting: Array<{ readonly state: string; readonly done: (params: URLSearchParams) => void }> = []
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://127.0.0.1')
    const answer = (status: number, title: string, text: string): void => {
      response.writeHead(status, {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-store',
        connection: 'close',
      })
      response.end(page(title, text))
    }
    if (url.pathname !== PATH || request.method !== 'GET') return answer(404, 'Nothing here', 'This is not the page.')
    const at = waiting.findIndex(({ state }) => same(state, url.searchParams.get('state') ?? ''))
    const [found] = at < 0 ? [] : waiting.splice(at, 1)
    if (!found) return answer(400, 'Not expected', 'This login was not asked for, or is over. Run pegboard auth again.')
    if (url.searchParams.has('error')) answer(200, 'Not logged in', 'The login was refused. You can close this page.')
    else answer(200, 'Done', 'Pegboard has its answer. You can close this page and go back to the terminal.')
    found.done(url.searchParams)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        new PegboardError('E_AUTH_FAILED', `Port ${port} of this machine cannot be used (${error.code}).`, {
          hint: 'auth.redirectPort decides; without it any free port is taken.',
        }),
      ),
    )
    server.listen(port, '127.0.0.1', resolve)
  })
  return {
    redirectUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`,
    redirected: (state) => new Promise((done) => waiting.push({ state, done })),
    close() {
      waiting.length = 0
      server.close()
      setTimeout(() => server.closeAllConnections(), 500).unref()
    },
  }
}

const PATH = '/callback'

/** Whether two texts are the same, in a time that tells nothing about where they differ. */
export function same(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}

const page = (title: string, text: string): string => `<!doctype html><html lang="en"><meta charset="utf-8">
<title>Pegboard: ${title}</title><style>body{font:16px/1.5 system-ui;margin:15vh auto;max-width:32em;padding:0 1em}</style>
<h1>${title}</h1><p>${text}</p></html>
`
