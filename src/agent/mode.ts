/** How a model is given tools: through its provider's own tool calls, or as text that it answers with calls in. */
export type ToolUseMode = 'native' | 'text'

/**
 * What the operator says about it. `off`: never as text; `force`: always; `fallback`: natively, and as text where the
 * provider refuses tools or the model writes its calls down.
 */
export type TextTools = 'off' | 'fallback' | 'force'

// Of the others either every model calls tools natively, or nothing is known against it.
const AS_TEXT: ReadonlySet<string> = new Set(['ollama', 'lmstudio', 'vllm'])

/** Case, spaces and punctuation make no difference: `LM Studio`, `lm-studio` and `lmstudio` are one. */
const normalised = (provider: string): string => provider.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

/** The mode for a provider: text for Ollama, LM Studio and vLLM, native for every other one. `override` decides alone. */
export function toolUseMode(provider: string, override?: TextTools): ToolUseMode {
  if (override !== undefined) return override === 'force' ? 'text' : 'native'
  return AS_TEXT.has(normalised(provider)) ? 'text' : 'native'
}
