import { PegboardError } from '../core/errors.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { FORM, isJson, MULTIPART } from './media-types.ts'
import { encodeMultipart } from './multipart.ts'
import type { Parameter, RequestBody, RequestPlan } from './plan-operation.ts'
import { encodePairs, encodeValue, serializeHeader, serializePath } from './serialize-parameters.ts'

/** A request without credentials. */
export interface RequestDraft {
  readonly url: URL
  readonly headers: Record<string, string>
  readonly body?: string | Uint8Array
}

/** @throws PegboardError E_VALIDATION if an argument cannot be sent */
export function buildRequest(path: string, plan: RequestPlan, base: URL, input: Json): RequestDraft {
  const values = serializeParameters(path, plan.parameters, input)
  const url = createUrl(base, values.path)
  if (values.query.length > 0) url.search = values.query.join('&')
  const headers: Record<string, string> = { accept: plan.accept, ...values.headers }
  if (values.cookies.length > 0) headers['cookie'] = values.cookies.join('; ')
  const content = plan.body && createBody(plan.body, input)
  if (!content) return { url, headers }
  headers['content-type'] = content.type
  return { url, headers, body: content.data }
}

function serializeParameters(template: string, parameters: readonly Parameter[], input: Json) {
  let path = template
  const headers: Record<string, string> = {}
  const pairs: Record<'query' | 'cookie', string[]> = { query: [], cookie: [] }
  for (const parameter of parameters) {
    const { argument, name, explode, style, in: location } = parameter
    const value = Object.hasOwn(input, argument) ? input[argument] : undefined
    if (location === 'path') path = path.replaceAll(`{${name}}`, () => serializePath(parameter, value))
    else if (value === undefined || value === null) continue
    else if (location === 'header') headers[name.toLowerCase()] = serializeHeader(parameter, value)
    else {
      const serialized = parameter.json ? JSON.stringify(value) : value
      const encoded = encodePairs(name, serialized, { style, explode, reserved: parameter.allowReserved })
      pairs[location].push(...encoded.map(([key, text]) => `${key}=${text}`))
    }
  }
  return { path, headers, query: pairs.query, cookies: pairs.cookie }
}

/** @throws PegboardError E_VALIDATION if the path leaves the base URL */
function createUrl(base: URL, path: string): URL {
  const href = base.href.replace(/\/$/, '') + path
  const url = URL.canParse(href) ? new URL(href) : undefined
  if (url?.origin !== base.origin || !`${url.pathname}/`.startsWith(base.pathname.replace(/\/?$/, '/')))
    throw new PegboardError('E_VALIDATION', 'The arguments lead out of the address of the API.')
  return url
}

function createBody(body: RequestBody, input: Json): { type: string; data: string | Uint8Array } | undefined {
  const { contentType: type, fields, bodyArgument } = body
  if (bodyArgument !== undefined) {
    const value = input[bodyArgument]
    if (value === undefined) return undefined
    if (isJson(type)) return { type, data: JSON.stringify(value) }
    if (isRecord(value) && type.startsWith(FORM)) return { type, data: encodeForm(Object.entries(value), body) }
    if (isRecord(value) && type.startsWith(MULTIPART))
      return encodeMultipart(
        Object.entries(value).map(([name, field]) => [name, decodeFile(body, name, name, field)]),
        body.parts,
      )
    return { type, data: body.isBase64 ? decodeBase64(bodyArgument, value) : String(value) }
  }
  const fieldValues: Array<[string, unknown]> = []
  for (const [argument, name] of fields ?? []) {
    if (!Object.hasOwn(input, argument)) continue
    fieldValues.push([name, decodeFile(body, name, argument, input[argument])])
  }
  if (fieldValues.length === 0 && !body.required) return undefined
  if (isJson(type)) return { type, data: JSON.stringify(Object.fromEntries(fieldValues)) }
  return type.startsWith(FORM)
    ? { type, data: encodeForm(fieldValues, body) }
    : encodeMultipart(fieldValues, body.parts)
}

/** Objects are sent as JSON, which most servers expect, unless the document says otherwise. */
function encodeForm(fields: readonly [string, unknown][], { encoding }: RequestBody): string {
  return fields
    .filter(([, value]) => value !== undefined && value !== null)
    .flatMap(([name, value]) => {
      const fieldEncoding = asRecord(encoding[name])
      const style = typeof fieldEncoding['style'] === 'string' ? fieldEncoding['style'] : 'form'
      if (isRecord(value) && fieldEncoding['style'] === undefined) return [`${encodeValue(name)}=${encodeValue(value)}`]
      const explode = typeof fieldEncoding['explode'] === 'boolean' ? fieldEncoding['explode'] : style === 'form'
      return encodePairs(name, value, { style, explode }).map(([key, encoded]) => `${key}=${encoded}`)
    })
    .join('&')
}

/** The bytes of a file or files; any other value unchanged. */
function decodeFile(body: RequestBody, name: string, argument: string, value: unknown): unknown {
  if (value === null || body.parts.get(name)?.isFile !== true) return value
  return Array.isArray(value) ? value.map((item) => decodeBase64(argument, item)) : decodeBase64(argument, value)
}

function decodeBase64(argument: string, value: unknown): Uint8Array {
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
  const url = template.replaceAll(/\{([^{}]+)\}/g, (placeholder, name: string) => {
    const variable = variables[name]
    return isRecord(variable) && variable['default'] !== undefined ? String(variable['default']) : placeholder
  })
  const documentUrl = /^https?:/i.test(document) ? document : undefined
  if (!/[{}]/.test(url) && URL.canParse(url, documentUrl)) {
    const base = new URL(url, documentUrl)
    if (base.protocol === 'https:' || base.protocol === 'http:') return base
  }
  throw new PegboardError('E_BACKEND_UNAVAILABLE', `The document of ${id} does not name the server of the API.`, {
    class: 'server_setup',
    hint: `The operator can set openapi.${id}.baseUrl.`,
  })
}
