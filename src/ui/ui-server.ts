import { timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock } from '../core/clock.ts'
import { type ErrorCode, isPegboardError } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { digestOf, parseBearer } from '../server/bearer-tokens.ts'
import { createPulse, openEventStream } from '../server/event-stream.ts'
import { HttpError, sendJson } from '../server/http-error.ts'
import { readBody } from '../server/request-body.ts'
import type { Problem } from './api-types.ts'
import { createFileSender, setSecurityHeaders } from './ui-files.ts'
import { checkApiRequest, checkPageOrigin, cookieName, isDirect, readCookie } from './ui-guard.ts'
import type { UiHost } from './ui-host.ts'
import { createUiLive } from './ui-live.ts'
import { uiRoutes } from './ui-routes.ts'
import { createUiSessions, SESSION_MS } from './ui-sessions.ts'

export interface UiOptions {
  readonly host: UiHost
  readonly dir: string
  /** Secret of `pegboard ui` and `pegboard top`. */
  readonly key: string
  readonly clock: Clock
  readonly log: Log
  url(): string
}

/** The page: its files at `/ui`, its API at `/ui/api`. */
export interface Ui {
  owns(path: string): boolean
  /** @param isOperator whether an Authorization header holds the token of the operator */
  handle(req: IncomingMessage, res: ServerResponse, isOperator: () => Promise<boolean>): Promise<void>
  /** The address of the page with a code that opens it once. */
  createLink(lifeMs: number): string
}

const MAX_BODY = 1024 * 1024
/** How long a link of `pegboard ui` works. */
const LINK_MS = 2 * 60_000
const PAGE = '/ui'
const API = '/ui/api/'

export function createUi(options: UiOptions): Ui {
  const { host, clock, log } = options
  const sendFile = createFileSender(options.dir)
  const sessions = createUiSessions(clock)
  const live = createUiLive(host, clock, options.url)
  const pulse = createPulse(clock)
  /** For each open stream. */
  const checks = new Set<() => void>()
  const key = digestOf(options.key)
  const createLink = (lifeMs: number): string => `${options.url()}${PAGE}#${sessions.createLink(lifeMs)}`

  const isKey = (authorization: string | undefined): boolean => {
    const given = parseBearer(authorization)
    return given !== undefined && timingSafeEqual(digestOf(given), key)
  }
  const hasSession = (req: IncomingMessage): boolean => {
    const secret = readCookie(req)
    return secret !== undefined && sessions.has(secret)
  }

  /** @throws HttpError */
  async function readJson(req: IncomingMessage, res: ServerResponse): Promise<Json> {
    const value = tryParseJson(await readBody(req, res, MAX_BODY, () => true))
    if (isRecord(value)) return value
    throw new HttpError(400, 'The body must be a JSON object.')
  }

  function setCookie(req: IncomingMessage, res: ServerResponse, secret: string, seconds: number): void {
    res.setHeader(
      'set-cookie',
      `${cookieName(req)}=${secret}; Path=${PAGE}; HttpOnly; SameSite=Strict; Max-Age=${seconds}`,
    )
  }

  /** Opens a session for the code of a link, or for the token of the operator. */
  async function logIn(req: IncomingMessage, res: ServerResponse, isOperator: () => Promise<boolean>): Promise<void> {
    if (sessions.isLocked)
      return answer(res, 429, problem('E_RATE_LIMITED', 'Too many logins failed. Try again in a minute.'))
    const { code } = await readJson(req, res)
    const secret =
      typeof code === 'string'
        ? sessions.redeem(code)
        : isKey(req.headers.authorization) || (await isOperator())
          ? sessions.open()
          : undefined
    if (secret === undefined) {
      sessions.failed()
      return answer(res, 401, unauthorized(typeof code === 'string'))
    }
    setCookie(req, res, secret, SESSION_MS / 1_000)
    answer(res, 200, {})
  }

  /** Sends the events of the page until the client disconnects or its session ends. */
  function openStream(req: IncomingMessage, res: ServerResponse): void {
    if (live.isFull) {
      answer(res, 429, problem('E_OVERLOADED', 'Too many pages are open. Close some of them.'))
      return
    }
    const isByCookie = hasSession(req)
    const stream = openEventStream(res, { 'cache-control': 'no-store' })
    const check = (): void => {
      if (!isByCookie || hasSession(req)) stream.comment()
      else stream.end()
    }
    const stops = [live.add((event) => stream.event(event.kind, JSON.stringify(event))), pulse.add(check)]
    checks.add(check)
    res.once('close', () => {
      for (const stop of stops) stop()
      checks.delete(check)
    })
  }

  function logOut(req: IncomingMessage, res: ServerResponse): void {
    sessions.close(readCookie(req) ?? '')
    for (const check of checks) check()
    setCookie(req, res, '', 0)
    answer(res, 200, {})
  }

  /** Requests about sessions and streams, except the login. `uiRoutes` has all others. */
  const ownRoutes: ReadonlyMap<string, (req: IncomingMessage, res: ServerResponse) => void> = new Map([
    ['GET events', openStream],
    ['POST link', (_req, res) => answer(res, 200, { url: createLink(LINK_MS) })],
    ['POST logout', logOut],
  ])

  async function api(
    req: IncomingMessage,
    res: ServerResponse,
    { pathname, searchParams }: URL,
    isOperator: () => Promise<boolean>,
  ): Promise<void> {
    res.setHeader('cache-control', 'no-store')
    checkApiRequest(req)
    const name = `${req.method} ${pathname.slice(API.length)}`
    if (name === 'POST login') return await logIn(req, res, isOperator)
    const isSignedIn = isKey(req.headers.authorization) || hasSession(req) || (await isOperator())
    if (!isSignedIn) return answer(res, 401, unauthorized(false))
    const ownRoute = ownRoutes.get(name)
    if (ownRoute) return ownRoute(req, res)
    const route = Object.hasOwn(uiRoutes, name) ? uiRoutes[name] : undefined
    if (!route) return answer(res, 404, problem('E_NOT_FOUND', 'The page has no such request.'))
    const body = req.method === 'GET' ? {} : await readJson(req, res)
    const gone = new AbortController()
    res.once('close', () => gone.abort())
    try {
      const value = await route(host, { query: searchParams, body, signal: gone.signal })
      answer(res, 200, value ?? {})
    } catch (error) {
      if (isPegboardError(error)) return answer(res, 422, problem(error.code, error.message, error.hint))
      log.error('a request of the page failed', { request: name, error })
      answer(res, 500, problem('E_INTERNAL', 'Pegboard failed. Its log has the reason.'))
    }
  }

  async function serve(req: IncomingMessage, res: ServerResponse, isOperator: () => Promise<boolean>): Promise<void> {
    const url = new URL(req.url ?? '/', 'http://localhost')
    checkPageOrigin(req)
    if (url.pathname.startsWith(API)) return await api(req, res, url, isOperator)
    if (req.method !== 'GET' && req.method !== 'HEAD') {
      res.setHeader('allow', 'GET, HEAD')
      throw new HttpError(405, 'Method not allowed')
    }
    if (!sendFile(url.pathname.slice(PAGE.length), res, req.method === 'HEAD')) notFound(res)
  }

  return {
    owns: (path) => path === PAGE || path.startsWith(`${PAGE}/`),
    createLink,
    async handle(req, res, isOperator) {
      // Other machines do not learn that there is a page.
      if (!isDirect(req)) return notFound(res)
      setSecurityHeaders(res)
      try {
        await serve(req, res, isOperator)
      } catch (error) {
        if (!(error instanceof HttpError)) throw error
        const code = error.status === 403 ? 'E_DENIED_BY_POLICY' : 'E_VALIDATION'
        answer(res, error.status, problem(code, error.message))
      }
    },
  }
}

const problem = (code: ErrorCode, message: string, hint?: string): Problem => ({
  code,
  message,
  ...(hint === undefined || hint === '' ? {} : { hint }),
})

const unauthorized = (byCode: boolean): Problem =>
  problem(
    'E_CONFIG_AUTH',
    byCode ? 'This link was used before or is too old.' : 'You are not signed in.',
    'Run pegboard ui to open the page.',
  )

function answer(res: ServerResponse, status: number, value: object): void {
  if (!res.headersSent && !res.destroyed) sendJson(res, status, value)
}

function notFound(res: ServerResponse): void {
  answer(res, 404, { error: 'Not found' })
}
