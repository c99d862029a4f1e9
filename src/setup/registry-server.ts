import { PegboardError } from '../core/errors.ts'
import { asRecord, isRecord } from '../core/is-record.ts'
import { toPrintable } from '../core/printable.ts'
import { visibleText } from '../core/visible-text.ts'

/** The format of names in the registry. */
export const SERVER_NAME = /^(?=.{3,200}$)[a-zA-Z0-9][a-zA-Z0-9.-]*\/[a-zA-Z0-9_.-]*[a-zA-Z0-9_-][a-zA-Z0-9_.-]*$/

/** A value that a server wants: a variable, an argument or a part of an address. */
export interface RegistryInput {
  /** By which a person sets it. */
  readonly name: string
  readonly description: string
  readonly required: boolean
  readonly secret: boolean
  readonly default?: string
  readonly choices?: readonly string[]
}

/** A text with `{name}` where an input belongs. */
export interface Template {
  readonly text: string
  readonly inputs: readonly RegistryInput[]
}

export interface NamedTemplate extends Template {
  readonly name: string
}

export interface RegistryPackage {
  readonly kind: 'package'
  /** `npm`, `pypi`, `oci` and others. */
  readonly type: string
  readonly identifier: string
  readonly version?: string
  readonly registryUrl?: string
  readonly transport: string
  readonly runtimeArguments: readonly Argument[]
  readonly arguments: readonly Argument[]
  readonly variables: readonly NamedTemplate[]
}

/** One or two words of a command line. */
export interface Argument extends Template {
  /** Such as `--port`; absent for a positional argument. */
  readonly flag?: string
}

export interface RegistryRemote {
  readonly kind: 'remote'
  readonly type: 'http' | 'sse'
  readonly url: Template
  readonly headers: readonly NamedTemplate[]
}

/** An entry of the registry. All texts are safe to show; none is trusted. */
export interface RegistryServer {
  readonly name: string
  readonly version: string
  readonly title?: string
  readonly description: string
  readonly repository?: string
  /** Why it should not be used any more. */
  readonly deprecated?: string
  readonly options: ReadonlyArray<RegistryPackage | RegistryRemote>
}

/** Text of others on one line: without control characters, and with every invisible character visible. */
export function shownText(text: string, max: number): string {
  const printable = toPrintable(text.slice(0, 4 * max))
  const line = visibleText(printable.replaceAll(/\s+/g, ' ').trim())
  return line.length > max ? `${line.slice(0, max)}…` : line
}

const MAX_ITEMS = 50
const MAX_TEXT = 2_000

/** @throws PegboardError E_REGISTRY_ENTRY, naming the first part that is not valid */
export function parseRegistryServer(
  value: unknown,
  { status, message }: { readonly status?: string; readonly message?: string } = {},
): RegistryServer {
  const server = record(value, 'server')
  const name = text(server, 'name', SERVER_NAME)
  if (status === 'deleted') throw new PegboardError('E_NOT_FOUND', `${name} was deleted from the registry.`)
  const { title, description, repository } = server
  return {
    name,
    version: text(server, 'version', VERSION),
    ...(typeof title === 'string' ? { title: shownText(title, 100) } : {}),
    description: typeof description === 'string' ? shownText(description, 200) : '',
    ...(isRecord(repository) && typeof repository['url'] === 'string'
      ? { repository: shownText(repository['url'], 200) }
      : {}),
    ...(status === 'deprecated' ? { deprecated: shownText(message ?? 'no reason given', 200) } : {}),
    options: [...list(server, 'packages').map(packageOf), ...list(server, 'remotes').map(remoteOf)],
  }
}

const VERSION = /^[\w.+-]{1,100}$/
const invalid = (what: string): PegboardError =>
  new PegboardError('E_REGISTRY_ENTRY', `The entry of the registry is not valid: ${what}.`)

function record(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (isRecord(value)) return value
  throw invalid(`${what} is no object`)
}

function text(from: Readonly<Record<string, unknown>>, key: string, pattern: RegExp): string {
  const value = from[key]
  if (typeof value === 'string' && pattern.test(value)) return value
  throw invalid(`"${key}" is missing or has characters that are not allowed`)
}

function list(from: Readonly<Record<string, unknown>>, key: string): readonly Readonly<Record<string, unknown>>[] {
  const value = from[key]
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw invalid(`"${key}" is no list`)
  if (value.length > MAX_ITEMS) throw invalid(`"${key}" has more than ${MAX_ITEMS} entries`)
  return value.map((one) => record(one, key))
}

/** Registries of 2025-09 write names with underscores. */
function eitherList(from: Readonly<Record<string, unknown>>, name: string, older: string) {
  const found = list(from, name)
  return found.length > 0 ? found : list(from, older)
}

/** A text that becomes part of a command line, an address or a header. */
function plain(value: unknown, what: string): string {
  if (typeof value !== 'string') throw invalid(`${what} is no text`)
  if (value.length > MAX_TEXT || value !== toPrintable(value) || visibleText(value) !== value || /[\n\t]/.test(value))
    throw invalid(`${what} is too long or has invisible characters`)
  return value
}

const TRANSPORTS: Readonly<Record<string, 'http' | 'sse'>> = {
  'streamable-http': 'http',
  streamable: 'http',
  http: 'http',
  sse: 'sse',
}

function packageOf(given: Readonly<Record<string, unknown>>): RegistryPackage {
  const { version, registryBaseUrl, registry_base_url, transport } = given
  const type = given['registryType'] ?? given['registry_type']
  const base = registryBaseUrl ?? registry_base_url
  return {
    kind: 'package',
    type: plain(type, 'registryType').toLowerCase(),
    identifier: plain(given['identifier'], 'identifier'),
    ...(version === undefined || version === '' ? {} : { version: plain(version, 'version') }),
    ...(base === undefined || base === '' ? {} : { registryUrl: plain(base, 'registryBaseUrl') }),
    transport: isRecord(transport) ? plain(transport['type'], 'transport.type') : 'stdio',
    runtimeArguments: eitherList(given, 'runtimeArguments', 'runtime_arguments').map(argumentOf),
    arguments: eitherList(given, 'packageArguments', 'package_arguments').map(argumentOf),
    variables: eitherList(given, 'environmentVariables', 'environment_variables').map((one) => namedOf(one, VARIABLE)),
  }
}

function remoteOf(given: Readonly<Record<string, unknown>>): RegistryRemote {
  const type = TRANSPORTS[plain(given['type'] ?? given['transport_type'] ?? 'streamable-http', 'type')]
  if (type === undefined) throw invalid('the type of a remote is not known')
  const variables = asRecord(given['variables'])
  return {
    kind: 'remote',
    type,
    url: templateOf(plain(given['url'], 'url'), variables),
    headers: list(given, 'headers').map((one) => namedOf(one, HEADER)),
  }
}

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/
const HEADER = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/
const FLAG = /^--?[A-Za-z][\w.-]{0,63}$/
const INPUT_NAME = /^[A-Za-z_][\w.-]{0,127}$/

/** A variable or header: a fixed text, a text with inputs, or one input. */
function namedOf(given: Readonly<Record<string, unknown>>, pattern: RegExp): NamedTemplate {
  const name = text(given, 'name', pattern)
  return { name, ...templateFor(given, name.replaceAll(/[^\w.-]/g, '_')) }
}

function argumentOf(given: Readonly<Record<string, unknown>>): Argument {
  if (given['type'] !== 'named')
    return templateFor(given, inputName(given['valueHint'] ?? given['value_hint'], 'value'))
  const flag = text(given, 'name', FLAG)
  const isSwitch = ['value', 'default', 'isRequired', 'valueHint', 'description'].every(
    (key) => given[key] === undefined,
  )
  const hint = inputName(given['valueHint'], flag.replace(/^-+/, ''))
  return { flag, ...(isSwitch ? { text: '', inputs: [] } : templateFor(given, hint)) }
}

const inputName = (hint: unknown, fallback: string): string =>
  typeof hint === 'string' && INPUT_NAME.test(hint) ? hint : INPUT_NAME.test(fallback) ? fallback : 'value'

function templateFor(given: Readonly<Record<string, unknown>>, name: string): Template {
  const { value } = given
  if (value === undefined || value === null || value === '')
    return { text: `{${name}}`, inputs: [inputOf(name, given)] }
  return templateOf(plain(value, 'value'), asRecord(given['variables']))
}

/** Braces without a variable stay as they are. */
function templateOf(value: string, variables: Readonly<Record<string, unknown>>): Template {
  const names = [...new Set([...value.matchAll(/\{([\w.-]+)\}/g)].map(([, name = '']) => name))]
  return {
    text: value,
    inputs: names.flatMap((name) =>
      Object.hasOwn(variables, name) ? [inputOf(name, record(variables[name], `variables.${name}`))] : [],
    ),
  }
}

function inputOf(name: string, given: Readonly<Record<string, unknown>>): RegistryInput {
  const { description, choices } = given
  const fixed = given['value'] ?? given['default']
  return {
    name,
    description: typeof description === 'string' ? shownText(description, 200) : '',
    required: (given['isRequired'] ?? given['is_required']) === true,
    secret: (given['isSecret'] ?? given['is_secret']) === true,
    ...(typeof fixed === 'string' ? { default: plain(fixed, 'default') } : {}),
    ...(Array.isArray(choices) && choices.length > 0
      ? { choices: choices.slice(0, MAX_ITEMS).map((one) => plain(one, 'choices')) }
      : {}),
  }
}
