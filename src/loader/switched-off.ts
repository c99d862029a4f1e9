import { localCaller } from '../core/caller.ts'
import type { ToolDef, ToolModule, ToolView } from '../core/module.ts'
import { defaultProfile } from '../core/profile.ts'
import { isStandardSchema, toSchema } from '../core/schema.ts'

/** The JSON properties of a module or a tool, without functions and schemas. */
type PlainProperties = Readonly<Record<string, unknown>>

/**
 * The record that the build writes for a bundled module without tools in its default configuration. It shows that the
 * tools exist, and which setting enables them, without importing the code.
 */
export interface SwitchedOffRecord {
  readonly module: PlainProperties
  /** The result of the module's `enabled` without options. */
  readonly reason?: string
  readonly tools: Readonly<Record<string, { readonly tool: PlainProperties; readonly reason?: string }>>
}

const plainOf = (value: object): PlainProperties =>
  Object.fromEntries(
    Object.entries(value).filter(
      ([key, item]) =>
        typeof item !== 'function' && !isStandardSchema(item) && !['tools', 'input', 'output'].includes(key),
    ),
  )

/** For `available`. Only the program runner always exists; other services depend on configuration and caller. */
const services = new Proxy(
  {},
  {
    get(_target, name) {
      if (name === 'processes') return SERVICE
      throw new Error(`it depends on ${String(name)}`)
    },
  },
)
const SERVICE = {}

/**
 * Describes a bundled module that is off. Run by the build.
 * @returns undefined for a module that has tools without options, or whose answer depends on services or the caller;
 * such a module is always imported
 */
export function describeSwitchedOff(module: ToolModule): SwitchedOffRecord | undefined {
  try {
    const parsed = module.config ? toSchema(module.config).parse({}) : undefined
    const config = parsed?.ok ? parsed.value : {}
    const profile = { ...defaultProfile }
    const enabled = module.enabled?.({ config, profile })
    const reason = typeof enabled === 'string' ? enabled : undefined
    const tools = Object.entries(module.tools).map(([action, tool]) => {
      const view = { config, profile, caller: localCaller, services } as unknown as ToolView<unknown>
      const answer = enabled === true || enabled === undefined ? tool.available?.(view) : undefined
      return [action, { tool: plainOf(tool), ...(typeof answer === 'string' ? { reason: answer } : {}) }] as const
    })
    if (reason === undefined && tools.some(([, tool]) => tool.reason === undefined)) return undefined
    return { module: plainOf(module), ...(reason === undefined ? {} : { reason }), tools: Object.fromEntries(tools) }
  } catch {
    return undefined
  }
}

/** The module while it is off: all of its tools are hidden, each with the reason. */
export function switchedOffModule({ module, reason, tools }: SwitchedOffRecord): ToolModule {
  const createHiddenTool = ({ tool, reason }: SwitchedOffRecord['tools'][string]): ToolDef => ({
    ...(tool as unknown as ToolDef),
    ...(reason === undefined ? {} : { available: () => reason }),
    run: () => Promise.reject(new Error('it is switched off')),
  })
  return {
    ...(module as unknown as ToolModule),
    ...(reason === undefined ? {} : { enabled: () => reason }),
    tools: Object.fromEntries(Object.entries(tools).map(([action, tool]) => [action, createHiddenTool(tool)])),
  }
}
