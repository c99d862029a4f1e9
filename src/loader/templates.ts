/** Values for `{{…}}` in the configuration and set-up steps of a module. */
export interface TemplateVars {
  readonly workspace: string
  readonly state_dir: string
  readonly cache_dir: string
  readonly modules_dir?: string
  readonly config_file?: string
  readonly user_agent?: string
  readonly env: Readonly<Record<string, string | undefined>>
}

/**
 * Fills `{{workspace}}` and the other names in `vars`, `{{env.NAME}}` and `{{env.NAME:-default}}` in every string of
 * plain objects and arrays. Other braces stay unchanged. An empty variable counts as unset with `:-`, and stays empty with `{{env.NAME-default}}`.
 * @param filled values that are filled already, and stay unchanged
 * @throws Error naming an environment variable that is not set
 */
export function fillTemplates(value: unknown, vars: TemplateVars, filled?: unknown): unknown {
  if (typeof value === 'string') return filled === undefined ? fillText(value, vars) : value
  if (Array.isArray(value))
    return value.map((item, index) => fillTemplates(item, vars, Array.isArray(filled) ? filled[index] : filled))
  if (typeof value !== 'object' || value === null) return value
  if (!isPlain(value)) return value
  const filledAt = (key: string): unknown =>
    isPlain(filled) ? (Object.hasOwn(filled, key) ? filled[key] : undefined) : filled
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fillTemplates(item, vars, filledAt(key))]))
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

function fillText(text: string, vars: TemplateVars): string {
  return text.replaceAll(
    /\{\{\s*([\w.]+)(?:(:?-)([^{}]*))?\s*\}\}/g,
    (whole, name: string, operator?: string, fallback?: string) => {
      if (name !== 'env' && Object.hasOwn(vars, name)) return vars[name as 'workspace']
      if (!name.startsWith('env.')) return whole
      const value = vars.env[name.slice(4)]
      if (fallback !== undefined) return (operator === '-' ? value : value || undefined) ?? fallback
      if (value === undefined) throw new Error(`the environment variable ${name.slice(4)} is not set`)
      return value
    },
  )
}
