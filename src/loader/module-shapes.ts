import type { CallContext } from '../core/caller.ts'
import { isPegboardError, messageOf, PegboardError, ToolError } from '../core/errors.ts'
import { asRecord, isRecord } from '../core/is-record.ts'
import type { ToolDef, ToolModule } from '../core/module.ts'
import { findNearest, isModuleId, isToolName } from '../core/tool-names.ts'
import type { ToolSource } from './adapt-module-tool.ts'
import type { ModuleNamespace } from './fresh-import.ts'
import { createShapeError } from './shape-error.ts'
import { flatContext, scriptEnv } from './tool-context.ts'

/** The content of a file, by its format. */
export type ModuleShape =
  | { readonly kind: 'module'; readonly id: string; readonly module: ToolModule }
  /** Single tools, exported or registered by a script. The file name is their module. */
  | { readonly kind: 'tools'; readonly id: string; readonly tools: readonly ToolSource[] }

/** The argument of `registerTool` in script-style files. `def` is an OpenAI function specification. */
export interface Registration {
  readonly name: string
  readonly execute: (args: unknown, env: unknown) => unknown
  readonly def: Readonly<Record<string, unknown>>
}

const GLOBALS = ['registerTool', 'llm_tool_register'] as const

/** Runs `load` with `registerTool` and `llm_tool_register` as globals, and returns the registered tools. */
export async function collectRegistrations<T>(
  load: () => Promise<T>,
): Promise<{ readonly value: T; readonly registered: Registration[] }> {
  const registered: Registration[] = []
  const register = (tool: unknown): void => {
    registered.push(checkRegistration(tool))
  }
  const scope = globalThis as Record<string, unknown>
  const previous = GLOBALS.map((name) => [name, Object.getOwnPropertyDescriptor(scope, name)] as const)
  for (const name of GLOBALS)
    Object.defineProperty(scope, name, { value: register, configurable: true, writable: true })
  try {
    return { value: await load(), registered }
  } finally {
    for (const [name, old] of previous) {
      if (old) Object.defineProperty(scope, name, old)
      else delete scope[name]
    }
  }
}

function checkRegistration(tool: unknown): Registration {
  const { name, execute, def } = asRecord(tool)
  if (typeof name !== 'string') throw createShapeError('registerTool({name, execute, def}) needs a name')
  if (typeof execute !== 'function') throw createShapeError(`registerTool("${name}") needs execute(args, env)`)
  if (!isRecord(def)) throw createShapeError(`registerTool("${name}") needs def, a function specification`)
  return { name, execute: execute as Registration['execute'], def }
}

/**
 * Determines the format: a script that registered tools, a module, a tool or a list of tools.
 * @param stem file name without extension
 * @throws PegboardError E_MODULE_SHAPE, E_NAME_INVALID
 */
export function shapeOf(exports: ModuleNamespace, registered: readonly Registration[], stem: string): ModuleShape {
  if (registered.length > 0) return { kind: 'tools', id: moduleIdOf(stem), tools: registered.map(toolOfScript) }
  for (const candidate of [exports['default'], exports]) {
    if (!isRecord(candidate) && !Array.isArray(candidate)) continue
    const { tools } = candidate as Record<string, unknown>
    if (isRecord(tools)) return { kind: 'module', ...checkModule(candidate as Record<string, unknown>) }
    const list = Array.isArray(candidate)
      ? candidate
      : Array.isArray(tools)
        ? tools
        : isTool(candidate)
          ? [candidate]
          : []
    if (list.length > 0) return { kind: 'tools', id: moduleIdOf(stem), tools: list.map(toolOfFile) }
  }
  throw createShapeError(
    'exports neither a module (name, description, tools) nor a tool (name, description, parameters, run), and registers none',
  )
}

/**
 * The module name for single tools of a file: `My.Tools` becomes `my_tools`.
 * @throws PegboardError E_NAME_INVALID
 */
export function moduleIdOf(stem: string): string {
  const id = stem.toLowerCase().replaceAll(/[^a-z0-9_-]+/g, '_')
  assertModuleName(id)
  return id
}

/** The tools of a checked module. */
export const toolsOfModule = (module: ToolModule): ToolSource[] =>
  Object.entries(module.tools).map(([action, def]) => ({
    action,
    def,
    // Checked again at every call, because the function may be replaced later.
    takesContext: () => wantsContext(def),
    invoke: (input, ctx) =>
      wantsContext(def) ? def.run(input as never, ctx) : (def.run as (input: unknown) => unknown)(input),
  }))

const wantsContext = (def: Pick<ToolDef, 'run' | 'context'>): boolean => def.run.length >= 2 || def.context === true

/** Names that begin with `mcp_` or `api_` are those of servers and APIs. @throws PegboardError E_NAME_INVALID */
function assertModuleName(name: string): void {
  if (!isModuleId(name) || /^(?:mcp|api)_/.test(name) || name === 'context_builder')
    throw new PegboardError(
      'E_NAME_INVALID',
      `"${name}" is not a legal module name: lower-case letters, digits, _ and -, starting with a letter; not mcp_… or api_….`,
    )
}

function checkModule(module: Record<string, unknown>): { readonly id: string; readonly module: ToolModule } {
  const { name, description, tools } = module
  if (typeof name !== 'string') throw createShapeError('the module has no name')
  assertModuleName(name)
  rejectMisspelledKeys(module, MODULE_KEYS, name)
  if (typeof description !== 'string' || description === '') throw createShapeError(`${name} has no description`)
  if (module['synonyms'] !== undefined && !isSynonyms(module['synonyms']))
    throw createShapeError(`the synonyms of ${name} are not groups of words, such as [["ticket", "issue"]]`)
  if (module['promptSection'] !== undefined && typeof module['promptSection'] !== 'function')
    throw createShapeError(`the promptSection of ${name} is not a function`)
  if (module['enabled'] !== undefined && typeof module['enabled'] !== 'function')
    throw createShapeError(`enabled of ${name} is not a function: the operator's switch is modules.${name}.enabled`)
  if (module['resources'] !== undefined) checkResources(module['resources'], tools as Record<string, unknown>, name)
  if (module['notices'] !== undefined && typeof module['notices'] !== 'function')
    throw createShapeError(`the notices of ${name} are not a function`)
  for (const [action, tool] of Object.entries(tools as Record<string, unknown>)) {
    const id = `${name}.${action}`
    if (!isToolName(action)) throw new PegboardError('E_NAME_INVALID', `"${action}" is not a legal tool name.`)
    if (!isRecord(tool)) throw createShapeError(`${id} is not an object`)
    rejectMisspelledKeys(tool, TOOL_KEYS, id)
    checkNeeds(tool, id)
    if (typeof tool['description'] !== 'string' || tool['description'] === '')
      throw createShapeError(`${id} has no description`)
    if (typeof tool['run'] !== 'function') throw createShapeError(`${id} has no run function`)
    if (!isEffect(tool['effect'])) throw createShapeError(`${id} needs effect: "read", "write" or "destructive"`)
  }
  return { id: name, module: module as unknown as ToolModule }
}

/** Schemes that Pegboard serves itself, or that refer to other places. */
const RESERVED_SCHEMES = /^(?:server|schema|sentfile|keptresult|notifications|stats|ui|file|https?):/
const RESOURCE_KEYS = ['name', 'title', 'description', 'mimeType', 'tool', 'input']

function checkResources(resources: unknown, tools: Record<string, unknown>, name: string): void {
  if (!isRecord(resources))
    throw createShapeError(`the resources of ${name} are not an object of resources by their URIs`)
  for (const [uri, resource] of Object.entries(resources)) {
    const id = `the resource ${uri} of ${name}`
    if (!/^[a-z][a-z0-9+.-]*:\/\/[^\s{}]+$/.test(uri) || RESERVED_SCHEMES.test(uri))
      throw createShapeError(`${id} needs a URI with a scheme of its own, such as ${name}://all`)
    if (!isRecord(resource)) throw createShapeError(`${id} is not an object`)
    rejectMisspelledKeys(resource, RESOURCE_KEYS, id)
    for (const key of ['name', 'description'])
      if (typeof resource[key] !== 'string' || resource[key] === '') throw createShapeError(`${id} has no ${key}`)
    const tool = Object.hasOwn(tools, String(resource['tool'])) ? tools[String(resource['tool'])] : undefined
    if (!isRecord(tool) || tool['effect'] !== 'read' || tool['internal'] === true)
      throw createShapeError(`${id} needs in tool the name of a tool of the module with effect: "read"`)
  }
}

const MODULE_KEYS = [
  ...['name', 'description', 'config', 'tools', 'synonyms', 'renamed', 'override', 'promptSection', 'start', 'stop'],
  ...['readOnly', 'writes', 'enabled', 'resources', 'notices'],
]
const TOOL_KEYS = [
  ...['title', 'description', 'input', 'output', 'effect', 'idempotent', 'openWorld', 'sideEffects', 'aliases', 'tags'],
  ...[
    'examples',
    'hidden',
    'internal',
    'context',
    'needs',
    'provides',
    'intent',
    'task',
    'asksFirst',
    'noBackground',
    'allowRepeat',
    'toldWhenOff',
  ],
  ...['available', 'assemble', 'run'],
  ...['readOnly', 'writes', 'needsUserInput', 'opaque', 'volatile'],
]
const NEEDS = ['providers', 'notProviders', 'capabilities', 'flags', 'permissions']

/** An unknown condition must be rejected, because ignoring it would open the tool to everyone. */
function checkNeeds(tool: Record<string, unknown>, id: string): void {
  for (const key of ['provides', 'intent'])
    if (tool[key] !== undefined && (typeof tool[key] !== 'string' || tool[key] === ''))
      throw createShapeError(`the ${key} of ${id} is not a word`)
  const { needs } = tool
  if (needs === undefined) return
  if (!isRecord(needs)) throw createShapeError(`${id} needs is not an object`)
  for (const [key, words] of Object.entries(needs)) {
    if (!NEEDS.includes(key)) throw createShapeError(`${id} needs has "${key}"; it takes ${NEEDS.join(', ')}`)
    if (words !== undefined && !(Array.isArray(words) && words.every((word) => typeof word === 'string')))
      throw createShapeError(`${id} needs.${key} is not a list of words`)
  }
}

/** A misspelled key (`inputs`, `alias`, `desciption`) would otherwise be ignored silently. */
function rejectMisspelledKeys(value: Record<string, unknown>, knownKeys: readonly string[], place: string): void {
  for (const key of Object.keys(value)) {
    if (knownKeys.includes(key)) continue
    const [near] = findNearest(key, knownKeys, 2, 1)
    if (near) throw createShapeError(`${place} has "${key}"; did you mean "${near}"?`)
  }
}

const isSynonyms = (value: unknown): boolean =>
  Array.isArray(value) &&
  value.every((group) => Array.isArray(group) && group.every((word) => typeof word === 'string'))
const isEffect = (value: unknown): value is ToolDef['effect'] =>
  value === 'read' || value === 'write' || value === 'destructive'
const isTool = (value: unknown): boolean =>
  isRecord(value) && typeof value['name'] === 'string' && typeof value['run'] === 'function'

function toolOfFile(value: unknown): ToolSource {
  if (!isRecord(value)) throw createShapeError('a tool in the list is not an object')
  const { name, run } = value
  if (typeof run !== 'function') throw createShapeError(`${String(name)} has no run function`)
  const tool = value as { run(input: unknown, ctx?: unknown): unknown; context?: boolean }
  return {
    action: checkToolName(name),
    def: createLooseDef(value, name),
    takesContext: () => wantsContext(tool),
    invoke: (input, ctx) => (wantsContext(tool) ? tool.run(input, flatContext(ctx)) : tool.run(input)),
  }
}

function toolOfScript({ name, execute, def }: Registration): ToolSource {
  const spec = isRecord(def['function']) ? def['function'] : def
  return {
    action: checkToolName(name),
    // Authors of this format rely on read-only contexts.
    def: createLooseDef(
      isEffect(spec['effect']) || spec['readOnly'] !== undefined ? spec : { ...spec, readOnly: true },
      name,
    ),
    takesContext: () => execute.length >= 2,
    async invoke(input: unknown, ctx: CallContext) {
      try {
        return await execute(input, scriptEnv(ctx))
      } catch (error) {
        if (isPegboardError(error)) throw error
        throw new ToolError(`tool exec: ${messageOf(error)}`, { cause: error })
      }
    },
  }
}

/**
 * The simpler formats declare no effects, so their tools count as writing and open-world, like tools of a server
 * without annotations.
 */
function createLooseDef(properties: Record<string, unknown>, name: unknown): Omit<ToolDef, 'run'> {
  const { description, parameters, effect } = properties
  if (typeof description !== 'string' || description === '')
    throw createShapeError(`${String(name)} has no description`)
  if (parameters !== undefined && !isRecord(parameters))
    throw createShapeError(`the parameters of ${String(name)} are not a JSON Schema`)
  checkNeeds(properties, String(name))
  const optionalKeys = [
    ...['title', 'aliases', 'tags', 'examples', 'sideEffects', 'hidden', 'idempotent', 'available'],
    ...['needs', 'provides', 'intent'],
    ...['readOnly', 'writes', 'needsUserInput', 'opaque', 'volatile'],
  ]
  return {
    ...Object.fromEntries(
      optionalKeys.filter((key) => properties[key] !== undefined).map((key) => [key, properties[key]]),
    ),
    description,
    effect: isEffect(effect) ? effect : properties['readOnly'] === true ? 'read' : 'write',
    openWorld: typeof properties['openWorld'] === 'boolean' ? properties['openWorld'] : !isEffect(effect),
    ...(parameters === undefined
      ? {}
      : {
          input: isRecord(parameters) && !('~standard' in parameters) ? { type: 'object', ...parameters } : parameters,
        }),
  }
}

function checkToolName(name: unknown): string {
  if (typeof name === 'string' && isToolName(name)) return name
  throw new PegboardError('E_NAME_INVALID', `"${String(name)}" is not a legal tool name.`)
}
