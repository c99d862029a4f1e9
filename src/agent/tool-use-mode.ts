/**
 * How a model gets tools: `native` uses the tool calls of the provider API, `text` describes them in the prompt and
 * parses calls in the answer.
 */
export type ToolUseMode = 'native' | 'text'

/**
 * The operator's setting. `off`: always native. `force`: always text. `fallback`: native first, then text if the
 * provider rejects tools or the model writes calls as text.
 */
export type TextTools = 'off' | 'fallback' | 'force'

// Providers that are not listed support native tool calls, or nothing is known about them.
const AS_TEXT: ReadonlySet<string> = new Set(['ollama', 'lmstudio', 'vllm'])

/** Normalizes a provider name: `LM Studio`, `lm-studio` and `lmstudio` are equal. */
const normalised = (provider: string): string => provider.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

/** The mode for a provider: text for Ollama, LM Studio and vLLM, otherwise native. `override` has priority. */
export function toolUseMode(provider: string, override?: TextTools): ToolUseMode {
  if (override !== undefined) return override === 'force' ? 'text' : 'native'
  return AS_TEXT.has(normalised(provider)) ? 'text' : 'native'
}
