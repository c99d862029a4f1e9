import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { type CallContext, localCaller } from '../../src/core/caller.ts'
import { defaultProfile } from '../../src/core/profile.ts'
import { type StartedModule, startModule } from './start-module.ts'

export interface Rig extends StartedModule {
  call(action: string, input?: unknown, ctx?: Partial<CallContext>): Promise<Record<string, unknown>>
  /** An action as a caller sees it, or undefined. */
  shown(
    action: string,
  ): { readonly description: string; readonly input: { readonly json: Record<string, unknown> } } | null
}

/** The module with all of it enabled; it may reach this machine, unless `config` says otherwise. */
export async function open(
  config: Record<string, unknown> = {},
  env: Record<string, string> = {},
  files: Readonly<Record<string, string>> = {},
): Promise<Rig> {
  const settings = {
    access: 'write',
    ...config,
    search: { ddg_base_url: '', ...(config['search'] as object) },
    fetch: { allow_private_network: true, ...(config['fetch'] as object) },
  }
  const found = await startModule('web', settings, files, { user_agent: 'tests/1', env })
  return {
    ...found,
    call: async (action, input, ctx) => (await found.run(`web.${action}`, input, ctx)) as Record<string, unknown>,
    shown: (action) =>
      found.tool(`web.${action}`).assemble(localCaller, () => undefined, defaultProfile) as ReturnType<Rig['shown']>,
  }
}

/** A server on this machine until the test ends. Returns its address. */
export async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

export async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = ''
  for await (const piece of request.setEncoding('utf8')) body += piece
  return body
}

export const json = (answer: ServerResponse, value: unknown, status = 200): void =>
  void answer.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))

export interface Asked {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/** An engine that can be made to fail, and records its requests. */
export interface Engine {
  readonly url: string
  readonly asked: Asked[]
  status: number
}

async function engine(answers: (asked: Asked, answer: ServerResponse, self: Engine) => void): Promise<Engine> {
  const asked: Asked[] = []
  const self: Engine = {
    asked,
    status: 200,
    url: await serve(async (request, answer) => {
      const url = new URL(request.url ?? '/', 'http://engine')
      const one = {
        method: request.method ?? '',
        path: url.pathname,
        query: url.searchParams,
        headers: request.headers,
        body: await bodyOf(request),
      }
      asked.push(one)
      answers(one, answer, self)
    }),
  }
  return self
}

/** Answers like the Brave Search API. */
export const braveApi = (): Promise<Engine> =>
  engine((asked, answer, { status }) => {
    if (asked.headers['x-subscription-token'] !== 'brave-key-of-the-tests')
      return json(answer, { type: 'ErrorResponse', error: { code: 'SUBSCRIPTION_TOKEN_INVALID', status: 422 } }, 422)
    if (status === 429) answer.setHeader('x-ratelimit-reset', '7, 1419704')
    if (status !== 200) return json(answer, { type: 'ErrorResponse' }, status)
    const query = { original: asked.query.get('q') }
    const kind = /^\/res\/v1\/(\w+)\/search$/.exec(asked.path)?.[1]
    if (kind === 'web')
      return json(answer, {
        type: 'search',
        query,
        web: {
          type: 'search',
          results: Array.from({ length: Number(asked.query.get('count')) }, (_, at) => ({
            title: `<strong>Result</strong> ${at} &amp; more`,
            url: `https://example.com/${at}`,
            description: `About <strong>cats</strong>, part ${at}`,
            page_age: '2026-01-02T03:04:05',
            meta_url: { hostname: 'example.com' },
          })),
        },
      })
    if (kind === 'images')
      return json(answer, {
        type: 'images',
        query,
        results: Array.from({ length: Number(asked.query.get('count')) }, (_, at) => ({
          title: `Cat ${at}`,
          url: `https://example.com/page/${at}`,
          source: 'example.com',
          thumbnail: { src: `https://imgs.example.com/${at}.jpg` },
          properties: { url: `https://example.com/cat${at}.png` },
        })),
      })
    if (kind === 'videos')
      return json(answer, {
        type: 'videos',
        results: [
          {
            title: 'A film',
            url: 'https://v.example.com/1',
            description: 'Of cats',
            age: '2 days ago',
            video: { duration: '03:10' },
          },
        ],
      })
    if (kind === 'news')
      return json(answer, {
        type: 'news',
        results: [{ title: 'News', url: 'https://n.example.com/1', description: 'Today', age: '1 hour ago' }],
      })
    json(answer, {}, 404)
  })

/** Answers like SearXNG with the JSON format enabled. */
export const searxngApi = (): Promise<Engine> =>
  engine((asked, answer, { status }) => {
    if (asked.path !== '/search' || asked.query.get('format') !== 'json') return json(answer, {}, 404)
    if (status !== 200) return void answer.writeHead(status, { 'content-type': 'text/html' }).end('<h1>Forbidden</h1>')
    const category = asked.query.get('categories')
    json(answer, {
      query: asked.query.get('q'),
      number_of_results: 0,
      results: [
        {
          title: `A result of ${category}`,
          url: 'https://example.org/a',
          content: 'What it says about it.',
          engine: 'wikipedia',
          engines: ['wikipedia'],
          score: 1,
          category,
          publishedDate: '2026-03-04T00:00:00',
          ...(category === 'images'
            ? { img_src: '//example.org/a.png', thumbnail_src: 'https://example.org/a-small.png' }
            : {}),
        },
        { title: 'The same again', url: 'https://example.org/a#part', content: '', engine: 'other', category },
        { title: 'No page', url: 'javascript:alert(1)', content: '', engine: 'other', category },
      ],
      answers: [],
      corrections: [],
      infoboxes: [],
      suggestions: [],
      unresponsive_engines: [],
    })
  })

const ddgRow = (title: string, href: string, snippet: string, ad = false): string => `
<div class="result results_links results_links_deep ${ad ? 'result--ad' : 'web-result'}">
  <div class="links_main links_deep result__body">
    <h2 class="result__title"><a rel="nofollow" class="result__a" href="${href}">${title}</a></h2>
    <div class="result__extras"><div class="result__extras__url"><a class="result__url" href="${href}">example.com</a></div></div>
    <a class="result__snippet" href="${href}">${snippet}</a>
    <div class="clear"></div>
  </div>
</div>`
const wrapped = (url: string): string => `//duckduckgo.com/l/?uddg=${encodeURIComponent(url)}&amp;rut=0123456789abcdef`

export const DDG_PAGE = `<!DOCTYPE html><html lang="en"><head><title>cats at DuckDuckGo</title></head><body class="body--html">
<form id="search_form_homepage"><input name="q" value="cats"></form>
<div id="links" class="results">
${ddgRow('Buy cats', '//duckduckgo.com/y.js?ad_domain=shop.example&amp;u3=x', 'An advertisement', true)}
${ddgRow('Cats &amp; <b>kittens</b>', wrapped('https://example.com/cats?a=1&b=2'), 'All about <b>cats</b>.')}
${ddgRow('Second', wrapped('https://example.org/second'), 'The second one')}
${ddgRow('Third', 'https://example.net/third', 'Not wrapped')}
</div></body></html>`

/** Answers like the script-free pages of DuckDuckGo; 202 is its captcha. */
export const duckduckgoPages = (): Promise<Engine> =>
  engine((_asked, answer, { status }) => {
    const riddle =
      '<html><body><form id="challenge-form"><div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div></form></body></html>'
    answer
      .writeHead(status, { 'content-type': 'text/html; charset=UTF-8' })
      .end(status === 200 ? DDG_PAGE : status === 202 ? riddle : 'no')
  })

/** Answers like the server of Crawl4AI. */
export const crawl4aiApi = (markdown = '# Rendered\n\nBy a browser.'): Promise<Engine> =>
  engine((asked, answer, { status }) => {
    if (asked.path === '/health') return json(answer, { status: 'ok', timestamp: 1, version: '0.8.0' }, status)
    if (asked.path !== '/md' || asked.method !== 'POST') return json(answer, { detail: 'Not Found' }, 404)
    if (status !== 200) return json(answer, { detail: 'Internal' }, status)
    const { url, f, q, c } = JSON.parse(asked.body) as Record<string, unknown>
    json(answer, { url, filter: f, query: q, cache: c, markdown, success: true })
  })
