import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { equalsInConstantTime } from '../../core/equals-in-constant-time.ts'
import { PegboardError } from '../../core/errors.ts'

const ORIGIN = 'http://127.0.0.1'

/** Receives the redirect of a login on this machine. */
export interface Loopback {
  readonly redirectUrl: string
  /** The parameters of the first redirect with this `state`. Other requests are answered and ignored. */
  redirected(state: string): Promise<URLSearchParams>
  close(): void
}

/**
 * Listens on 127.0.0.1 only. Each authorization server has a redirect URL of its own, which contains `issuer`: one that
 * sends the browser on to another authorization server gets no code, because that server does not know this redirect
 * URL (mix-up, RFC 9700 section 4.4). Many authorization servers do not send `iss` (RFC 9207).
 * @param port 0 for any free port
 * @throws PegboardError E_AUTH_FAILED if the port is taken
 */
export async function listenForRedirect(port: number, issuer: string): Promise<Loopback> {
  const path = redirectPath(issuer)
  const waiting: Array<{ readonly state: string; readonly done: (params: URLSearchParams) => void }> = []
  const server = createServer((request, response) => {
    const target = request.url ?? '/'
    // Throws for targets such as `//`.
    const url = URL.canParse(target, ORIGIN) ? new URL(target, ORIGIN) : undefined
    const answer = (status: number, title: string, text: string): void => {
      response.writeHead(status, {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-store',
        connection: 'close',
      })
      response.end(renderPage(title, text))
    }
    if (url?.pathname !== path || request.method !== 'GET')
      return answer(404, 'Nothing here', 'This page does not exist.')
    const at = waiting.findIndex(({ state }) => equalsInConstantTime(state, url.searchParams.get('state') ?? ''))
    const [found] = at < 0 ? [] : waiting.splice(at, 1)
    if (!found) return answer(400, 'Not expected', 'This login is unknown or has ended. Run pegboard auth again.')
    if (url.searchParams.has('error')) answer(200, 'Not logged in', 'The login was refused. You can close this page.')
    else answer(200, 'Done', 'Pegboard is logged in. You can close this page.')
    found.done(url.searchParams)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        new PegboardError('E_AUTH_FAILED', `Port ${port} of this machine cannot be used (${error.code}).`, {
          hint: 'Set auth.redirectPort to another port, or remove it to use any free port.',
        }),
      ),
    )
    server.listen(port, '127.0.0.1', resolve)
  })
  return {
    redirectUrl: `${ORIGIN}:${(server.address() as AddressInfo).port}${path}`,
    redirected: (state) => new Promise((done) => waiting.push({ state, done })),
    close() {
      waiting.length = 0
      server.close()
      setTimeout(() => server.closeAllConnections(), 500).unref()
    },
  }
}

/** `/callback/login.example.com/tenant` for the issuer `https://login.example.com/tenant`. */
function redirectPath(issuer: string): string {
  const { host, pathname } = new URL(issuer)
  return `/callback/${host.replace(/[[\]]/g, '')}${pathname.replace(/\/+$/, '')}`
}

const renderPage = (title: string, text: string): string => `<!doctype html><html lang="en"><meta charset="utf-8">
<title>Pegboard: ${title}</title><style>body{font:16px/1.5 system-ui;margin:15vh auto;max-width:32em;padding:0 1em}</style>
<h1>${title}</h1><p>${text}</p></html>
`
