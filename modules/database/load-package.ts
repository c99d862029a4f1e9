import { ToolError } from 'pegboard'

/**
 * Loads an optional driver; its exports may be in `default`.
 * @param needs begins the error, such as "PostgreSQL needs"
 * @throws ToolError E_DB_UNAVAILABLE if the package is not installed
 */
export async function loadPackage<Exports>(
  load: () => Promise<unknown>,
  needs: string,
  name: string,
): Promise<Exports> {
  try {
    const found = (await load()) as { readonly default?: Exports } & Exports
    return found.default ?? found
  } catch (cause) {
    throw new ToolError(`${needs} the package ${name}.`, {
      code: 'E_DB_UNAVAILABLE',
      retryable: false,
      hint: `The operator runs: npm install ${name}`,
      cause,
    })
  }
}
