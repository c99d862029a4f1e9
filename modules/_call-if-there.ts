import { type CallContext, isPegboardError } from 'pegboard'

/** The value of a tool of another module; undefined if the caller does not have this tool. */
export async function callIfThere(
  { call }: Pick<CallContext, 'call'>,
  tool: string,
  input: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  try {
    const result = await call(tool, input)
    return result.kind === 'value' ? result.value : undefined
  } catch (error) {
    if (isPegboardError(error) && ['E_NOT_FOUND', 'E_TOOL_HIDDEN', 'E_TOOL_DISABLED'].includes(error.code))
      return undefined
    throw error
  }
}
