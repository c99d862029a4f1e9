import { isIP } from 'node:net'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import { assertReachable, isLoopback, publicOnly } from '../policy/network-rules.ts'
import { OWN_NETWORK } from '../policy/own-network.ts'
import type {
  Argument,
  NamedTemplate,
  RegistryInput,
  RegistryPackage,
  RegistryRemote,
  Template,
} from './registry-server.ts'

/** What an entry of `mcpServers` will run or connect to, before a person agreed to it. */
export interface InstallPlan {
  /** A name for the entry. */
  readonly id: string
  /** What a person sees: a package, an address, or a command. */
  readonly what: string
  /** Everything that it wants to know. */
  readonly inputs: readonly RegistryInput[]
  /** Doubts that a person should know about. */
  readonly warnings: readonly string[]
  /** The entry. @param values by the names of inputs; an input without a value is left out */
  entry(values: InputValues): ServerEntry
}

/** The value of an input: a text, or a reference such as `${env:NAME}`. */
export interface InputValue {
  readonly text: string
  readonly isReference: boolean
}

/** By the names of inputs. */
export type InputValues = ReadonlyMap<string, InputValue>

export type ServerEntry = Readonly<Record<string, unknown>>

const createEntryError = (
  what: string,
  hint = 'If you trust it, add the command yourself: pegboard add NAME -- COMMAND.',
): PegboardError => new PegboardError('E_REGISTRY_ENTRY', `${what}.`, { hint })

/** The command for each kind of package, with the version pinned. */
const RUNNERS: Readonly<Record<string, (name: string, version: string | undefined) => readonly string[]>> = {
  npm(name, version) {
    assertName(name, /^(?:@[a-z0-9~][\w.~-]*\/)?[a-z0-9~][\w.~-]*$/i)
    return ['npx', '-y', `${name}@${assertPinned(version)}`]
  },
  pypi(name, version) {
    assertName(name, /^[a-z0-9](?:[\w.-]*[a-z0-9])?$/i)
    return ['uvx', `${name}==${assertPinned(version)}`]
  },
  oci(name, version) {
    assertName(name, /^[a-z0-9][\w.-]*(?::\d+)?(?:\/[a-z0-9][\w.-]*)*(?::[\w.-]{1,128})?(?:@sha256:[0-9a-f]{64})?$/i)
    const isTagged = /[:@][^/]*$/.test(name)
    if (!isTagged && version === undefined) throw createEntryError(`The image ${name} has no version`)
    return ['docker', 'run', '-i', '--rm', isTagged ? name : `${name}:${assertPinned(version)}`]
  },
}

interface ManualInstall {
  readonly what: string
  /** Names that are safe in a command line. */
  readonly names: RegExp
  hint(name: string, version: string, id: string): string
}

/** Kinds of packages that Pegboard does not run, and how a person does. */
const MANUAL_INSTALLS: Readonly<Record<string, ManualInstall>> = {
  mcpb: {
    what: 'It is a bundle (mcpb), which Pegboard does not install',
    names: /^https:\/\/[\w.-]+(?:\/[\w.~%+-]+)+$/,
    hint: (name, _version, id) =>
      `Download ${name}, unpack it with unzip, and add the command in its manifest.json: pegboard add ${id} -- COMMAND.`,
  },
  nuget: {
    what: 'It is a NuGet package, which Pegboard does not run',
    names: /^[A-Za-z\d][\w.-]*$/,
    hint: (name, version, id) =>
      `Install the .NET 10 SDK, then run: pegboard add ${id} -- dnx ${name}@${version} --yes`,
  },
  cargo: {
    what: 'It is a crate of Rust, which Pegboard does not build',
    names: /^[A-Za-z][\w-]*$/,
    hint: (name, version, id) =>
      `Run: cargo install --locked ${name}@${version}. Then run: pegboard add ${id} -- ${name}`,
  },
  go: {
    what: 'It is a Go module, which Pegboard does not build',
    names: /^[\w.~-]+(?:\/[\w.~-]+)+$/,
    hint: (name, version, id) =>
      `Run: go install ${name}@${version}. Then run: pegboard add ${id} -- ${name.replace(/^.*\//, '')}`,
  },
}

/** @throws PegboardError E_REGISTRY_ENTRY */
function assertRunnable(type: string, name: string, version: string | undefined): void {
  if (Object.hasOwn(RUNNERS, type)) return
  const other = Object.hasOwn(MANUAL_INSTALLS, type) ? MANUAL_INSTALLS[type] : undefined
  if (!other) throw createEntryError(`Packages of the kind ${JSON.stringify(type.slice(0, 40))} are not supported`)
  const isSafe = other.names.test(name) && name.length <= 500 && /^v?\d[\w.+-]*$/.test(version ?? '0')
  if (!isSafe) throw createEntryError(`${other.what}, and its name or version is not valid`)
  const id = idOf(name.replace(/^.*\/|\.mcpb$/g, '').replaceAll('.', '-'))
  throw createEntryError(other.what, other.hint(name, version ?? 'VERSION', id))
}

/** Where each kind of package comes from; another source would be another package of the same name. */
const SOURCES: Readonly<Record<string, RegExp>> = {
  npm: /^https:\/\/registry\.npmjs\.org\/?$/,
  pypi: /^https:\/\/pypi\.org(?:\/simple)?\/?$/,
  oci: /^https:\/\/(?:[\w-]+\.)*(?:docker\.io|ghcr\.io|docker\.com|quay\.io|mcr\.microsoft\.com|pkg\.dev|azurecr\.io)\/?$/,
}

function assertName(name: string, pattern: RegExp): void {
  if (!pattern.test(name) || name.length > 214) throw createEntryError('The name of the package is not valid')
}

/** Versions such as `latest` or `^1` would run other code later. */
function assertPinned(version: string | undefined): string {
  if (version !== undefined && /^\d+(?:\.\d+)*[\w.+-]*$/.test(version)) return version
  throw createEntryError(`The version of the package is not fixed${version === undefined ? '' : ` ("${version}")`}`)
}

/** Variables that change what a program is, instead of what it does. */
const UNSAFE_VARIABLES =
  /^(?:PATH|HOME|SHELL|IFS|ENV|BASH_ENV|PROMPT_COMMAND|NODE_(?:OPTIONS|PATH|EXTRA_CA_CERTS|TLS_REJECT_UNAUTHORIZED)|(?:LD|DYLD)_.*|PYTHON(?:PATH|STARTUP|HOME|INSPECT|BREAKPOINT)|RUBYOPT|PERL5?OPT|JAVA_TOOL_OPTIONS|GIT_.*|SSH_.*|(?:NPM_CONFIG|UV|PIP|DOCKER|PEGBOARD|COMSPEC|XDG)(?:_.*)?|(?:HTTPS?|ALL|NO)_PROXY|SSL_CERT_(?:FILE|DIR)|(?:REQUESTS|CURL)_CA_BUNDLE)$/i

/** Arguments of the runner that a registry may set: they change nothing that matters. */
const HARMLESS_FLAGS: Readonly<Record<string, ReadonlySet<string>>> = {
  npm: new Set(['-y', '--yes']),
  pypi: new Set(),
  oci: new Set(['-i', '--interactive', '--rm', '-t', '--init']),
}

/** @throws PegboardError E_REGISTRY_ENTRY for a package that Pegboard does not run, or not in the way that it wants */
export function planPackage(given: RegistryPackage): InstallPlan {
  const { type, identifier, version, registryUrl, transport, runtimeArguments, variables } = given
  assertRunnable(type, identifier, version)
  if (transport !== 'stdio') throw createEntryError('The package starts a server that listens at an address')
  if (registryUrl !== undefined && !SOURCES[type]?.test(registryUrl))
    throw createEntryError(`The package comes from another registry (${registryUrl})`)
  const words = RUNNERS[type]?.(identifier, version) ?? []
  for (const one of runtimeArguments) {
    const word = one.flag ?? one.text
    const isVariable = type === 'oci' && (one.flag === '-e' || one.flag === '--env')
    if (!HARMLESS_FLAGS[type]?.has(word) && !isVariable)
      throw createEntryError(
        `It wants the option ${JSON.stringify(`${word} ${one.flag === undefined ? '' : one.text}`.trim())} of ${words[0]}`,
      )
  }
  const named = [...variables, ...containerVariables(type, runtimeArguments)]
  for (const { name } of named)
    if (UNSAFE_VARIABLES.test(name)) throw createEntryError(`It wants to set the variable ${name}`)
  const [command = '', ...before] = words
  return {
    id: idOf(identifier.replace(/[:@][^/]*$/, '')),
    what: `${type} package ${identifier}${version === undefined ? '' : ` ${version}`}`,
    inputs: inputsOf([...named, ...given.arguments]),
    warnings: [],
    entry(values) {
      const env = pairs(named, values)
      // docker passes only the variables that its arguments name.
      const passed = type === 'oci' ? Object.keys(env).flatMap((name) => ['-e', name]) : []
      const args = [
        ...before.slice(0, -1),
        ...passed,
        ...before.slice(-1),
        ...given.arguments.flatMap((one) => wordsOf(one, values)),
      ]
      return { command, args, ...(Object.keys(env).length === 0 ? {} : { env }) }
    },
  }
}

/** `-e NAME=value` among the arguments of docker. */
function containerVariables(type: string, args: readonly Argument[]): readonly NamedTemplate[] {
  if (type !== 'oci') return []
  return args.flatMap(({ flag, text, inputs }) => {
    if (flag !== '-e' && flag !== '--env') return []
    const [, name, value = ''] = /^([A-Za-z_][A-Za-z0-9_]*)=?(.*)$/s.exec(text) ?? []
    if (name === undefined) throw createEntryError('It passes a variable without a name to docker')
    return [{ name, text: value, inputs }]
  })
}

/** @param allowPrivate the registry itself is at such an address @throws PegboardError E_REGISTRY_ENTRY */
export function planRemote({ type, url, headers }: RegistryRemote, allowPrivate: boolean): InstallPlan {
  for (const { name } of headers)
    if (/^(?:host|content-length|transfer-encoding|connection|upgrade|te|trailer|mcp-.*)$/i.test(name))
      throw createEntryError(`It wants to set the header ${name}`)
  // Inputs in the host would decide where the other inputs are sent.
  if (/^[a-z]+:\/\/[^/]*\{/i.test(url.text) || !/^https?:\/\//i.test(url.text))
    throw createEntryError('The address of the server is not fixed')
  assertAddress(url.text.replaceAll(/[{}]/g, ''), allowPrivate)
  return {
    id: idOf(new URL(url.text).hostname),
    what: `remote server ${url.text}`,
    inputs: inputsOf([url, ...headers]),
    warnings: [],
    entry(values) {
      const address = fill(url, values, encodeURIComponent) ?? url.text
      assertAddress(address, allowPrivate)
      const sent = pairs(headers, values)
      return {
        type,
        url: address,
        ...(Object.keys(sent).length === 0 ? {} : { headers: sent }),
        // The address comes from somebody else, so it must not lead into this network.
        ...(allowPrivate ? {} : { allowPrivate: false }),
      }
    },
  }
}

function assertAddress(text: string, allowPrivate: boolean): void {
  if (!URL.canParse(text)) throw createEntryError('The address of the server is not valid')
  const url = new URL(text)
  if (allowPrivate && isLoopback(url)) return
  try {
    assertReachable(
      url,
      allowPrivate
        ? { allow: new Set(['public', ...OWN_NETWORK]), http: true, setting: 'registry.allowPrivate' }
        : publicOnly('registry.allowPrivate'),
    )
  } catch (error) {
    if (!isPegboardError(error)) throw error
    throw createEntryError(
      `The address ${url.origin} is refused: ${error.message.replace(/^The address is refused: |\.$/g, '')}`,
    )
  }
}

/** Each input once; a name that is used twice is one input. */
function inputsOf(templates: readonly Template[]): readonly RegistryInput[] {
  const found = new Map<string, RegistryInput>()
  for (const { inputs } of templates)
    for (const input of inputs) {
      const before = found.get(input.name)
      found.set(
        input.name,
        before
          ? { ...before, required: before.required || input.required, secret: before.secret || input.secret }
          : input,
      )
    }
  return [...found.values()]
}

/** Names with values; those whose inputs have none are left out. */
function pairs(templates: readonly NamedTemplate[], values: InputValues): Record<string, string> {
  return Object.fromEntries(
    templates.flatMap((one) => {
      const value = fill(one, values)
      return value === undefined ? [] : [[one.name, value]]
    }),
  )
}

function wordsOf(argument: Argument, values: InputValues): readonly string[] {
  const value = fill(argument, values)
  if (value === undefined) return []
  return argument.flag === undefined ? [value] : argument.text === '' ? [argument.flag] : [argument.flag, value]
}

/** Stands for a reference until everything else is escaped. The registry's texts have no such characters. */
const MARK = /\uE000(\d+)\uE001/g

/**
 * Undefined if an input has no value. Only references of the person are references in the file: what the registry
 * wrote must not name variables or secrets of this machine.
 */
function fill(
  { text, inputs }: Template,
  values: InputValues,
  encode: (value: string) => string = (value) => value,
): string | undefined {
  if (inputs.some(({ name }) => !values.has(name))) return undefined
  const references: string[] = []
  const filled = text.replaceAll(/\{([\w.-]+)\}/g, (all, name: string) => {
    const value = inputs.some((input) => input.name === name) ? values.get(name) : undefined
    if (value === undefined) return all
    if (!value.isReference) return encode(value.text.replaceAll(MARK, ''))
    return `\uE000${references.push(value.text) - 1}\uE001`
  })
  if (/\$\uE000/.test(filled))
    throw createEntryError('It writes "$" before a value, which would become another reference')
  return filled.replaceAll('${', () => '$${').replaceAll(MARK, (_all, at: string) => references[Number(at)] ?? '')
}

/** `@modelcontextprotocol/server-memory` and `mcp-server-memory` become `memory`. */
export function idOf(name: string): string {
  const last = name.split('/').at(-1) ?? ''
  const host =
    /^[\w-]+(?:\.[\w-]+)+$/.test(name) && isIP(name) === 0
      ? name.split('.').filter((part) => !/^(?:www|api|mcp|com|org|net|io|dev|ai|app|co)$/.test(part))[0]
      : undefined
  const short = (host ?? last)
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]+/g, '-')
    .replace(/^(?:mcp-)?(?:server-)?(?:mcp-)?/, '')
    .replace(/(?:-mcp)?(?:-server)?(?:-mcp)?$/, '')
    .replaceAll(/^-+|-+$/g, '')
  return short.slice(0, 40) || 'server'
}
