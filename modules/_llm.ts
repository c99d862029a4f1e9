import { type Llm, type Services, ToolError } from 'pegboard'

/** Why a tool that needs a language model is unavailable, in fixed words; undefined if it is available. */
export function missingLlm(tool: string, { llm }: Services, needsModel = false): string | undefined {
  if (llm === null)
    return `${tool} unavailable (missing llm client): set services.llm, or use a client that supports sampling`
  if (needsModel && llm.source === 'endpoint' && llm.model === undefined)
    return `${tool} unavailable (missing llm model): set services.llm.model`
  return undefined
}

/** The language model of a call. @throws ToolError E_TOOL_HIDDEN, for calls that bypassed the availability check */
export function llmOf(tool: string, services: Services, needsModel = false): Llm {
  const missingReason = missingLlm(tool, services, needsModel)
  if (services.llm === null || missingReason !== undefined)
    throw new ToolError(missingReason ?? `${tool} unavailable`, {
      code: 'E_TOOL_HIDDEN',
      hint: 'The operator sets services.llm.',
    })
  return services.llm
}
