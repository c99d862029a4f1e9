import { PegboardError } from '../core/errors.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { FORM, isJson, MULTIPART, type RequestBody, type RequestPlan } from './plan-operation.ts'
import { encodePairs, encodeValue, headerValue, pathValue } from './serialize-parameters.ts'

/** A request without credentials. */
export interface RequestDraft {
  readonly url: URL
  readonly headers: Record<string, string>
  readonly body?: string | Uint8Array
}

/** @throws PegboardError E_VALIDATION if an argument cannot be sent */
export async function buildRequest(path: string, plan: RequestPlan, base: URL, input: Json): Promise<RequestDraft> {
  const headers: Record<string, string> = { accept: plan.accept }
  const query: string[] = []
  const cookies: string[] = []
  let filled = path
  for (const parameter of plan.parameters) {
    const { argument, name, explode, style } = parameter
    const value = Object.hasOwn(input, argument) ? input[argument] : undefined
    if (parameter.in === 'path') filled = filled.replaceAll(`{${name}}`, () => pathValue(parameter, value))
    else if (value === undefined || value === null) continue
    else if (parameter.in === 'header') headers[name.toLowerCase()] = headerValue(parameter, value)
    else {
      const given = parameter.json ? JSON.stringify(value) : value
      const found = encodePairs(name, given, { style, explode, reserved: parameter.allowReserved })
      ;(parameter.in === 'query' ? query : cookies).push(...found.map(([key, one]) => `${key}=${one}`))
    }
  }
  if (cookies.length > 0) headers['cookie'] = cookies.join('; ')
  const root = base.href.replace(/\/$/, '')
  const url = URL.canParse(root + filled) ? new URL(root + filled) : undefined
  if (url?.origin !== base.origin || !`${url.pathname}/`.startsWith(base.pathname.replace(/\/?$/, '/')))
    throw new PegboardError('E_VALIDATION', 'The arguments lead out of the address of the API.')
  if (query.length > 0) url.search = query.join('&')
  const { body } = plan
  const content = body && (await bodyOf(body, input))
  if (!body || !content) return { url, headers }
  headers['content-type'] = content.type
  return { url, headers, body: content.data }
}

async function bodyOf(
  body: RequestBody,
  input: Json,
): Promise<{ type: string; data: string | Uint8Array } | undefined> {
  const { contentType: type, fields, whole } = body
  if (whole !== undefined) {
    const value = input[whole]
    if (value === undefined) return undefined
    if (isJson(type)) return { type, data: JSON.stringify(value) }
    if (isRecord(value) && type.startsWith(FORM)) return { type, data: form(Object.entries(value), body) }
    if (isRecord(value) && type.startsWith(MULTIPART)) return multipart(Object.entries(value), body)
    return { type, data: body.binary.has(whole) ? bytesOf(whole, value) : String(value) }
  }
  const given: Array<[string, unknown]> = []
  const files = new Set<string>()
  for (const [argument, name] of fields ?? []) {
    if (!Object.hasOwn(input, argument)) continue
    given.push([name, body.binary.has(argument) ? bytesOf(argument, input[argument]) : input[argument]])
    if (body.binary.has(argument)) files.add(name)
  }
  if (given.length === 0 && !body.required) return undefined
  if (isJson(type)) return { type, data: JSON.stringify(Object.fromEntries(given)) }
  return type.startsWith(FORM) ? { type, data: form(given, body) } : multipart(given, body)
}

/** Objects are sent as JSON, which most servers expect, unless the document says otherwise. */
function form(fields: readonly [string, unknown][], { encoding }: RequestBody): string {
  return fields
    .filter(([, value]) => value !== undefined && value !== null)
    .flatMap(([name, value]) => {
      const how = asRecord(encoding[name])
      const style = typeof how['style'] === 'string' ? how['style'] : 'form'
      if (isRecord(value) && how['style'] === undefined) return [`${encodeValue(name)}=${encodeValue(value)}`]
      const explode = typeof how['explode'] === 'boolean' ? how['explode'] : style === 'form'
      return encodePairs(name, value, { style, explode }).map(([key, one]) => `${key}=${one}`)
    })
    .join('&')
}

async function multipart(fields: readonly [string, unknown][], { encoding }: RequestBody) {
  const data = new FormData()
  for (const [name, value] of fields) {
    const { contentType } = isRecord(encoding[name]) ? encoding[name] : ({} as Json)
    const type = typeof contentType === 'string' ? (contentType.split(',')[0] ?? '') : ''
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one instanceof Uint8Array)
        data.append(name, new Blob([Buffer.from(one)], { type: type || 'application/octet-stream' }), name)
      else if (typeof one === 'object' && one !== null)
        data.append(name, new Blob([JSON.stringify(one)], { type: type || 'application/json' }), name)
      else if (one !== undefined && one !== null) data.append(name, String(one))
    }
  }
  // Building the whole body is simpler than a stream, and arguments are small.
  const whole = new Response(data)
  return { type: whole.headers.get('content-type') ?? MULTIPART, data: new Uint8Array(await whole.arrayBuffer()) }
}

function bytesOf(argument: string, value: unknown): Uint8Array {
  const text = String(value).replaceAll(/\s/g, '')
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(text)) throw new PegboardError('E_VALIDATION', `${argument} is not base64.`)
  return Buffer.from(text, 'base64')
}

/**
 * Base URL of an operation: the operator's `baseUrl`, or the document's first server with default variables, relative
 * to the document's own address.
 * @throws PegboardError E_BACKEND_UNAVAILABLE naming the setting
 */
export function baseOf(
  id: string,
  plan: Pick<RequestPlan, 'servers'>,
  baseUrl: string | undefined,
  document: string,
): URL {
  if (baseUrl !== undefined) return new URL(baseUrl)
  const server = plan.servers.find(isRecord)
  const template = typeof server?.['url'] === 'string' ? server['url'] : '/'
  const variables = asRecord(server?.['variables'])
  const url = template.replaceAll(/\{([^{}]+)\}/g, (all, name: string) => {
    const variable = variables[name]
    return isRecord(variable) && variable['default'] !== undefined ? String(variable['default']) : all
  })
  const root = /^https?:/i.test(document) ? document : undefined
  if (!/[{}]/.test(url) && URL.canParse(url, root)) {
    const base = new URL(url, root)
    if (base.protocol === 'https:' || base.protocol === 'http:') return base
  }
  throw new PegboardError('E_BACKEND_UNAVAILABLE', `The document of ${id} does not name the server of the API.`, {
    class: 'server_setup',
    hint: `The operator can set openapi.${id}.baseUrl.`,
  })
}
