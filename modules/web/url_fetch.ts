import { promises as fs } from 'node:fs'
import { isAbsolute, join, normalize, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type FetchInit, isPegboardError, redact, redactUrl, type ToolDef, ToolError, z } from 'pegboard'
import { invalid, tooLarge } from '../_errors.ts'
import { readPage } from '../_page.ts'
import { textOf } from '../_text.ts'
import { checkWritable } from '../_writable.ts'
import { checkHeaders } from './check-headers.ts'
import { downloadsOf, SETTING, type Settings, writes } from './config.ts'
import { type Login, loginFor, removeSecrets } from './site-login.ts'
import { type ClientPool, checkPrefix, hasPrefix } from './web-clients.ts'

/** Behaviour and texts of this tool are fixed by the requirements: existing agents call it. */
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
const WITH_BODY: readonly string[] = ['POST', 'PUT', 'PATCH']
const ALIAS = 'file_cache_dir'
const MAX_LINKS = 50

const noUrl = 'missing required param: url'
const Input = z.object({
  url: z.string({ error: noUrl }).trim().min(1, noUrl).max(8192).describe('Full address, with https:// or http://.'),
  method: z
    .enum(METHODS, { error: ({ input }) => `unsupported method: ${String(input).slice(0, 40)}` })
    .default('GET')
    .describe('HTTP method.'),
  auth_profile: z.string().max(100).optional().describe('Name of a login that the operator configured.'),
  headers: z
    .record(z.string(), z.string({ error: 'the value of a header must be a string' }))
    .default({})
    .describe('Accept, Content-Type, User-Agent, If-None-Match, If-Modified-Since and Range only.'),
  body: z
    .unknown()
    .meta({ type: ['string', 'object', 'array', 'number', 'boolean', 'null'] })
    .optional()
    .describe('Body, with POST, PUT and PATCH; values other than text are sent as JSON.'),
  download_path: z
    .string()
    .min(1)
    .max(4096)
    .optional()
    .describe('Save the response as this file in file_cache_dir instead of returning it: for PDFs and the like.'),
  timeout_seconds: z.number().positive().max(300).optional().describe('Timeout in seconds.'),
  max_bytes: z.int().min(1).max(1_073_741_824).optional().describe('Maximum bytes to return or save.'),
})
type UrlFetchInput = z.infer<typeof Input>

export const createUrlFetch = (client: ClientPool): ToolDef<Settings, typeof Input> => ({
  title: 'Send a web request',
  description:
    'Send a request to an http or https address and return the response as text, or save it as a file with download_path; logins are passed by name. A status other than success is an error that includes the response. To only read a page use {url_fetch_tool}.',
  aliases: ['fetch with login', 'call web api', 'download to cache', 'requête web', 'petición web'],
  tags: ['web', 'http', 'api', 'download'],
  input: Input,
  effect: 'destructive',
  openWorld: true,
  opaque: ['body', 'body_text', 'links'],
  available: writes,
  sideEffects: ['sends data to the address', 'can change the resource', 'may save a file'],
  examples: [
    { input: { url: 'https://api.example.com/items', method: 'POST', body: { name: 'Ada' } } },
    { input: { url: 'https://example.com/paper.pdf', download_path: 'papers/paper.pdf' } },
  ],
  async run(input, { config, signal, progress, sendFile }) {
    const url = parseAddress(input.url)
    checkPrefix(url.href, config.url_fetch.guard.allowed_url_prefixes)
    const login = input.auth_profile
      ? loginFor(input.auth_profile, url, input.method, input.headers, config)
      : undefined
    const request = createRequest(input, login, config)
    const target = input.download_path === undefined ? undefined : await prepareFile(input.download_path, config)
    const defaultBytes = target ? config.url_fetch.max_bytes_download : config.url_fetch.max_bytes
    const maxBytes = input.max_bytes ?? defaultBytes
    // Longer responses are cut when shown and rejected when saved; this limit covers both.
    const limit = Math.max(config.url_fetch.max_bytes_download, maxBytes) + 1
    progress(0, undefined, `asking ${url.host}`)
    const init = { ...request, signal, maxBytes: limit, maxWireBytes: limit }
    const response = await client.clientsFor(config).requests(url.href, init).catch(throwGuardError)
    const facts = {
      url: redactedUrl(response.url, login),
      method: input.method,
      status: response.status,
      content_type: response.headers.get('content-type') ?? '',
    }
    if (target) {
      if (!response.ok) {
        await response.body?.cancel()
        throw createStatusError({ ...facts, bytes: 0, path: input.download_path, saved: false })
      }
      const bytes = await target.write(response, maxBytes, login?.spellings ?? [])
      const { path, file } = target
      sendFile({
        data: '',
        filename: path.split('/').pop() ?? path,
        mimetype: facts.content_type,
        fileUrl: pathToFileURL(file).href,
      })
      return { ...facts, bytes, path: `${ALIAS}/${path}`, abs_path: file, saved: true, note: `saved to ${ALIAS}` }
    }
    const { bytes, truncated } = await readPart(response, maxBytes)
    const result = { ...facts, truncated, bytes: bytes.length, ...(await contentOf(bytes, response, login)) }
    if (response.ok) return result
    const location = response.headers.get('location')
    throw createStatusError(location === null ? result : { ...result, location: redactedUrl(location, login) })
  },
})

/** @throws ToolError E_VALIDATION */
function parseAddress(text: string): URL {
  const hint = 'Use a full address with http or https.'
  if (!URL.canParse(text)) throw invalid('invalid url', hint)
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw invalid(`unsupported url scheme: ${url.protocol.slice(0, -1)}`, hint)
  return url
}

/** @throws ToolError E_VALIDATION for a header or body that is not allowed */
function createRequest(input: UrlFetchInput, login: Login | undefined, { url_fetch }: Settings): FetchInit {
  const body = bodyOf(input)
  const headers = { ...checkHeaders(input.headers, login?.profile.allow_headers), ...login?.header }
  // Headers given by the caller set the content type.
  const type = Object.keys(input.headers).length === 0 ? body?.type : undefined
  const follows = login ? login.profile.follow_redirects : url_fetch.guard.follow_redirects
  return {
    method: input.method,
    headers: type === undefined ? headers : { 'content-type': type, ...headers },
    ...(body === undefined ? {} : { body: body.text }),
    redirect: follows ? 'same-origin' : 'manual',
    checkRedirect({ href }) {
      if (login && !login.profile.url_prefixes.some((prefix) => hasPrefix(href, prefix)))
        throw new ToolError('The login redirected to an address outside its url_prefixes.', {
          code: 'E_REDIRECT_BLOCKED',
        })
    },
    timeoutMs: (input.timeout_seconds ?? url_fetch.timeout) * 1000,
  }
}

/** The URL may contain a secret too, so it is redacted. */
const redactedUrl = (url: string, login: Login | undefined): string =>
  removeSecrets(redactUrl(url), login?.spellings ?? [])

/** A failure that includes the response. */
interface ResponseData {
  readonly status: number
  readonly body?: string
  readonly body_text?: string
  readonly location?: string
  readonly [fact: string]: unknown
}
function createStatusError(data: ResponseData): ToolError {
  const text = (data.body ?? data.body_text ?? '').replaceAll(/\s+/g, ' ').trim().slice(0, 1_000)
  const redirect = data.location === undefined ? '' : `It redirects to ${data.location}. `
  return new ToolError(`non-2xx status: ${data.status}`, {
    hint: `${redirect}${text === '' ? 'It says nothing else.' : `It says: ${text}`}`,
    data,
  })
}

function throwGuardError(error: unknown): never {
  if (isPegboardError(error) && error.code === 'E_SSRF_BLOCKED')
    throw new ToolError('private ip/localhost is not allowed by guard', {
      code: 'E_SSRF_BLOCKED',
      hint: `${error.message} ${error.hint}`,
    })
  throw error
}

/** @throws ToolError E_VALIDATION */
function bodyOf(input: UrlFetchInput): { readonly text: string; readonly type: string } | undefined {
  if (!Object.hasOwn(input, 'body') || input.body === undefined) return undefined
  if (!WITH_BODY.includes(input.method))
    throw invalid(
      `request body is only supported for POST/PUT/PATCH, not ${input.method}`,
      'Leave body out, or use another method.',
    )
  const path = findAliasPath(input.body)
  if (path !== undefined)
    throw invalid(`request body contains local file path "${path}"`, 'Read the file, and send its content.')
  return typeof input.body === 'string'
    ? { text: input.body, type: 'text/plain;charset=utf-8' }
    : { text: JSON.stringify(input.body), type: 'application/json' }
}

/** A value that uses one of our folder aliases, which mean nothing to other servers. */
function findAliasPath(value: unknown, depth = 0): string | undefined {
  if (typeof value === 'string') return /^file_(?:cache|state)_dir\/\S{1,300}$/.test(value) ? value : undefined
  if (typeof value !== 'object' || value === null || depth > 20) return undefined
  for (const inner of Object.values(value)) {
    const path = findAliasPath(inner, depth + 1)
    if (path !== undefined) return path
  }
  return undefined
}

/** The wanted part of a response. */
async function readPart(
  response: Response,
  maxBytes: number,
): Promise<{ readonly bytes: Buffer; readonly truncated: boolean }> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    chunks.push(chunk)
    size += chunk.length
    if (size > maxBytes) break
  }
  return { bytes: Buffer.concat(chunks).subarray(0, maxBytes), truncated: size > maxBytes }
}

/** The content shown to a model, with apparent secrets removed. */
async function contentOf(bytes: Buffer, response: Response, login: Login | undefined) {
  const removeAllSecrets = (text: string): string => redact(removeSecrets(text, login?.spellings ?? []))
  const type = response.headers.get('content-type') ?? ''
  const text = textOf(bytes, type)
  if (text === undefined)
    return { binary: true as const, note: 'The response is not text; save it with download_path.' }
  const isPage = /html/i.test(type) || (type === '' && /^\s*<(?:!doctype|html)/i.test(text.slice(0, 500)))
  if (!isPage) return { body: removeAllSecrets(text) }
  const page = await readPage(text, response.url)
  if (page.text === '') return { body: removeAllSecrets(text) }
  const links = page.links
    .slice(0, MAX_LINKS)
    .map((link) => ({ text: removeAllSecrets(link.text), url: redactedUrl(link.url, login) }))
  return {
    extracted: true as const,
    title: removeAllSecrets(page.title),
    body_text: removeAllSecrets(page.text),
    links,
  }
}

/** Where a file is saved. @throws ToolError E_PATH_OUTSIDE_ROOT, E_VALIDATION */
async function prepareFile(given: string, settings: Settings) {
  const { base, paths } = downloadsOf(settings)
  const path = normalize(given.startsWith(`${ALIAS}/`) ? given.slice(ALIAS.length + 1) : given)
  const isLink = async (): Promise<boolean> =>
    (await fs.lstat(join(base, path)).catch(() => undefined))?.isSymbolicLink() === true
  if (isAbsolute(path) || path === '..' || path.startsWith(`..${sep}`) || (await isLink()))
    throw new ToolError(`refusing to write outside allowed base dirs (${ALIAS})`, {
      code: 'E_PATH_OUTSIDE_ROOT',
      hint: 'Use a relative path without ".." and without links.',
    })
  await fs.mkdir(base, { recursive: true, mode: 0o700 })
  await checkWritable(paths, path)
  return {
    path: path.split(sep).join('/'),
    file: join(base, path),
    /** Writes all or nothing. @returns the bytes */
    async write(response: Response, maxBytes: number, secrets: readonly string[]): Promise<number> {
      let size = 0
      async function* checkedChunks(): AsyncGenerator<Uint8Array> {
        const keys = secrets.map((secret) => Buffer.from(secret))
        const longest = Math.max(1, ...keys.map((key) => key.length))
        let tail = Buffer.alloc(0)
        for await (const piece of (response.body ?? []) as AsyncIterable<Uint8Array>) {
          size += piece.length
          if (size > maxBytes)
            throw tooLarge(
              `download truncated (max_bytes=${maxBytes}); nothing was saved. Pass a larger max_bytes, or raise ${SETTING}.url_fetch.max_bytes_download`,
              'Ask for a part with the header Range.',
            )
          const window = Buffer.concat([tail, piece])
          if (keys.some((key) => window.includes(key)))
            throw new ToolError('The response contains the login; nothing was saved.', {
              code: 'E_SECRET_BLOCKED',
            })
          tail = window.subarray(Math.max(0, window.length - longest + 1))
          yield piece
        }
      }
      await paths.writeFile(path, checkedChunks())
      return size
    },
  }
}
