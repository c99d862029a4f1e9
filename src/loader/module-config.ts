import { messageOf, PegboardError } from '../core/errors.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { once } from '../core/once.ts'
import { type JsonSchema, toSchema } from '../core/schema.ts'
import { describeSettingError } from '../core/setting-error.ts'
import { editDistance, findNearest } from '../core/tool-names.ts'
import type { ModuleOwner } from './settle-owners.ts'
import { fillTemplates, type TemplateVars } from './templates.ts'

/** Options of a module that a profile changes. */
export interface ProfileOverride {
  readonly profile: string
  readonly changes: Readonly<Record<string, unknown>>
}

/**
 * The options of a module: checked, with defaults and filled templates.
 * @param reportUnknown called for each option that the module probably does not have, with a sentence and the fields
 * of its log entry
 * @throws PegboardError E_MODULE_CONFIG
 */
export function parseModuleConfig(
  owner: ModuleOwner,
  { config, vars }: { readonly config: unknown; readonly vars: TemplateVars },
  override: ProfileOverride | undefined,
  reportUnknown: (sentence: string, fields: Json) => void,
): unknown {
  const { id, module, records } = owner
  const isBundled = records[0]?.entry.bundled === true
  const place = `${override ? `profiles.${override.profile}.` : ''}modules.${id}.config`
  const createError = (path: string, message: string): PegboardError =>
    new PegboardError('E_MODULE_CONFIG', `${place}${path && `.${path}`}: ${message}`)
  const fill = (value: unknown, alreadyFilled?: unknown): unknown => {
    try {
      return fillTemplates(value, vars, alreadyFilled)
    } catch (error) {
      throw createError('', messageOf(error))
    }
  }
  const filled = fill(override ? { ...(config as object), ...override.changes } : (config ?? {}))
  // A drop-in without a schema may read any option.
  if (!module?.config && !isBundled) return filled
  const schema = toSchema(module?.config ?? NO_OPTIONS, describeSettingError)
  const parsed = schema.parse(filled)
  const declared = once(() => declaredOptions(schema.json))
  if (!isBundled) declared()
  if (!parsed.ok) {
    const [{ path, message } = { path: '', message: 'does not fit' }] = parsed.issues
    const [, unknown] = /^unknown key "([^"]+)"$/.exec(message) ?? []
    const [near] = unknown === undefined || path !== '' ? [] : findNearest(unknown, declared().names, 3, 1)
    throw createError(path, near ? `${message}; did you mean "${near}"?` : message)
  }
  for (const key of Object.keys(asRecord(override?.changes ?? config))) {
    const suggestion = suggestOption(key, declared(), asRecord(filled))
    if (!suggestion) continue
    const { nearest } = suggestion
    const isIgnored = !Object.hasOwn(asRecord(parsed.value), key)
    const what = isIgnored ? 'an unknown configuration key is ignored' : `${id} does not declare this option`
    const question = nearest === undefined ? '' : `; did you mean "${nearest}"?`
    reportUnknown(`${place}.${key}: ${what}${question}`, { key: `${place}.${key}`, ...omitUndefined({ nearest }) })
  }
  // Fills templates again, because defaults such as "{{workspace}}" may contain some.
  return fill(parsed.value, filled)
}

const NO_OPTIONS: JsonSchema = { type: 'object', properties: {} }

/** Keywords that can declare options besides those in `properties`. */
const OTHER_DECLARATIONS = ['patternProperties', 'propertyNames', 'allOf', 'anyOf', 'oneOf', '$ref']
/** Shorter names are too often similar to an option that the schema accepts without declaring it. */
const SHORTEST_TYPO = 5

interface DeclaredOptions {
  readonly names: readonly string[]
  /** `names` has all of them. */
  readonly isComplete: boolean
  /** The schema accepts other keys on purpose. */
  readonly acceptsOthers: boolean
}

const declaredOptions = (schema: JsonSchema): DeclaredOptions => ({
  names: Object.keys(asRecord(schema['properties'])),
  isComplete: !OTHER_DECLARATIONS.some((keyword) => schema[keyword] !== undefined),
  acceptsOthers: Boolean(schema['additionalProperties']) || !isRecord(schema['properties']),
})

/** The declared option that a key probably means, if any; undefined for a key that needs no warning. */
function suggestOption(
  key: string,
  { names, isComplete, acceptsOthers }: DeclaredOptions,
  given: Json,
): { readonly nearest: string | undefined } | undefined {
  if (!isComplete || names.includes(key)) return undefined
  if (!acceptsOthers) return { nearest: findNearest(key, names, 3, 1)[0] }
  // Only a key that looks like a missing option is probably a mistake.
  if (key.length < SHORTEST_TYPO) return undefined
  const nearest = names.find((name) => !Object.hasOwn(given, name) && editDistance(key, name, 1) === 1)
  return nearest === undefined ? undefined : { nearest }
}
